# SPDX-License-Identifier: Apache-2.0
"""Softmax and its logarithm along one axis.

The maximum of each row is subtracted first, so that no exponential overflows and at least one is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.checks import axis_of, check_float
from vdla.compiler.operators.elementwise import elementwise
from vdla.compiler.operators.reduction import reduce_with
from vdla.compiler.operators.results import result_name, to_accumulator


def softmax(x: te.Tensor, axis: int = -1, name: str | None = None) -> te.Tensor:
    """exp(x) / sum(exp(x)) along `axis`; float16 and bfloat16 are computed in float32."""
    dimension, result = _dimension_and_name("softmax", x, axis, name)
    maximum = reduce_with(te.max, x, (dimension,), True, f"{result}_max")

    def exponential(*i: te.Value) -> te.Value:
        return te.exp(to_accumulator(x[i]) - to_accumulator(maximum[_row_index(dimension, i)]))

    exponentials = te.compute(x.shape, exponential, f"{result}_exp")
    total = reduce_with(te.sum, exponentials, (dimension,), True, f"{result}_sum")
    inverse = elementwise(total, lambda v: 1 / v, f"{result}_inverse")

    def value(*i: te.Value) -> te.Value:
        return te.cast(x.dtype, exponentials[i] * inverse[_row_index(dimension, i)])

    return te.compute(x.shape, value, result)


def log_softmax(x: te.Tensor, axis: int = -1, name: str | None = None) -> te.Tensor:
    """log(softmax(x)) along `axis`, accurate where softmax(x) is almost 0."""
    dimension, result = _dimension_and_name("log_softmax", x, axis, name)
    maximum = reduce_with(te.max, x, (dimension,), True, f"{result}_max")

    def difference(i: Sequence[te.Value]) -> te.Value:
        return to_accumulator(x[tuple(i)]) - to_accumulator(maximum[_row_index(dimension, i)])

    exponentials = te.compute(x.shape, lambda *i: te.exp(difference(i)), f"{result}_exp")
    total = reduce_with(te.sum, exponentials, (dimension,), True, f"{result}_sum")
    logs = elementwise(total, lambda v: te.log(v), f"{result}_log")
    return te.compute(x.shape, lambda *i: te.cast(x.dtype, difference(i) - logs[_row_index(dimension, i)]), result)


def _dimension_and_name(operator: str, x: te.Tensor, axis: int, name: str | None) -> tuple[int, str]:
    """The dimension of `axis`, and the name of the result."""
    check_float(operator, "x", x)
    return axis_of(operator, len(x.shape), axis), result_name(x, operator, name)


def _row_index(dimension: int, indices: Sequence[te.Value]) -> tuple[te.Value, ...]:
    """The index of the first element of the row of an element."""
    return tuple(te.const(0, "int32") if d == dimension else index for d, index in enumerate(indices))
