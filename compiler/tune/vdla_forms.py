# SPDX-License-Identifier: Apache-2.0
"""The forms of an operator on the accelerator: mappings of an expression, layouts of a template.

A form fixes everything but the tiles; what the tiles cut up is its `problem`. A source, unlike its
forms, can be pickled.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from vdla.compiler import te
from vdla.compiler.map import MappedOperator, candidates
from vdla.compiler.operators.vdla import Operator, TemplateError, Tiling
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, TilingProblem
from vdla.compiler.templates.conv2d import Conv2d, conv2d
from vdla.hardware.config import Config
from vdla.hardware.program import Program

_NOT_DEFINING = (
    "config", "name", "tiling", "virtual_threads", "activation", "floor", "ceiling", "zero_point", "factors",
)  # fmt: skip
_LATER = ("table",)
"""Options that are younger than the logs count where they are set, so that logs stay valid."""
_SMALLEST = Tiling(rows=1, cols=1, out_blocks=1, in_blocks=1, keep_weights=False, threads=1, threads_over=LOOPS[1])


class FormSource(Protocol):
    """Where forms come from."""

    @property
    def definition(self) -> str:
        """The plain operator as text, the same for equal operators."""
        ...

    def forms(self, config: Config) -> Sequence[Form]:
        """The forms on a machine, at least one."""
        ...


# --- mappings of plain expressions ----------------------------------------------------------------


@dataclass(frozen=True)
class MappedForm:
    """A mapping of a plain expression."""

    operator: MappedOperator

    @property
    def label(self) -> str:
        """The mapping, in a line."""
        return str(self.operator.mapping)

    @property
    def problem(self) -> TilingProblem:
        """What the tiles cut up."""
        return self.operator.problem

    @property
    def overhead(self) -> float:
        """Cycles of the host, which lays out elements several times."""
        return self.operator.extra_cycles

    def program(self, tiling: Tiling) -> Program:
        """The compiled program."""
        return self.operator.with_tiles(tiling).program


@dataclass(frozen=True, eq=False)
class ExpressionSource:
    """A plain expression, whose forms are its mappings."""

    output: te.Tensor

    @property
    def definition(self) -> str:
        """The function of the expression."""
        return str(te.create_function(_placeholders(self.output), [self.output], "plain"))

    def forms(self, config: Config) -> Sequence[Form]:
        """Every legal mapping.

        Raises:
            MapError: no intrinsic of the machine covers the expression.
        """
        return [MappedForm(operator) for operator in candidates(self.output, config).found]


def _placeholders(output: te.Tensor) -> list[te.Tensor]:
    """The plain inputs, in the order in which they are read."""
    if output.stage is None:
        return [output]
    placeholders = {tensor.name: tensor for read in output.stage.reads for tensor in _placeholders(read)}
    return list(placeholders.values())


# --- templates ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TemplateForm:
    """A template with its options. What the host lays out several times is not charged."""

    template: Callable[..., Operator]
    config: Config
    options: Mapping[str, Any]
    label: str = "template"
    overhead: float = 0.0

    @cached_property
    def _smallest(self) -> Operator:
        return self.template(self.config, **self.options, tiling=_SMALLEST)

    @property
    def problem(self) -> TilingProblem:
        """What the tiles cut up.

        Raises:
            TemplateError: the smallest tile does not fit the buffers.
        """
        return self._smallest.problem

    def program(self, tiling: Tiling) -> Program:
        """The compiled program. A grouped convolution packs its borders as suits the tiles."""
        if self.options.get("groups", 1) > 1:
            return self.template(self.config, **self.options, tiling=tiling).program
        return self._smallest.with_tiles(tiling).program


Form = MappedForm | TemplateForm
"""A way to compute an operator, with any tiles; `label` is the value of the knob `form`."""


@dataclass(frozen=True, eq=False)
class TemplateSource:
    """A template with its options, whose forms are its layouts."""

    template: Callable[..., Operator]
    options: Mapping[str, Any]

    @property
    def definition(self) -> str:
        """The template and the options on which cycles depend, each spelled in one way.

        The name does not count, nor do numbers that only fill fields of instructions.
        """
        defaults = {key: option.default for key, option in inspect.signature(self.template).parameters.items()}
        every = {**defaults, **self.options}
        without = {*_NOT_DEFINING, *(key for key in _LATER if every.get(key) == defaults.get(key))}
        options = {key: _spelled(key, value) for key, value in every.items() if key not in without}
        return json.dumps([self.template.__name__, options], sort_keys=True)

    def forms(self, config: Config) -> Sequence[Form]:
        """The layouts that fit the machine, or the template itself if it has no choice.

        Where channels fill their blocks, all layouts have equal products: the one that reads least.
        """
        options, several = self.options, self.options.get("packing", "auto") == "auto"
        if self.template is not conv2d or options.get("groups", 1) > 1 or not several:
            return [TemplateForm(self.template, config, options)]
        packings = Conv2d(config, **options).packings
        every = [TemplateForm(conv2d, config, {**options, "packing": packing}, packing) for packing in packings]
        forms = [form for form in every if _fits(form)] or every[:1]
        return [*forms[: 1 if options["in_channels"] >= config.block_in else None]]


def _spelled(key: str, value: object) -> object:
    """An option as JSON: a sequence that repeats one value, as a square kernel, is that value.

    Of a zero point of inputs, it matters whether it is 0: padding with others takes instructions.
    """
    values = [*value] if isinstance(value, tuple | list) else [value]
    if key.startswith("input_zero_point"):
        values = [bool(item) for item in values]
    return values[0] if len(set(values)) == 1 else values


def _fits(form: TemplateForm) -> bool:
    try:
        return bool(form.problem)
    except TemplateError:
        return False
