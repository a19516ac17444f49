"""Rules of reductions. 16-bit floats are accumulated in float32; integers wrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.integer.pools import fuse_reduce_mean
from vdla.compiler.graph.operators.precision import in_float32
from vdla.compiler.graph.operators.record import OperatorRecord, Trait, records
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall


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
