"""Rules of reductions. 16-bit floats are accumulated in float32; integers wrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.precision import in_float32
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall, OperatorRule


def _reduction(function: Callable[..., te.Tensor]) -> Expression:
    """A reduction over constant axes; none are all, or none with `noop_with_empty_axes`."""

    def expression(call: NodeCall) -> te.Tensor:
        x, axes = call.tensor(0), call.integers(1, "axes")
        if not axes:
            axes = () if call.attribute("noop_with_empty_axes", 0) else tuple(range(len(x.shape)))
        reduce = partial(function, axes=axes, keepdims=bool(call.attribute("keepdims", 1)))
        return in_float32(call, lambda tensor, name: reduce(tensor, name=name), x)

    return expression


def _position(function: Callable[..., te.Tensor]) -> Expression:
    """ArgMax and ArgMin."""

    def expression(call: NodeCall) -> te.Tensor:
        axis, keepdims = call.attribute("axis", 0), bool(call.attribute("keepdims", 1))
        last = bool(call.attribute("select_last_index", 0))
        return function(call.tensor(0), axis, keepdims, last, name=call.name())

    return expression


_REDUCTIONS: Mapping[str, Callable[..., te.Tensor]] = {
    "ReduceL1": operators.l1_norm,
    "ReduceL2": operators.l2_norm,
    "ReduceLogSum": operators.log_sum,
    "ReduceLogSumExp": operators.logsumexp,
    "ReduceMax": operators.max,
    "ReduceMean": operators.mean,
    "ReduceMin": operators.min,
    "ReduceProd": operators.prod,
    "ReduceSum": operators.sum,
    "ReduceSumSquare": operators.sum_square,
}
_EXPRESSIONS: Mapping[str, Expression] = {
    **{op: _reduction(function) for op, function in _REDUCTIONS.items()},
    "ArgMax": _position(operators.argmax),
    "ArgMin": _position(operators.argmin),
}
REDUCTIONS = tuple(OperatorRule(op, FusionClass.REDUCTION, expression) for op, expression in _EXPRESSIONS.items())
