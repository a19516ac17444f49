# SPDX-License-Identifier: Apache-2.0
"""Declarations of tensor intrinsics; the machine's own operations use the same API as a user's.

A declaration gives the behaviour on one entry of each operand (a tensor expression), the scope of
each operand, and the lowering to instructions of the VDLA or of a CPU. Matching and lowering use
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.ir import expr_text
from vdla.compiler.te import Stage
from vdla.compiler.tensorize.fragment import Fragment, IntrinsicError
from vdla.support.keywords import checked_keywords

GLOBAL = "global"
IMMEDIATE = "immediate"
CONDITION = "condition"
MEMORY = "memory"  # any buffer of a CPU
SHARED = "shared"  # by the threads of a block of a GPU
WARP = "warp"  # of a GPU: held by its lanes, in registers
ON_CHIP = ("inp", "wgt", "scl", "acc", "out")
_SCOPES = {
    "vdla": (GLOBAL, *ON_CHIP, IMMEDIATE, CONDITION),
    "cpu": (MEMORY, IMMEDIATE, CONDITION),
    "gpu": (SHARED, WARP),
}
ANYWHERE = (SHARED, WARP)
"""Scopes in which an entry begins at any index of each dimension, as a tile of a larger one."""


@dataclass(frozen=True, slots=True)
class StepCycles:
    """The cost of an intrinsic: cycles of a step, and those of an instruction beside its steps."""

    step: int
    pause: int


@checked_keywords(IntrinsicError)
@dataclass(frozen=True, eq=False)
class Intrinsic:
    """One tensor instruction of a machine: `target` is "vdla", "cpu" or "gpu".

    `output` is the behaviour: a tensor expression of one block over placeholders, each of them one
    *entry*, the operand of a single step. `scopes` gives the scope of every placeholder and of the
    output: an on-chip buffer or "global" of the VDLA, "memory" of a CPU, "immediate" (a placeholder
    of shape (1,): a constant of the program) or "condition" (a bool placeholder of shape (1,): any
    condition on loop variables). `in_place` names an operand that shares the output's storage.
    `ranges` has the least and the greatest value of immediates that are not any of their type;
    `cycles` gives the cost of a step for the immediates, where it is more than one cycle. With
    `skips_padding`, the compiler leaves out steps on padding that changes no sum.

    VDLA: `lower` turns a nest of steps (a `TensorizedNest`) into macro-ops; `epilogue` marks an
    intrinsic that can run in the pass that produces its operand; results of one with `stage_loads`
    go through the machine's stage, whose state these macro-ops load. CPU: `lower` emits one call
    with an `IntrinsicEmitter`; a CPU that lacks one of the features `requires`, by LLVM's names,
    runs the behaviour instead. GPU: a step is one of a warp; `lower` emits its instruction with a
    `FragmentEmitter`, and `fragments` has the layout of each operand over the lanes. A GPU without
    it has each lane compute the elements of the output that it holds.

    Each index of an operand is one axis of the entry, or on the VDLA a number (the first one of a
    CPU's may be a sum of axes; an entry of a GPU's is a tile anywhere in its buffer), except for
    `tables`: operands with an index that depends on data. These are matched index by index, and
    read whole. An immediate of the VDLA may be an expression of axes around the entry.

    `alternatives` are tried in order if a nest does not match the behaviour.
    """

    name: str
    output: te.Tensor
    scopes: Mapping[str, str]
    lower: Callable[[Any], Any]
    in_place: str | None = None
    epilogue: bool = False
    stage_loads: Callable[[Any], Any] | None = None
    target: str = "vdla"
    requires: tuple[str, ...] = ()
    alternatives: tuple[Intrinsic, ...] = ()
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cycles: Callable[[Mapping[str, int]], StepCycles] | None = None
    skips_padding: bool = True
    fragments: Mapping[str, Fragment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise IntrinsicError(f"intrinsic: name must be a Python identifier, got {self.name!r}")
        where = f"intrinsic {self.name}"
        self._check_target(where)
        self._check_behaviour(where)
        self._check_scopes(where)
        self._check_fragments(where)
        same = [name for name in self.behaviour.params[:-1] if self.scopes[name] == self.scopes[self.output.name]]
        if self.in_place is not None and self.in_place not in same:
            raise IntrinsicError(
                f"{where}: in_place must name an operand in the scope of the output, got {self.in_place!r}"
            )
        for access in self._accesses():
            self._check_access(where, access)

    def _check_behaviour(self, where: str) -> None:
        """Refuse a behaviour that is not a single computation of static extents."""
        stage = self.output.stage if isinstance(self.output, te.Tensor) else None
        if not isinstance(stage, Stage):
            raise IntrinsicError(f"{where}: output must be a tensor of te.compute, got {self.output!r}")
        if len(stage.names) != 1:
            raise IntrinsicError(f"{where}: output must be all that is computed, got one of {', '.join(stage.names)}")
        computed = ", ".join(tensor.name for tensor in stage.reads if tensor.stage is not None)
        if computed:
            raise IntrinsicError(f"{where}: behaviour must be a single computation over placeholders, got {computed}")
        if self.behaviour.scalars:
            scalars = ", ".join(self.behaviour.scalars)
            raise IntrinsicError(f"{where}: behaviour must have numbers for extents, got {scalars}")
        for start in stage.reduction.starts if stage.reduction else ():
            if not isinstance(start, ir.Const):
                rule = "the sums must start from a number, as a step only adds to them"
                raise IntrinsicError(f"{where}: {rule}, got {expr_text(start)}")
        if not callable(self.lower):
            raise IntrinsicError(f"{where}: lower must be a function, got {self.lower!r}")

    def _check_scopes(self, where: str) -> None:
        """Refuse missing and unsuitable scopes."""
        names = sorted(self.behaviour.params)
        given = sorted(map(str, self.scopes)) if isinstance(self.scopes, Mapping) else [repr(self.scopes)]
        if names != given:
            raise IntrinsicError(f"{where}: scopes must name exactly {', '.join(names)}, got {', '.join(given)}")
        for operand, scope in self.scopes.items():
            known = [s for s in _SCOPES[self.target] if operand != self.output.name or s not in (IMMEDIATE, CONDITION)]
            if scope not in known:
                rule = f"scope of {operand} must be one of {', '.join(known)}"
                raise IntrinsicError(f"{where}: {rule}, got {scope!r}")
            buffer = self.behaviour.buffers[operand]
            if scope in (IMMEDIATE, CONDITION) and buffer.shape != (1,):
                raise IntrinsicError(f"{where}: {operand} must have shape (1,) as {scope}, got {buffer.shape}")
            if scope == CONDITION and buffer.dtype != "bool":
                raise IntrinsicError(f"{where}: {operand} must be bool as {scope}, got {buffer.dtype}")

    def _accesses(self) -> list[ir.Load]:
        """The loads of entries."""
        entries = [name for name, scope in self.scopes.items() if scope not in (IMMEDIATE, CONDITION)]
        stage = self.output.stage
        assert isinstance(stage, Stage)
        reads = (e for value in stage.values for e in ir.walk_expr(value.expr))
        return [e for e in reads if isinstance(e, ir.Load) and e.buffer in entries]

    def _check_access(self, where: str, access: ir.Load) -> None:
        """Refuse an entry not indexed by whole axes, unless it is a CPU's window or a table."""
        if access.buffer in self.tables:
            return
        free = 1 if self.scopes[access.buffer] == MEMORY else 0
        kinds = ir.Var | ir.Const if self.target == "vdla" else ir.Var
        if not all(isinstance(index, kinds) for index in access.indices[free:]):
            kind = "one axis or a number" if self.target == "vdla" else "one axis"
            rule = f"each index of {access.buffer}{' but the first' if free else ''} must be {kind}"
            raise IntrinsicError(f"{where}: {rule}, got {expr_text(access)}")

    def allows(self, operand: str, value: ir.Scalar) -> bool:
        """Whether an operand is an immediate that can have a value."""
        low, high = self.ranges.get(operand, (value, value))
        return self.scopes[operand] == IMMEDIATE and low <= value <= high

    @cached_property
    def tables(self) -> frozenset[str]:
        """The operands with an index that depends on data."""
        return frozenset(e.buffer for e in self._accesses() if any(ir.reads_memory(index) for index in e.indices))

    def _check_target(self, where: str) -> None:
        """Refuse an unknown target, and options of the other target."""
        if self.target not in list(_SCOPES):
            raise IntrinsicError(f"{where}: target must be one of {', '.join(_SCOPES)}, got {self.target!r}")
        if not isinstance(self.requires, tuple) or not all(isinstance(name, str) for name in self.requires):
            raise IntrinsicError(f"{where}: requires must be a tuple of names of features, got {self.requires!r}")
        if self.target == "vdla" and self.requires:
            raise IntrinsicError(f"{where}: requires must be empty for target vdla, got {', '.join(self.requires)}")
        if self.target != "vdla" and self.epilogue:
            raise IntrinsicError(f"{where}: epilogue must be False for target {self.target}, got True")

    def _check_fragments(self, where: str) -> None:
        """Refuse fragments that are not those of the operands of a GPU."""
        wanted = self.behaviour.buffers if self.target == "gpu" else {}
        fragments = {name: (fragment.shape, fragment.dtype) for name, fragment in self.fragments.items()}
        if fragments != {name: (buffer.shape, buffer.dtype) for name, buffer in wanted.items()}:
            names = ", ".join(f"{name} {buffer.dtype}{list(buffer.dims)}" for name, buffer in wanted.items())
            got = ", ".join(f"{name} {dtype}{list(shape)}" for name, (shape, dtype) in fragments.items())
            raise IntrinsicError(f"{where}: fragments must be of {names or 'nothing'}, got {got or 'none'}")

    @cached_property
    def behaviour(self) -> ir.Function:
        """The tensor expression as a loop nest: placeholders first, the output last."""
        inputs = self.output.stage.reads if self.output.stage else ()
        return te.create_function(inputs, [self.output], self.name)

    def __repr__(self) -> str:
        return self.name
