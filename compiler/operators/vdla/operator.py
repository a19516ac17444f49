# SPDX-License-Identifier: Apache-2.0
"""An operator: a scheduled function for one shape and machine, its program, its packing.

The name of a packed layout has the dimensions from the outermost to the innermost, as in oneDNN: an
upper-case letter is a dimension, a number with the letter in lower case a block of it.
`NCHW1n16c` is [N / 1, C / 16, H, W, 1, 16].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from inspect import Parameter, Signature
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, cast

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.codegen.vdla import compile_function
from vdla.compiler.operators.vdla.roles import CONSTANTS
from vdla.compiler.operators.vdla.tile_search import waits_for_memory
from vdla.compiler.operators.vdla.tile_timeline import estimate
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.support.errors import Error
from vdla.support.html_repr import shown_by
from vdla.support.integers import to_python
from vdla.support.suggest import did_you_mean
from vdla.support.window import Window


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout by name, and its dimensions as the program's tensors describe them.

    With `gaps`, sections of channels do not fill whole blocks, and are padded. A layout of
    `patches` has the elements of this window of the image as channels.
    """

    name: str
    dimensions: str
    gaps: bool = False
    patches: Window | None = None

    def __str__(self) -> str:
        return self.name


def in_sections(layout: Layout, at: int, *, gaps: bool = False) -> Layout:
    """The layout with a dimension G of sections of channels at `place`: 1 behind a batch."""
    sides = layout.dimensions.split(", ")
    dimensions = ", ".join([*sides[:at], "sections", *sides[at:]])
    return replace(layout, name=f"{layout.name[:at]}G{layout.name[at:]}", dimensions=dimensions, gaps=gaps)


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
    `pack_inputs` converts only the activations and `pack_constants` the other arguments of `pack`.
    `layouts` has the layout of each tensor. `macs` counts the multiply-accumulates of the
    definition, without padding. `problem` is the problem of the tiling search, and `timed` the one
    that estimates cycles; `tiling` is the chosen tiling, shown by `description`, and `with_tiles`
    gives the operator with another one. `mapped` is the mapping of the plain expression with these
    tiles, a `MappedOperator`.
    """

    name: str
    config: Config
    mapped: Any
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

    _repr_html_ = shown_by("programs", "operator_html")

    @property
    def function(self) -> ir.Function:
        """The scheduled function; the schedule is made when it is needed."""
        function: ir.Function = self.mapped.function
        return function

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The packed shapes of the function's parameters, known before it is scheduled."""
        return {tensor.name: tensor.shape for tensor in self.mapped.untiled.tensors}

    @property
    def dimensions(self) -> dict[str, str]:
        """The dimensions of each tensor's layout, as the program's tensors describe them."""
        return {name: layout.dimensions for name, layout in self.layouts.items()}

    @cached_property
    def estimated_cycles(self) -> float:
        """Estimated cycles of the program alone, by the coarse run of the tiling search."""
        return estimate(self.config, self.timed, self.tiling)

    @property
    def estimate_error(self) -> float:
        """The error of the estimated cycles as a factor, infinite if unknown.

        Short programs are dominated by overheads that the coarse run ignores, and the run is wrong
        where bursts cannot keep the memory busy (`waits_for_memory`).
        """
        if waits_for_memory(self.config):
            return math.inf
        return _SHORT_ERROR if self.estimated_cycles < _SHORT_PROGRAM else _LONG_ERROR

    @cached_property
    def program(self) -> Program:
        """The compiled program."""
        weights = tuple(name for name in CONSTANTS if name in self.function.params)
        return compile_function(self.config, self.function, weights, self.dimensions)


Options = ParamSpec("Options")
_shared: ContextVar[dict[Hashable, Operator] | None] = ContextVar("_shared", default=None)

OptionChooser = Callable[[Callable[..., Operator], Config, Mapping[str, Any]], Mapping[str, Any]]
"""Maps a call of a template to options to add or replace, such as the tiles."""

_chooser: ContextVar[OptionChooser | None] = ContextVar("_chooser", default=None)


@contextmanager
def chosen_options(chooser: OptionChooser | None) -> Iterator[None]:
    """A context in which `chooser` adds options to every call of a template."""
    token = _chooser.set(chooser)
    try:
        yield
    finally:
        _chooser.reset(token)


@contextmanager
def shared_operators() -> Iterator[None]:
    """A context in which equal calls of templates share an operator, which is lowered once.

    Nested contexts share operators.
    """
    known = _shared.get()
    token = _shared.set({} if known is None else known)
    try:
        yield
    finally:
        _shared.reset(token)


class OperatorForm(Protocol):
    """A template: a dataclass whose fields are the machine and then the options.

    Fields that the constructor does not take are no options, nor are those that begin with an
    underscore, which an option's value decides.
    """

    def operator(self) -> Operator:
        """The operator with these options."""


def choice(*words: str, default: object = MISSING) -> Any:  # noqa: ANN401  as `field` does
    """A field of a form that is one of a few words."""
    return field(default=default, metadata={"words": words})


def template(
    name: str, form: Callable[Concatenate[Config, Options], OperatorForm]
) -> Callable[Concatenate[Config, Options], Operator]:
    """A function from the options of a form to an operator; it checks option names and accepts
    NumPy scalars.
    """
    declared: Any = form
    declared_options = _options(declared)
    parameters = [_parameter(option) for option in declared_options]
    options = [parameter.name for parameter in parameters]
    choices = {option.name: option.metadata["words"] for option in declared_options if "words" in option.metadata}
    required = [parameter.name for parameter in parameters if parameter.default is Parameter.empty]

    def checked(config: Config, *words: Options.args, **given: Options.kwargs) -> Operator:
        if not isinstance(config, Config):
            raise TemplateError(f"{name}: config must be a Config, got {type(config).__name__}")
        for key in given:
            if key not in options:
                hint = did_you_mean(key, options)
                raise TemplateError(f"{name}: option must be one of {', '.join(options)}, got {key}{hint}")
        missing = [key for key in required if key not in given]
        if missing:
            raise TemplateError(f"{name}: {', '.join(missing)} must be given, got none")
        made = {key: _to_python(value) for key, value in given.items()}
        known, call = _shared.get(), (form, config, _chooser.get(), *sorted(made.items()))
        if known is None or not _is_hashable(call):
            return applied(config, made)
        if call not in known:
            known[call] = applied(config, made)
        return known[call]

    def applied(config: Config, given: Mapping[str, Any]) -> Operator:
        chooser = _chooser.get()
        more = {} if chooser is None else chooser(checked, config, given)
        filled = declared(config, **{**given, **more})
        for option, words in choices.items():
            if getattr(filled, option) not in words:
                rule = f"{option} must be {', '.join(words[:-1])} or {words[-1]}"
                raise TemplateError(f"{filled.name or name}: {rule}, got {getattr(filled, option)!r}")
        made: Operator = filled.operator()
        return replace(made, origin=OperatorOrigin(checked, given))

    function: Any = checked
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = form.__module__, form.__doc__
    config = Parameter("config", Parameter.POSITIONAL_OR_KEYWORD, annotation="Config")
    function.__signature__ = Signature([config, *parameters], return_annotation="Operator")
    return cast("Callable[Concatenate[Config, Options], Operator]", function)


def _options(form: type[Any]) -> list[Field[Any]]:
    """The options of a form: those without a default, others of its own, those of all forms."""
    root = next(base for base in reversed(form.__mro__) if is_dataclass(base))
    shared = {option.name for option in fields(root)}
    options = [option for option in fields(form) if option.init and option.name[0] != "_" and option.kw_only]
    return sorted(options, key=lambda option: (option.default is not MISSING, option.name in shared))


def _parameter(option: Field[Any]) -> Parameter:
    default = Parameter.empty if option.default is MISSING else option.default
    annotation = Literal[option.metadata["words"]] if "words" in option.metadata else option.type
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


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
