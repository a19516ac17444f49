# SPDX-License-Identifier: Apache-2.0
"""Recurrences: a cell computes the states of one step from those of the step before.

    h = te.scan(steps, lambda t, h: te.compute((n,), lambda i: h[i] * 0.5 + x[t, i], "h"), start)

The cell describes one step. Its stages are lifted: the step becomes their first axis, and a read of
a state becomes a read of the previous step, or of the initial state at the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from vdla.compiler import ir
from vdla.compiler.ir import extent_text
from vdla.compiler.te.create_function import dependence_order, last_index
from vdla.compiler.te.expr import (
    Dim,
    Reduction,
    Scan,
    Stage,
    TeError,
    Tensor,
    Value,
    axis_name,
    merge_unique,
)
from vdla.compiler.te.extents import check_bounds, check_extent, extent_of, parameter_names

_WHERE = "te.scan"


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
    """The states of a recurrence at every step: tensors whose first dimension is the step.

    `cell(t, *states)` is called once, with the step `t`, an index, and the states before that step,
    of the shapes and dtypes of `init`, the initial states. It returns tensors of its own
    `te.compute`: the states after the step, then any further outputs of the step. With `reverse`, t
    runs from extent - 1 down to 0.

    Stages in the cell that use neither `t` nor a state are computed once, before the scan.
    """
    extent = check_extent(_WHERE, "the extent", extent)
    if not isinstance(reverse, bool):
        raise TeError(f"{_WHERE}: reverse must be True or False, got {reverse!r}")
    starts = (init,) if isinstance(init, Tensor) else init
    if not isinstance(starts, Sequence) or not starts or not all(isinstance(start, Tensor) for start in starts):
        raise TeError(f"{_WHERE}: init must be one or more tensors, got {init!r}")
    axis, states = _cell_parameters(cell, len(starts))
    clock = Tensor(axis, (1,), "int32")
    before = tuple(Tensor(f"{name} before", s.shape, s.dtype) for name, s in zip(states, starts, strict=True))
    returned = cell(Value(ir.Var(axis_name(axis)), "int32", tensors=(clock,)), *before)
    results = _check_results(returned, tuple(starts))
    inside = _cell_stages(results, (clock, *before))
    for result in results:
        if result.stage not in inside:
            raise TeError(f"{_WHERE}: a result of the cell must depend on its step or a state, got {result.name}")
    lift = _Lift(
        axis=axis,
        extent=extent,
        reverse=reverse,
        inside=tuple(inside),
        clock=clock,
        before=before,
        starts=tuple(starts),
        results=results,
    )
    stages = tuple(lift.stage(stage) for stage in inside)
    whole = Scan(axis, extent, reverse, stages, merge_unique(*(stage.reads for stage in stages)))
    tensors = tuple(Tensor(r.name, (extent, *r.shape), r.dtype, whole) for r in results)
    return tensors if isinstance(returned, tuple) else tensors[0]


def _cell_parameters(cell: Callable[..., Any], states: int) -> tuple[str, list[str]]:
    """The names of the step and of the states."""
    names = parameter_names(_WHERE, "the cell must be a function of the step and the states", cell, states + 1)
    if len(names) != states + 1:
        raise TeError(f"{_WHERE}: the cell must take the step and {states} states, got {len(names)} parameters")
    return names[0], names[1:]


def _check_results(returned: object, starts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The results of the cell; the first must match the initial states."""
    results = returned if isinstance(returned, tuple) else (returned,)
    for result in results:
        if not isinstance(result, Tensor) or not isinstance(result.stage, Stage):
            got = result.name if isinstance(result, Tensor) else type(result).__name__
            raise TeError(f"{_WHERE}: the cell must return tensors that it computes, got {got}")
    if len(results) < len(starts):
        raise TeError(f"{_WHERE}: the cell must return all of {len(starts)} states, got {len(results)}")
    for result, start in zip(results, starts, strict=False):
        if result.dtype != start.dtype:
            rule = f"state {result.name} must have the dtype of its init {start.name}, {start.dtype}"
            raise TeError(f"{_WHERE}: {rule}, got {result.dtype}")
        if _shape_of(result) != _shape_of(start):
            rule = f"state {result.name} must have the shape of its init {start.name}, {_shape_text(start)}"
            raise TeError(f"{_WHERE}: {rule}, got {_shape_text(result)}")
    return results


def _shape_of(tensor: Tensor) -> tuple[ir.Extent, ...]:
    """The shape as IR extents, which compare."""
    return tuple(map(extent_of, tensor.shape))


def _shape_text(tensor: Tensor) -> str:
    """The shape for a message."""
    return f"[{', '.join(map(extent_text, _shape_of(tensor)))}]"


def _cell_stages(results: tuple[Tensor, ...], sources: tuple[Tensor, ...]) -> list[Stage]:
    """The stages that depend on the step or a state, in dependence order."""
    inside: list[Stage] = []
    for unit in dependence_order(_WHERE, results):
        if any(tensor in sources or tensor.stage in inside for tensor in unit.reads):
            if isinstance(unit, Scan):
                names = ", ".join(name for stage in unit.stages for name in stage.names)
                raise TeError(
                    f"{_WHERE}: a cell must not contain a scan that depends on its step or a state, got {names}"
                )
            inside.append(unit)
    return inside


@dataclass(frozen=True, slots=True)
class _Lift:
    """Rewrites the stages of a cell, of one step, into stages over all steps."""

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
        check_bounds(lifted)
        return lifted

    def reduction(self, reduction: Reduction | None) -> Reduction | None:
        """A reduction at a step; its start values can be states."""
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
            tensors=merge_unique(outside, starts),
            symbols=tuple(dict.fromkeys((*value.symbols, *symbols))),
        )

    def expr(self, expr: ir.Expr) -> ir.Expr:
        """An expression at a step."""
        return ir.transform(expr, lambda part: self.load(part) if isinstance(part, ir.Load) else part)

    def load(self, load: ir.Load) -> ir.Expr:
        """A load of a state, of another tensor of the cell, or from outside."""
        step = ir.Var(axis_name(self.axis))
        for before, start, result in zip(self.before, self.starts, self.results, strict=False):
            if load.buffer == before.name:
                last = ir.Load(result.name, (self.previous(step), *load.indices))
                return ir.Select(self.is_first(step), ir.Load(start.name, load.indices), last)
        if any(load.buffer in stage.names for stage in self.inside):
            return ir.Load(load.buffer, (step, *load.indices))
        return load

    def previous(self, step: ir.Expr) -> ir.Expr:
        """The previous step."""
        return ir.binary("add" if self.reverse else "sub", step, 1)

    def is_first(self, step: ir.Expr) -> ir.Expr:
        """Whether `step` is the first."""
        return ir.Binary("eq", step, last_index(extent_of(self.extent)) if self.reverse else ir.Const(0))
