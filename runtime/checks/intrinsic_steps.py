# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions of several steps of one intrinsic, for programs that check its lowering.

The behaviour is a step on one entry of each operand. Here entries have indices in front: the
spatial steps, and for a reduction the steps that add to the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from vdla.compiler import ir, te
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import Value
from vdla.compiler.tensorize import CONDITION, IMMEDIATE, Intrinsic

STEPS = "steps"
"""The stage that the intrinsic computes."""


class StepOrder(Enum):
    """How the loops of steps lie around the intrinsic."""

    TOGETHER = "in one nest"
    TILES = "in tiles"
    """Of the first spatial axis: operands are loaded and results leave in each."""
    CHUNKS = "in chunks"
    """Of the first reduce axis, outside of the spatial ones; each but the first continues sums."""


@dataclass(frozen=True, slots=True)
class StepCase:
    """Extents of the spatial and the reduce steps, and the order of their loops.

    Entries of the operands in `shared` do not depend on the spatial steps.
    """

    spatial: tuple[int, ...]
    reduce: tuple[int, ...] = ()
    order: StepOrder = StepOrder.TOGETHER
    shared: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "".join(
            [
                _counted(self.spatial, "step"),
                f" of {_counted(self.reduce, 'term')}" * bool(self.reduce),
                f" that share {', '.join(self.shared)}" * bool(self.shared),
                f", {self.order.value}",
            ]
        )

    @property
    def loops(self) -> tuple[str, ...]:
        """The names of the spatial loops, then of the reduce loops."""
        spatial = (f"p{place}" for place in range(len(self.spatial)))
        return (*spatial, *(f"r{place}" for place in range(len(self.reduce))))


@dataclass(frozen=True, eq=False)
class SteppedIntrinsic:
    """An intrinsic with its steps, and a number for each of its immediates."""

    intrinsic: Intrinsic
    case: StepCase
    immediates: Mapping[str, int]

    @property
    def stage(self) -> Stage:
        """The behaviour."""
        stage = self.intrinsic.output.stage
        assert isinstance(stage, Stage)
        return stage

    def operands(self) -> list[te.Tensor]:
        """The declared operands that are entries."""
        scopes = self.intrinsic.scopes
        return [tensor for tensor in self.stage.reads if scopes[tensor.name] not in (IMMEDIATE, CONDITION)]

    def extents(self, operand: str) -> tuple[int, ...]:
        """The extents of the indices in front of an operand's entry."""
        spatial = () if operand in self.case.shared else self.case.spatial
        reduce = () if operand == self.intrinsic.in_place else self.case.reduce
        return (*spatial, *reduce)

    def loop_order(self, loops: Sequence[str]) -> list[str]:
        """The loops of `steps` in the order of the case, those of the entry innermost."""
        case, stage = self.case, self.stage
        count, entry = len(case.spatial), len(stage.axes)
        spatial, rest = list(loops[:count]), list(loops[count + entry :])
        reduced, spatial_order = rest[: len(case.reduce)], rest[len(case.reduce) :]
        first = reduced[:1] if case.order is StepOrder.CHUNKS else []
        return [*first, *spatial, *reduced[len(first) :], *loops[count : count + entry], *spatial_order]

    def computed(self, tensors: Mapping[str, te.Tensor]) -> te.Tensor:
        """The stage `steps` over the tensors of the operands."""
        case, stage = self.case, self.stage
        count = len(case.spatial)
        reduced = [te.reduce_axis(extent, name) for extent, name in zip(case.reduce, case.loops[count:], strict=True)]

        def body(*at: te.Value) -> te.Value:
            expr = self._placed(stage.value.expr, tensors, at[:count], reduced)
            reduction = stage.reduction and replace(stage.reduction, axes=(*reduced, *stage.reduction.axes))
            return Value(expr, stage.value.dtype, tensors=tuple(tensors.values()), reduction=reduction)

        names = [*case.loops[:count], *stage.axes]
        result: te.Tensor = te.compute((*case.spatial, *stage.shape), te.with_axes(names, body), STEPS)
        return result

    def _placed(
        self,
        expr: ir.Expr,
        tensors: Mapping[str, te.Tensor],
        spatial: Sequence[te.Value],
        reduced: Sequence[te.ReduceAxis],
    ) -> ir.Expr:
        """An expression of the behaviour, with the entries of the steps and numbers."""
        if isinstance(expr, ir.Load):
            name = expr.buffer
            if self.intrinsic.scopes[name] == IMMEDIATE:
                return te.const(self.immediates[name], self.intrinsic.behaviour.buffers[name].dtype).expr
            if self.intrinsic.scopes[name] == CONDITION:
                return self._inside(spatial).expr
            front = (
                *(() if name in self.case.shared else spatial),
                *(() if name == self.intrinsic.in_place else reduced),
            )
            entry = (self._placed(index, tensors, spatial, reduced) for index in expr.indices)
            return tensors[name][(*front, *(Value(index, "int32") for index in entry))].expr
        old = ir.operands(expr)
        new = tuple(self._placed(operand, tensors, spatial, reduced) for operand in old)
        return expr if new == old else ir.with_operands(expr, new)

    def _inside(self, spatial: Sequence[te.Value]) -> te.Value:
        """A condition that is false in the first and last step of each axis of three or more."""
        tests: list[te.Value] = []
        for at, extent in zip(spatial, self.case.spatial, strict=True):
            tests += [at >= 1, at < extent - 1] if extent > 2 else []
        return te.all_of(*tests)


def _counted(extents: tuple[int, ...], what: str) -> str:
    """Extents with their noun: "3 x 2 steps"."""
    return f"{' x '.join(map(str, extents))} {what}{'' if extents == (1,) else 's'}"


def step_cases(intrinsic: Intrinsic) -> list[StepCase]:
    """What a lowering must get right: one step, many, tiles; for a reduction, terms and chunks."""
    stage = intrinsic.output.stage
    assert isinstance(stage, Stage)
    if stage.reduction is None:
        return [StepCase((1,)), StepCase((4,)), StepCase((3, 4)), StepCase((3, 4), order=StepOrder.TILES)]
    operands = [tensor.name for tensor in stage.reads if intrinsic.scopes[tensor.name] not in (IMMEDIATE, CONDITION)]
    return [
        StepCase((1,), (1,)),
        StepCase((4,), (3,)),
        StepCase((2, 3), (2, 2)),
        StepCase((3, 2), (3,), StepOrder.TILES),
        StepCase((3,), (3, 2), StepOrder.CHUNKS),
        *(StepCase((4,), (3,), shared=(name,)) for name in operands[1:]),
    ]
