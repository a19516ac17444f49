# SPDX-License-Identifier: Apache-2.0
"""A sweep as a task of the tuner: points are machines, costs the cycles of all layers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.tune import Built, Point, Space, TuningTask
from vdla.compiler.tune.space import Ints
from vdla.hardware.config import Config
from vdla.runtime.studies.layer_cycles import layer_cycles, types_of
from vdla.runtime.studies.layers import EvaluatedLayer, steps_of
from vdla.runtime.studies.sweep import ExploreError, machine_of
from vdla.runtime.tune.trial import TuningError
from vdla.support.toolkit_digest import toolkit_digest

_FEATURES = ("steps over the peak rate",)


@dataclass(frozen=True, eq=False)
class SweepTask:
    """Layers on the machines of a space; `sources` are the extensions of `base`."""

    name: str
    base: Config
    sources: tuple[str, ...]
    layers: tuple[EvaluatedLayer, ...]
    space: Space
    feature_names: tuple[str, ...] = _FEATURES

    @property
    def key(self) -> str:
        """A hash of layers, machine, knobs and the toolkit."""
        types = types_of(self.base)
        layers = [
            [layer.name, layer.count, str(layer.expression(types)), str(layer.plain_expression(types))]
            for layer in self.layers
        ]
        machine = {name: value for name, value in self.base.to_dict().items() if name != "name"}
        content = [layers, machine, list(map(str, self.space.knobs)), toolkit_digest()]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def cycles(self, point: Point) -> float:
        """The cycles of all layers on a machine, each times its count in the network.

        Raises:
            Error: the machine cannot run a layer.
        """
        machine = machine_of(self.base, self.sources, point)
        return sum(layer.count * layer_cycles(layer, machine.config, machine.sources) for layer in self.layers)

    def of_log(self, point: Point) -> Point:
        """As `TuningTask`; the key has the knobs, so it is one of the space."""
        return point

    def build(self, point: Point) -> Built:
        """As `TuningTask`; a machine is not a program."""
        raise ExploreError(f"explore {self.name}: a point must be measured by MachineMeasurer, got {dict(point)}")

    draft = build

    def overhead(self, point: Point) -> float:
        """As `TuningTask`; nothing."""
        return 0.0

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        """Steps at the peak rate of each machine."""
        total = sum(layer.count * steps_of(layer.expression(types_of(self.base))) for layer in self.layers)
        return np.array([total / self._rate(self.space.point(int(index))) for index in indices])

    def _rate(self, point: Point) -> int:
        return machine_of(self.base, self.sources, point).config.macs_per_cycle

    def features(self, indices: Ints) -> NDArray[np.float32]:
        """[point, feature]."""
        return self.estimate(indices)[:, None].astype(np.float32)


@dataclass(frozen=True, slots=True)
class MachineMeasurer:
    """Measures points of sweeps on the simulator; as `Measurer`."""

    unit: str = "cycles"
    most_workers: int | None = None

    def missing(self, task: TuningTask) -> str:
        """Nothing: the simulator is every machine."""
        return ""

    def measure(self, task: TuningTask, point: Point) -> float:
        """The cycles of all layers."""
        if not isinstance(task, SweepTask):
            raise TuningError(f"tune {task.name}: task must be a sweep, got {task!r}")
        return task.cycles(point)


def sweep_task(
    base: Config, sources: Sequence[str], layers: Sequence[EvaluatedLayer], space: Space, name: str
) -> SweepTask:
    """The task of a sweep."""
    return SweepTask(name=name, base=base, sources=tuple(sources), layers=tuple(layers), space=space)


SEARCHES = ("exhaustive", "random", "estimate", "genetic")
"""Searches that need no cost model."""
