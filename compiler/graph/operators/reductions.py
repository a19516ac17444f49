# SPDX-License-Identifier: Apache-2.0
"""Rules of reductions. 16-bit floats are accumulated in float32; integers wrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.integer.pools import fuse_reduce_mean
from vdla.compiler.graph.operators.record import OperatorRecord, Trait, records
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall, in_float32


def _reduction(function: Callable[..., te.Tensor]) -> Expression:
    """A reduction over constant axes; without axes over all, or over none with
    `noop_with_empty_axes`.
    """

    def expression(call: NodeCall) -> te.Tensor:
        x, axes = call.tensor(0), call.integers(1, "axes")
        if not axes:
            axes = () if call.attribute("noop_with_empty_axes") else tuple(range(len(x.shape)))
        reduce = partial(function, axes=axes, keepdims=bool(call.attribute("keepdims")))
        return in_float32(call, lambda tensor, name: reduce(tensor, name=name), x)

    return expression


def _position(function: Callable[..., te.Tensor]) -> Expression:
    """ArgMax and ArgMin."""

    def expression(call: NodeCall) -> te.Tensor:
        axis, keepdims = call.attribute("axis"), bool(call.attribute("keepdims"))
        last = bool(call.attribute("select_last_index"))
        return function(call.tensor(0), axis, keepdims, last, name=call.name())

    return expression


_FUNCTIONS: Mapping[str, Callable[..., te.Tensor]] = {
    "ReduceL1": operators.l1_norm,
    "ReduceL2": operators.l2_norm,
    "ReduceLogSum": operators.log_sum,
    "ReduceLogSumExp": operators.logsumexp,
    "ReduceProd": operators.prod,
    "ReduceSum": operators.sum,
    "ReduceSumSquare": operators.sum_square,
}
_EXPRESSIONS: Mapping[str, Expression] = {
    **{op: _reduction(function) for op, function in _FUNCTIONS.items()},
    "ArgMax": _position(operators.argmax),
    "ArgMin": _position(operators.argmin),
}
_SELECTIONS: Mapping[str, Expression] = {
    "ReduceMax": _reduction(operators.max),
    "ReduceMin": _reduction(operators.min),
}
REDUCTIONS = (
    *records(FusionClass.REDUCTION, _EXPRESSIONS),
    *records(FusionClass.REDUCTION, _SELECTIONS, Trait.SELECTION),
    OperatorRecord(
        name="ReduceMean",
        fusion=FusionClass.REDUCTION,
        expression=_reduction(operators.mean),
        integer=fuse_reduce_mean,
    ),
)


# --- recurrences along an axis --------------------------------------------------------------------


def _cumulative(combine: Callable[[te.Value, te.Value], te.Value], start: int) -> Expression:
    """Running totals from either end, including the element or exclusive."""

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
    reverse, exclusive = bool(call.attribute("reverse")), bool(call.attribute("exclusive"))
    outer = tuple(extent for d, extent in enumerate(x.shape) if d != axis) or (1,)
    flat = len(x.shape) == 1

    def element(t: te.Value, i: tuple[te.Value, ...]) -> te.Value:
        return x[t] if flat else x[(*i[:axis], t, *i[axis:])]

    first = te.full(outer, start, x.dtype, f"{name}_start")
    totals = te.scan(
        x.shape[axis],
        lambda t, before: te.compute(outer, lambda *i: combine(before[i], element(t, i)), f"{name}_total"),
        first,
        reverse=reverse,
    )
    end = x.shape[axis] - 1 if reverse else 0
    step = 1 if reverse else -1

    def value(*i: te.Value) -> te.Value:
        outer_indices = (te.const(0, "int32"),) if flat else tuple(index for d, index in enumerate(i) if d != axis)
        if not exclusive:
            return totals[(i[axis], *outer_indices)]
        place = te.clip(i[axis] + step, 0, x.shape[axis] - 1)
        return te.select(i[axis] == end, te.const(start, x.dtype), totals[(place, *outer_indices)])

    return te.compute(x.shape, value, name)


CUMULATIVE = (
    OperatorRecord(name="CumProd", fusion=FusionClass.OPAQUE, expression=_cumulative(lambda a, b: a * b, 1)),
    OperatorRecord(name="CumSum", fusion=FusionClass.OPAQUE, expression=_cumulative(lambda a, b: a + b, 0)),
)
