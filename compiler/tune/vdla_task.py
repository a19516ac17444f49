# SPDX-License-Identifier: Apache-2.0
"""Tuning tasks for the accelerator: the forms of an operator and all tiles that fit the buffers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import te
from vdla.compiler.operators.vdla import Operator
from vdla.compiler.operators.workloads import Workload
from vdla.compiler.schedule import unchecked
from vdla.compiler.templates import conv2d, conv2d_transpose, depthwise_conv2d
from vdla.compiler.tune.features import FEATURES, tile_features
from vdla.compiler.tune.space import Ints, Point, Space, TuneError
from vdla.compiler.tune.task import content_key
from vdla.compiler.tune.vdla_estimate import TileEstimate
from vdla.compiler.tune.vdla_forms import ExpressionSource, Form, FormSource, TemplateSource
from vdla.compiler.tune.vdla_space import FORM, WITHOUT_STRIPS, tile_space, tiling_of
from vdla.hardware.config import Config
from vdla.hardware.program import Program

SPACE_VERSION = 3
"""Points of another version mean something else."""


@dataclass(frozen=True, eq=False)
class VdlaTask:
    """An operator on a machine."""

    name: str
    config: Config
    source: FormSource

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what is derived, which may not be picklable."""
        return VdlaTask, (self.name, self.config, self.source)

    @cached_property
    def key(self) -> str:
        """A hash of the plain operator, the whole machine and the version of the space."""
        machine = {name: value for name, value in self.config.to_dict().items() if name != "name"}
        content = json.dumps([self.source.definition, machine, SPACE_VERSION], sort_keys=True)
        return content_key(content)

    @cached_property
    def forms(self) -> Mapping[str, Form]:
        """The forms by their labels."""
        return {form.label: form for form in self.source.forms(self.config)}

    @cached_property
    def space(self) -> Space:
        """Forms and tiles.

        Raises:
            TuneError: no tile of any form fits the buffers.
        """
        problems = {label: form.problem for label, form in self.forms.items()}
        return tile_space(f"{self.name} on {self.config.name}", self.config, problems)

    def of_log(self, point: Point) -> Point:
        """The point; one of a log that is older than strips has none."""
        return {**WITHOUT_STRIPS, **point}

    def build(self, point: Point) -> Program:
        """The program of a point."""
        return self._form(point).program(tiling_of(point))

    def draft(self, point: Point) -> Program:
        """The program of a point, whose schedule is not checked."""
        with unchecked():
            return self.build(point)

    def overhead(self, point: Point) -> float:
        """Cycles of the host, which lays out elements several times."""
        return self._form(point).overhead

    def _form(self, point: Point) -> Form:
        """The form of a legal point."""
        self.space.index(point)
        return self.forms[str(point[FORM])]

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        """Cycles, roughly, with those of the host."""
        return self._estimate.cycles(indices)

    @cached_property
    def _estimate(self) -> TileEstimate:
        return TileEstimate(self.config, self.forms, self.space)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of `FEATURES`."""
        return tuple(feature.name for feature in FEATURES)

    def features(self, indices: Ints) -> NDArray[np.float32]:
        """[point, feature]."""
        matrix, estimates = np.zeros((len(indices), len(FEATURES)), np.float32), self.estimate(indices)
        for form, chosen, tiles in self._estimate.by_form(indices):
            matrix[chosen] = tile_features(self.config, form.problem, tiles, estimates[chosen])
        return matrix


def expression_task(output: te.Tensor, config: Config, name: str = "") -> VdlaTask:
    """The task of a plain expression: every legal mapping onto the machine, with its tiles."""
    return VdlaTask(name or output.name, config, ExpressionSource(output))


def template_task(template: Callable[..., Operator], config: Config, **options: Any) -> VdlaTask:  # noqa: ANN401
    """The task of a template with its options.

    Raises:
        TuneError: an option chooses tiles.
    """
    name = str(options.get("name", template.__name__))
    for chosen in ("tiling", "virtual_threads"):
        if chosen in options:
            raise TuneError(f"tune {name}: {chosen} must be left to the tuner, got {options[chosen]!r}")
    return VdlaTask(name, config, TemplateSource(template, options))


def layer_task(layer: Workload, config: Config, *, raw: bool = False) -> VdlaTask:
    """The layouts and tiles of a layer; with `raw`, results are the int32 sums."""
    shape = {
        "batch": layer.batch,
        "height": layer.height,
        "width": layer.width,
        "kernel": layer.kernel,
        "strides": layer.strides,
        "pads": layer.pads,
        "raw": raw,
        "name": f"{layer.name}_raw" if raw else layer.name,
    }
    if layer.operator == "depthwise_conv2d":
        return template_task(depthwise_conv2d, config, **shape, channels=layer.in_channels)
    channels = {"in_channels": layer.in_channels, "out_channels": layer.out_channels}
    template = conv2d_transpose if layer.operator == "conv2d_transpose" else conv2d
    return template_task(template, config, **shape, **channels)
