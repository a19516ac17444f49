"""Whether a stage reads outside of its operands: found where that is certain, whatever the data are.

Certain are indices that are sums of axes, or quotients of such, outside of the sides of a `te.select`, of which only
one is read. What depends on data or on symbolic extents is the interpreter's to find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vdla.compiler import ir
from vdla.compiler.arith import Range, linear, linear_bounds
from vdla.compiler.te.expr import Stage, TeError, axis_name

Shapes = Mapping[str, tuple[object, ...]]  # what is no number is symbolic


def check_reach(stage: Stage) -> None:
    """Refuse a stage that reads outside of a tensor for certain."""
    axes = stage.reduction.axes if stage.reduction else ()
    extents = [*zip(stage.axes, stage.shape, strict=True), *((axis.name, axis.extent) for axis in axes)]
    ranges = {axis_name(name): (0, extent - 1) for name, extent in extents if isinstance(extent, int)}
    shapes = {tensor.name: tensor.shape for tensor in stage.reads}
    for expr in stage.exprs:
        broken = outside(expr, shapes, ranges)
        if broken is not None:
            raise TeError(f"te.compute {', '.join(stage.names)}: {broken}")


def outside(expr: ir.Expr, shapes: Shapes, ranges: Mapping[str, Range]) -> str | None:
    """What is read outside of a tensor, as `index ... must ..., got ...`; None if nothing is for certain."""
    for load in sure_loads(expr):
        for dimension, (index, extent) in enumerate(zip(load.indices, shapes.get(load.buffer, ()), strict=False)):
            found = extremes(index, ranges)
            if isinstance(extent, int) and found is not None and not (found[0] >= 0 and found[1] < extent):
                got = f"{found[0]} to {found[1]}"
                return f"index {dimension} of {load.buffer} must satisfy 0 <= index < {extent}, got {got}"
    return None


def sure_loads(expr: ir.Expr) -> Iterator[ir.Load]:
    """The loads that happen for each element; a part that is shared is looked at once."""
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


def extremes(index: ir.Expr, ranges: Mapping[str, Range]) -> Range | None:
    """The least and the greatest value of an index, both of which it has; None where that is not known."""
    match index:
        case ir.Binary(op="floordiv", a=a, b=ir.Const(value=divisor)) if divisor > 0:
            inner = extremes(a, ranges)
            return None if inner is None else (inner[0] // int(divisor), inner[1] // int(divisor))
    form = linear(index)
    if all(isinstance(term, ir.Var) and term.name in ranges for term in form.terms):
        return linear_bounds(form, ranges)
    return None
