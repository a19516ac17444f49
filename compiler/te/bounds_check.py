"""Out-of-bounds reads of a stage, as far as they are certain whatever the data.

Checked are loads outside the branches of `te.select`, at indices that are affine in the axes or
floor-divide such a form. Reads that depend on data or on symbolic extents are left to the
interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vdla.compiler import ir
from vdla.compiler.arith import Range, linear, linear_bounds
from vdla.compiler.te.expr import Stage, TeError, axis_name

_Shapes = Mapping[str, tuple[object, ...]]  # an extent that is not an int is symbolic


def check_bounds(stage: Stage) -> None:
    """Rejects a stage that certainly reads outside a tensor."""
    axes = stage.reduction.axes if stage.reduction else ()
    extents = [*zip(stage.axes, stage.shape, strict=True), *((axis.name, axis.extent) for axis in axes)]
    ranges = {axis_name(name): (0, extent - 1) for name, extent in extents if isinstance(extent, int)}
    shapes = {tensor.name: tensor.shape for tensor in stage.reads}
    for expr in stage.exprs:
        broken = _find_violation(expr, shapes, ranges)
        if broken is not None:
            raise TeError(f"te.compute {', '.join(stage.names)}: {broken}")


def _find_violation(expr: ir.Expr, shapes: _Shapes, ranges: Mapping[str, Range]) -> str | None:
    """The first certain out-of-bounds read, as `index ... must ..., got ...`; None without one."""
    for load in _unconditional_loads(expr):
        for dimension, (index, extent) in enumerate(zip(load.indices, shapes.get(load.buffer, ()), strict=False)):
            found = _attained_bounds(index, ranges)
            if isinstance(extent, int) and found is not None and not (found[0] >= 0 and found[1] < extent):
                got = f"{found[0]} to {found[1]}"
                return f"index {dimension} of {load.buffer} must satisfy 0 <= index < {extent}, got {got}"
    return None


def _unconditional_loads(expr: ir.Expr) -> Iterator[ir.Load]:
    """The loads that every element evaluates; shared subtrees are visited once."""
    seen: set[int] = set()
    pending = [expr]
    while pending:
        inner = pending.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        if isinstance(inner, ir.Load):
            yield inner
        pending.extend((inner.cond,) if isinstance(inner, ir.Select) else ir.operands(inner))


def _attained_bounds(index: ir.Expr, ranges: Mapping[str, Range]) -> Range | None:
    """The smallest and largest value that an index attains; None if they are not known exactly."""
    match index:
        case ir.Binary(op="floordiv", a=a, b=ir.Const(value=divisor)) if divisor > 0:
            inner = _attained_bounds(a, ranges)
            return None if inner is None else (inner[0] // int(divisor), inner[1] // int(divisor))
    form = linear(index)
    if all(isinstance(term, ir.Var) and term.name in ranges for term in form.terms):
        return linear_bounds(form, ranges)
    return None
