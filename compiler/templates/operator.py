"""An operator: a scheduled function for one shape and machine, its program, and the way in and out of its layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.compile import compile_function
from vdla.hardware.config import Config
from vdla.hardware.program import Program

Array = npt.NDArray[Any]
Factors = Array | float | None  # real multipliers: one a channel, one for all, or 1
WEIGHTS = ("weight", "scale")  # the parameters that stay the same from run to run


class TemplateError(ValueError):
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
