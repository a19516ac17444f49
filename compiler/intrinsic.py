"""Tensor intrinsics: declared, not built in. The machine's own operations use the API that a user's do.

An intrinsic says what it computes on one entry of each operand (a tensor expression), where each operand lives and how
it becomes instructions: of the VDLA, with what they cost, or of a CPU, with the features that the CPU must have.
Matching (`tensorize`) and lowering know nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vdla.compiler import ir, te
from vdla.hardware.config import Config

GLOBAL = "global"
IMMEDIATE = "immediate"
CONDITION = "condition"
MEMORY = "memory"  # of a CPU: whatever buffer
ON_CHIP = ("inp", "wgt", "scl", "acc", "out")
SCOPES = {
    "vdla": (GLOBAL, *ON_CHIP, IMMEDIATE, CONDITION),
    "cpu": (MEMORY, IMMEDIATE, CONDITION),
}


class IntrinsicError(ValueError):
    """A declaration that contradicts itself."""


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """One tensor instruction of a machine: `target` is "vdla" or "cpu".

    `output` is the behaviour: a tensor expression of one block over placeholders, all of them one *entry* (the operand
    of a single step). `scopes` places every placeholder and the output: "memory" (a CPU's: whatever buffer), an on-chip
    buffer or "global" (the VDLA's), "immediate" (a placeholder of shape (1,) that stands for a constant of the
    program) or "condition" (a bool placeholder of shape (1,) that stands for any condition on loop variables).
    `in_place` names an operand that shares the output's storage.

    Of the VDLA: `lower` turns a nest of steps (a `Nest`) into macro-ops; `cycles` gives the duration of a number of
    steps on a configuration; `epilogue` marks an intrinsic that can run in the pass that produces its operand. Of a
    CPU: `lower` emits one step (a `NativeStep`), and `requires` are the features, by LLVM's names, without which a CPU
    runs the behaviour instead.
    """

    name: str
    output: te.Tensor
    scopes: Mapping[str, str]
    lower: Callable[[Any], Any]
    cycles: Callable[[Config, int], int] | None = None
    in_place: str | None = None
    epilogue: bool = False
    target: str = "vdla"
    requires: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"intrinsic {self.name}"
        self._check_target(where)
        names = set(self.behaviour.params)
        if names != set(self.scopes):
            wanted, got = (", ".join(sorted(some)) for some in (names, set(self.scopes)))
            raise IntrinsicError(f"{where}: scopes must name exactly {wanted}, got {got}")
        known = SCOPES[self.target]
        for operand, scope in self.scopes.items():
            if scope not in known:
                raise IntrinsicError(f"{where}: scope of {operand} must be one of {', '.join(known)}, got {scope!r}")
        if self.in_place is not None and self.scopes.get(self.in_place) != self.scopes[self.output.name]:
            raise IntrinsicError(
                f"{where}: in_place must name an operand in the scope of the output, got {self.in_place!r}"
            )
        if len([s for s in ir.walk(self.behaviour.body) if isinstance(s, ir.Block)]) != 1:
            raise IntrinsicError(f"{where}: behaviour must be a single computation, got\n{self.behaviour}")

    def _check_target(self, where: str) -> None:
        """Refuse an unknown machine, and what only the other one has."""
        if self.target not in SCOPES:
            raise IntrinsicError(f"{where}: target must be one of {', '.join(SCOPES)}, got {self.target!r}")
        if not isinstance(self.requires, tuple) or not all(isinstance(name, str) for name in self.requires):
            raise IntrinsicError(f"{where}: requires must be a tuple of names of features, got {self.requires!r}")
        if self.target == "vdla" and self.requires:
            raise IntrinsicError(f"{where}: requires must be empty for target vdla, got {', '.join(self.requires)}")
        if self.target == "vdla" and self.cycles is None:
            raise IntrinsicError(f"{where}: cycles must be given for target vdla, got None")
        if self.target == "cpu" and self.epilogue:
            raise IntrinsicError(f"{where}: epilogue must be False for target cpu, got True")

    @cached_property
    def behaviour(self) -> ir.Function:
        """The tensor expression as a loop nest: placeholders first, the output last."""
        stage = self.output.stage
        inputs = [t for t in stage.reads if t.stage is None] if stage else []
        return te.create_function(inputs, [self.output], self.name)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Match:
    """How a block computes an intrinsic: which buffer each operand is, and which entry of it, over the block's axes.

    `entries[operand]` are the leading indices, those before the dimensions of one entry. A `condition` operand that is
    absent from `conditions` always holds.
    """

    intrinsic: Intrinsic
    buffers: Mapping[str, str]
    entries: Mapping[str, tuple[ir.Expr, ...]]
    immediates: Mapping[str, ir.Scalar]
    conditions: Mapping[str, ir.Expr]

    def __repr__(self) -> str:
        return self.intrinsic.name
