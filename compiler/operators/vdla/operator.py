"""An operator: a scheduled function for one shape and machine, its program, its packing."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.codegen.vdla import compile_function
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.roles import SCALE, WEIGHT
from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tile_search import waits_for_memory
from vdla.compiler.operators.vdla.tile_timeline import timeline
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.support.errors import Error
from vdla.support.integers import to_python
from vdla.support.suggest import did_you_mean

Array = npt.NDArray[Any]
_SHORT_PROGRAM = 20_000  # cycles
_SHORT_ERROR, _LONG_ERROR = 4.0, 1.5
Factors = Array | float | None  # real multipliers: one for each channel, or one for all


class TemplateError(Error, ValueError):
    """A shape, option or array that an operator does not support."""


@dataclass(frozen=True, eq=False)
class OperatorOrigin:
    """A template and the options that it was called with, beside the configuration."""

    template: Callable[..., Operator]
    options: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Operator:
    """The result of a template.

    `pack(...)` converts plain arrays (NCHW activations, OIHW weights, a bias and a real multiplier
    for each channel) to the program's inputs by name; `unpack` converts its outputs back.
    `pack_inputs` takes the activations alone and `pack_constants` all that `pack` takes after them:
    `pack` gives both. `layouts`
    has the layout of each tensor. `macs` counts the multiply-accumulates of the definition, without
    padding. `problem` is what its tiles cut up, and `timed` the same with all that takes cycles;
    `tiling` is the chosen one, which `description` names, and `with_tiles` gives the operator with
    another one that fits.
    """

    name: str
    config: Config
    function: ir.Function
    macs: int
    pack: Callable[..., dict[str, Array]]
    pack_inputs: Callable[..., dict[str, Array]]
    pack_constants: Callable[..., dict[str, Array]]
    unpack: Callable[[Mapping[str, Array]], Array]
    layouts: Mapping[str, Layout]
    problem: TilingProblem
    timed: TilingProblem
    tiling: Tiling
    with_tiles: Callable[[Tiling], Operator]
    description: str = ""
    origin: OperatorOrigin | None = None

    def __repr__(self) -> str:
        return f"<Operator {self.name} for {self.config.name}: {self.description}>"

    @property
    def dimensions(self) -> dict[str, str]:
        """The dimensions of each tensor's layout, as the program's tensors describe them."""
        return {name: layout.dimensions for name, layout in self.layouts.items()}

    @cached_property
    def estimated_cycles(self) -> float:
        """Cycles of the program alone, by the coarse run that the search for tiles ranks with."""
        return float(timeline(self.config, self.timed, Candidates.of(self.tiling))[0])

    @property
    def estimate_error(self) -> float:
        """The factor by which the cycles may be more or less than estimated, infinite if unknown.

        Programs of few cycles are dominated by what the coarse run leaves out, and it is wrong
        where bursts cannot keep the memory busy (`waits_for_memory`).
        """
        if waits_for_memory(self.config):
            return math.inf
        return _SHORT_ERROR if self.estimated_cycles < _SHORT_PROGRAM else _LONG_ERROR

    @cached_property
    def program(self) -> Program:
        """The compiled program."""
        weights = tuple(name for name in (WEIGHT, SCALE) if name in self.function.params)
        return compile_function(self.config, self.function, weights, self.dimensions)


Template = TypeVar("Template", bound=Callable[..., Operator])
_shared: ContextVar[dict[Hashable, Operator] | None] = ContextVar("_shared", default=None)

OptionChooser = Callable[[Callable[..., Operator], Config, Mapping[str, Any]], Mapping[str, Any]]
"""For a call of a template, options to add or to replace, such as the tiles."""

_chooser: ContextVar[OptionChooser | None] = ContextVar("_chooser", default=None)


@contextmanager
def chosen_options(chooser: OptionChooser | None) -> Iterator[None]:
    """A context in which every call of a template gets the options that `chooser` gives for it."""
    token = _chooser.set(chooser)
    try:
        yield
    finally:
        _chooser.reset(token)


@contextmanager
def shared_operators() -> Iterator[None]:
    """A context in which equal calls of templates give one operator, so that it is lowered once.

    A context inside another shares with it.
    """
    known = _shared.get()
    token = _shared.set({} if known is None else known)
    try:
        yield
    finally:
        _shared.reset(token)


def template(function: Template) -> Template:
    """A template that checks the names of its options and accepts NumPy scalars."""
    name, parameters = function.__name__, inspect.signature(function).parameters
    options = {key: parameter for key, parameter in parameters.items() if key != "config"}

    @wraps(function)
    def checked(config: Config, **given: Any) -> Operator:  # noqa: ANN401  the options of the template
        if not isinstance(config, Config):
            raise TemplateError(f"{name}: config must be a Config, got {type(config).__name__}")
        for key in given:
            if key not in options:
                hint = did_you_mean(key, options)
                raise TemplateError(f"{name}: option must be one of {', '.join(options)}, got {key}{hint}")
        missing = [key for key, option in options.items() if option.default is option.empty and key not in given]
        if missing:
            raise TemplateError(f"{name}: {', '.join(missing)} must be given, got none")
        made = {key: _to_python(value) for key, value in given.items()}
        known, call = _shared.get(), (function, config, _chooser.get(), *sorted(made.items()))
        if known is None or not _is_hashable(call):
            return applied(config, made)
        if call not in known:
            known[call] = applied(config, made)
        return known[call]

    def applied(config: Config, options: Mapping[str, Any]) -> Operator:
        chooser = _chooser.get()
        more = {} if chooser is None else chooser(checked, config, options)
        return replace(function(config, **{**options, **more}), origin=OperatorOrigin(checked, options))

    return cast("Template", checked)


def _is_hashable(key: object) -> bool:
    """Whether a key has a hash; options that are arrays have none."""
    try:
        hash(key)
    except TypeError:
        return False
    return True


def _to_python(option: Any) -> Any:  # noqa: ANN401  any option of a template
    """An option with its NumPy scalars as Python numbers, and a sequence as a tuple."""
    several = isinstance(option, tuple | list) or (isinstance(option, np.ndarray) and option.ndim > 0)
    return tuple(map(to_python, option)) if several else to_python(option)
