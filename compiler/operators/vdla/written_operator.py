# SPDX-License-Identifier: Apache-2.0
"""An operator whose program an author wrote, or the mapper made for an extension's instruction.

Its tensors are those of the program; the result is `OUTPUT`.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.hardware.config import Config
from vdla.hardware.program import Program


@dataclass(frozen=True, eq=False)
class WrittenOperator:
    """A program with one source line, its cycles, and the multiply-accumulates of its layer.

    `extensions` names the instructions that it uses.
    """

    name: str
    program: Program
    macs: int
    cycles: int
    extensions: tuple[str, ...]

    origin = None
    """Written operators have no template."""

    @property
    def config(self) -> Config:
        """The machine."""
        return self.program.config

    @property
    def parameters(self) -> tuple[str, ...]:
        """The tensors that the program reads and writes, without constants of its own."""
        roles = ("input", "weight", "output")
        return tuple(tensor.name for tensor in self.program.tensors if tensor.role in roles)

    @property
    def estimated_cycles(self) -> float:
        """The cycles of the program, which are exact."""
        return float(self.cycles)

    @property
    def estimate_error(self) -> float:
        """The error of `estimated_cycles` as a factor."""
        return 1.0
