"""Rules of CumSum and CumProd: a recurrence along the axis."""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler import te
from vdla.compiler.graph.operators.precision import in_float32
from vdla.compiler.graph.operators.record import OperatorRecord
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall


def _cumulative(combine: Callable[[te.Value, te.Value], te.Value], start: int) -> Expression:
    """Running totals with the element, or, exclusive, before it; from either end."""

    def expression(call: NodeCall) -> te.Tensor:
        axis = call.required(1, "axis")[0] % len(call.tensor(0).shape)

        def function(x: te.Tensor, name: str) -> te.Tensor:
            return _totals(call, x, axis, combine, start, name)

        return in_float32(call, function, call.tensor(0))

    return expression


def _totals(
    call: NodeCall,
    x: te.Tensor,
    axis: int,
    combine: Callable[[te.Value, te.Value], te.Value],
    start: int,
    name: str,
) -> te.Tensor:
    reverse, exclusive = bool(call.attribute("reverse", 0)), bool(call.attribute("exclusive", 0))
    rest = tuple(extent for d, extent in enumerate(x.shape) if d != axis) or (1,)
    flat = len(x.shape) == 1

    def element(t: te.Value, i: tuple[te.Value, ...]) -> te.Value:
        return x[t] if flat else x[(*i[:axis], t, *i[axis:])]

    first = te.full(rest, start, x.dtype, f"{name}_start")
    totals = te.scan(
        x.shape[axis],
        lambda t, before: te.compute(rest, lambda *i: combine(before[i], element(t, i)), f"{name}_total"),
        first,
        reverse=reverse,
    )
    end = x.shape[axis] - 1 if reverse else 0
    step = 1 if reverse else -1

    def value(*i: te.Value) -> te.Value:
        others = (te.const(0, "int32"),) if flat else tuple(index for d, index in enumerate(i) if d != axis)
        if not exclusive:
            return totals[(i[axis], *others)]
        place = te.clip(i[axis] + step, 0, x.shape[axis] - 1)
        return te.select(i[axis] == end, te.const(start, x.dtype), totals[(place, *others)])

    return te.compute(x.shape, value, name)


CUMULATIVE = (
    OperatorRecord(name="CumProd", fusion=FusionClass.OPAQUE, expression=_cumulative(lambda a, b: a * b, 1)),
    OperatorRecord(name="CumSum", fusion=FusionClass.OPAQUE, expression=_cumulative(lambda a, b: a + b, 0)),
)
