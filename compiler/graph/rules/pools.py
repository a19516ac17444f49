"""Rules of pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall, OperatorRule
from vdla.compiler.graph.rules.windows import window_options

_Pool = Callable[..., te.Tensor]


def _windowed(call: NodeCall, function: _Pool) -> _Pool:
    """A pooling function with the options of a node."""
    x, kernel = call.tensor(0), tuple(call.attribute("kernel_shape"))
    strides, pads, dilations = window_options(call.node.attributes, x.shape[2:], kernel)
    rounds_up = bool(call.attribute("ceil_mode", 0))
    return partial(function, x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=rounds_up)


def _max_pool(call: NodeCall) -> tuple[te.Tensor, ...]:
    largest = _windowed(call, operators.max_pool)(name=call.name())
    if not call.wants(1):
        return (largest,)
    indices = _windowed(call, operators.max_pool_indices)
    if not call.attribute("storage_order", 0):
        return largest, indices(name=call.name(1))
    return largest, _column_major(call, indices(name=f"{call.name(1)}_row_major"))


def _column_major(call: NodeCall, indices: te.Tensor) -> te.Tensor:
    """Positions in images whose first spatial dimension is the fastest."""
    extents = call.tensor(0).shape[2:]

    def value(v: te.Value) -> te.Value:
        size = math.prod(extents)
        place, total, below = v % size, v // size * size, 1
        above = size
        for extent in extents:
            above //= extent
            total = total + place // above % extent * below
            below *= extent
        return total

    return operators.elementwise(indices, value, call.name(1))


def _average_pool(call: NodeCall) -> te.Tensor:
    include = bool(call.attribute("count_include_pad", 0))
    return _windowed(call, operators.average_pool)(count_include_pad=include, name=call.name())


def _lp_pool(call: NodeCall) -> te.Tensor:
    return _windowed(call, operators.lp_pool)(p=call.attribute("p", 2), name=call.name())


_EXPRESSIONS: Mapping[str, Expression] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": lambda call: operators.global_average_pool(call.tensor(0), name=call.name()),
    "GlobalLpPool": lambda call: operators.global_lp_pool(call.tensor(0), call.attribute("p", 2), name=call.name()),
    "GlobalMaxPool": lambda call: operators.global_max_pool(call.tensor(0), name=call.name()),
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
}
POOLS = tuple(OperatorRule(op, FusionClass.REDUCTION, expression) for op, expression in _EXPRESSIONS.items())
