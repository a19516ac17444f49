"""Recurrences: a cell computes the states of one step from those of the step before.

    h = te.scan(steps, lambda t, h: te.compute((n,), lambda i: h[i] * 0.5 + x[t, i], "h"), start)

The cell is written in terms of one step; here its stages get the step as their first axis, and each read of a state
becomes a read of the element of the step before, or of the start at the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from vdla.compiler import ir
from vdla.compiler.ir import extent_text
from vdla.compiler.te.bounds_check import check_reach
from vdla.compiler.te.create_function import last_of, ordered_units
from vdla.compiler.te.expr import (
    Dim,
    Reduction,
    Scan,
    Stage,
    TeError,
    Tensor,
    Value,
    axis_name,
    merged,
)
from vdla.compiler.te.extents import check_extent, extent_of
from vdla.compiler.te.lambda_names import parameter_names

WHERE = "te.scan"


@overload
def scan(
    extent: Dim, cell: Callable[..., tuple[Tensor, ...]], init: Tensor | Sequence[Tensor], *, reverse: bool = False
) -> tuple[Tensor, ...]: ...
@overload
def scan(
    extent: Dim, cell: Callable[..., Tensor], init: Tensor | Sequence[Tensor], *, reverse: bool = False
) -> Tensor: ...
def scan(
    extent: Dim, cell: Callable[..., Any], init: Tensor | Sequence[Tensor], *, reverse: bool = False
) -> Tensor | tuple[Tensor, ...]:
    """The states of a recurrence at every step: tensors with the step as their first dimension.

    `cell(t, *states)` is called once. `t` is the step, an index; `states` stand for the states before the step, of the
    shapes and dtypes of `init`, which are the states before the first. The cell returns the states after the step, and
    after these whatever else is wanted of every step: computed tensors, of its own `te.compute`. With `reverse`, t runs
    from extent - 1 down to 0.

    What in a cell depends on neither `t` nor a state is computed once, before.
    """
    extent = check_extent(WHERE, "the extent", extent)
    if not isinstance(reverse, bool):
        raise TeError(f"{WHERE}: reverse must be True or False, got {reverse!r}")
    starts = (init,) if isinstance(init, Tensor) else init
    if not isinstance(starts, Sequence) or not starts or not all(isinstance(start, Tensor) for start in starts):
        raise TeError(f"{WHERE}: init must be a tensor or several, got {init!r}")
    axis, states = cell_parameters(cell, len(starts))
    clock = Tensor(axis, (1,), "int32")
    before = tuple(Tensor(f"{name} before", s.shape, s.dtype) for name, s in zip(states, starts, strict=True))
    returned = cell(Value(ir.Var(axis_name(axis)), "int32", tensors=(clock,)), *before)
    results = checked_results(returned, tuple(starts))
    inside = cell_stages(results, (clock, *before))
    for result in results:
        if result.stage not in inside:
            raise TeError(f"{WHERE}: a result of the cell must depend on its step or a state, got {result.name}")
    lift = Lift(axis, extent, reverse, tuple(inside), clock, before, tuple(starts), results)
    stages = tuple(lift.stage(stage) for stage in inside)
    whole = Scan(axis, extent, reverse, stages, merged(*(stage.reads for stage in stages)))
    tensors = tuple(Tensor(r.name, (extent, *r.shape), r.dtype, whole) for r in results)
    return tensors if isinstance(returned, tuple) else tensors[0]


def cell_parameters(cell: Callable[..., Any], states: int) -> tuple[str, list[str]]:
    """The names of the step and of the states."""
    names = parameter_names(WHERE, "the cell must be a function of the step and the states", cell, states + 1)
    if len(names) != states + 1:
        raise TeError(f"{WHERE}: the cell must take the step and {states} states, got {len(names)} parameters")
    return names[0], names[1:]


def checked_results(returned: object, starts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What the cell returned: first the states, as they were before."""
    results = returned if isinstance(returned, tuple) else (returned,)
    for result in results:
        if not isinstance(result, Tensor) or not isinstance(result.stage, Stage):
            got = result.name if isinstance(result, Tensor) else type(result).__name__
            raise TeError(f"{WHERE}: the cell must return tensors that it computes, got {got}")
    if len(results) < len(starts):
        raise TeError(f"{WHERE}: the cell must return each of {len(starts)} states, got {len(results)}")
    for result, start in zip(results, starts, strict=False):
        if result.dtype != start.dtype:
            rule = f"state {result.name} must have the dtype of its init {start.name}, {start.dtype}"
            raise TeError(f"{WHERE}: {rule}, got {result.dtype}")
        if shape_of(result) != shape_of(start):
            rule = f"state {result.name} must have the shape of its init {start.name}, {shape_text(start)}"
            raise TeError(f"{WHERE}: {rule}, got {shape_text(result)}")
    return results


def shape_of(tensor: Tensor) -> tuple[ir.Extent, ...]:
    """The shape in numbers and expressions, which compare."""
    return tuple(map(extent_of, tensor.shape))


def shape_text(tensor: Tensor) -> str:
    """The shape for a message."""
    return f"[{', '.join(map(extent_text, shape_of(tensor)))}]"


def cell_stages(results: tuple[Tensor, ...], sources: tuple[Tensor, ...]) -> list[Stage]:
    """The stages that depend on the step or a state, in order."""
    inside: list[Stage] = []
    for unit in ordered_units(WHERE, results):
        if any(tensor in sources or tensor.stage in inside for tensor in unit.reads):
            if isinstance(unit, Scan):
                names = ", ".join(name for stage in unit.stages for name in stage.names)
                raise TeError(f"{WHERE}: a cell must hold no scan that depends on its step or a state, got {names}")
            inside.append(unit)
    return inside


@dataclass(frozen=True, slots=True)
class Lift:
    """How the stages of a cell become those of all steps."""

    axis: str
    extent: Dim
    reverse: bool
    inside: tuple[Stage, ...]
    clock: Tensor
    before: tuple[Tensor, ...]
    starts: tuple[Tensor, ...]
    results: tuple[Tensor, ...]

    def stage(self, stage: Stage) -> Stage:
        """A stage with the step as its first axis."""
        reduced = stage.reduction.axes if stage.reduction else ()
        if self.axis in (*stage.axes, *(axis.name for axis in reduced)):
            raise TeError(f"te.compute {stage.name}: its axes must differ from the step of the scan, got {self.axis}")
        values = tuple(self.value(value) for value in stage.values)
        shape, axes = (self.extent, *stage.shape), (self.axis, *stage.axes)
        lifted = replace(stage, shape=shape, axes=axes, values=values, reduction=self.reduction(stage.reduction))
        check_reach(lifted)
        return lifted

    def reduction(self, reduction: Reduction | None) -> Reduction | None:
        """A reduction at a step: what it starts from may be a state."""
        return None if reduction is None else replace(reduction, starts=tuple(map(self.expr, reduction.starts)))

    def value(self, value: Value) -> Value:
        """An element at a step."""
        mine = (self.clock, *self.before)
        starts = tuple(s for s, b in zip(self.starts, self.before, strict=True) if b in value.tensors)
        outside = tuple(t for t in value.tensors if t not in mine and t.stage not in self.inside)
        symbols = self.extent.symbols if isinstance(self.extent, Value) else ()
        return replace(
            value,
            expr=self.expr(value.expr),
            tensors=merged(outside, starts),
            symbols=tuple(dict.fromkeys((*value.symbols, *symbols))),
        )

    def expr(self, expr: ir.Expr) -> ir.Expr:
        """An expression at a step."""
        new = ir.with_operands(expr, tuple(self.expr(operand) for operand in ir.operands(expr)))
        return self.load(new) if isinstance(new, ir.Load) else new

    def load(self, load: ir.Load) -> ir.Expr:
        """A read of a state, of another tensor of the cell, or of one outside."""
        step = ir.Var(axis_name(self.axis))
        for before, start, result in zip(self.before, self.starts, self.results, strict=False):
            if load.buffer == before.name:
                kept = ir.Load(result.name, (self.previous(step), *load.indices))
                return ir.Select(self.is_first(step), ir.Load(start.name, load.indices), kept)
        if any(load.buffer in stage.names for stage in self.inside):
            return ir.Load(load.buffer, (step, *load.indices))
        return load

    def previous(self, step: ir.Expr) -> ir.Expr:
        """The step before."""
        return ir.Binary("add" if self.reverse else "sub", step, ir.Const(1))

    def is_first(self, step: ir.Expr) -> ir.Expr:
        """Whether there is none before."""
        return ir.Binary("eq", step, last_of(extent_of(self.extent)) if self.reverse else ir.Const(0))
