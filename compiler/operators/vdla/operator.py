"""An operator: a scheduled function for one shape and machine, its program, and the way in and out of its layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.codegen.vdla.compile import compile_function
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.support.errors import Error
from vdla.support.integers import to_python

Array = npt.NDArray[Any]
Factors = Array | float | None  # real multipliers: one a channel, one for all, or 1
WEIGHTS = ("weight", "scale")  # the parameters that stay the same from run to run


class TemplateError(Error, ValueError):
    """A shape, option or array that an operator does not have."""


@dataclass(frozen=True, eq=False)
class Operator:
    """What a template returns.

    `pack(...)` takes plain arrays (NCHW activations, OIHW weights, one bias and one real multiplier a channel) to the
    arrays of the program by name; `unpack` takes its outputs back. `macs` counts what the operator defines, without
    padding; `description` says which tiles were chosen.
    """

    name: str
    config: Config
    function: ir.Function
    macs: int
    pack: Callable[..., dict[str, Array]]
    unpack: Callable[[Mapping[str, Array]], Array]
    layouts: Mapping[str, str]
    description: str = ""

    def __repr__(self) -> str:
        return f"<Operator {self.name} for {self.config.name}: {self.description}>"

    @cached_property
    def program(self) -> Program:
        """The compiled program."""
        weights = tuple(name for name in WEIGHTS if name in self.function.params)
        return compile_function(self.config, self.function, weights, self.layouts)


Template = TypeVar("Template", bound=Callable[..., Operator])


def template(function: Template) -> Template:
    """Mark an operator's template: its options may be numbers of numpy's, its first argument is a Config."""

    @wraps(function)
    def checked(config: Config, **options: Any) -> Operator:  # noqa: ANN401  those of the template
        if not isinstance(config, Config):
            raise TemplateError(f"{function.__name__}: config must be a Config, got {type(config).__name__}")
        return function(config, **{name: _plain(value) for name, value in options.items()})

    return cast("Template", checked)


def _plain(option: Any) -> Any:  # noqa: ANN401  any option of a template
    """An option without numbers of numpy's; several of them as a tuple."""
    several = isinstance(option, tuple | list) or (isinstance(option, np.ndarray) and option.ndim > 0)
    return tuple(map(to_python, option)) if several else to_python(option)
