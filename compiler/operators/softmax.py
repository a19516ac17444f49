"""Softmax and its logarithm along one axis.

The largest element of each row is taken out first, so that no power overflows and at least one of them is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.checks import axis_of, check_float
from vdla.compiler.operators.elementwise import elementwise
from vdla.compiler.operators.reduction import reduce_with
from vdla.compiler.operators.results import result_name, to_accumulator


def softmax(x: te.Tensor, axis: int = -1, name: str | None = None) -> te.Tensor:
    """exp(x) / sum(exp(x)) along `axis`; narrow floats are computed in float32 and rounded once."""
    dimension, result = prepared("softmax", x, axis, name)
    largest = reduce_with(te.max, x, (dimension,), True, f"{result}_max")

    def power(*i: te.Value) -> te.Value:
        return te.exp(to_accumulator(x[i]) - to_accumulator(largest[row(dimension, i)]))

    powers = te.compute(x.shape, power, f"{result}_exp")
    total = reduce_with(te.sum, powers, (dimension,), True, f"{result}_sum")

    def share(*i: te.Value) -> te.Value:
        return te.cast(x.dtype, powers[i] / total[row(dimension, i)])

    return te.compute(x.shape, share, result)


def log_softmax(x: te.Tensor, axis: int = -1, name: str | None = None) -> te.Tensor:
    """log(softmax(x)) along `axis`, without taking the logarithm of what is almost 0."""
    dimension, result = prepared("log_softmax", x, axis, name)
    largest = reduce_with(te.max, x, (dimension,), True, f"{result}_max")

    def shifted(i: Sequence[te.Value]) -> te.Value:
        return to_accumulator(x[tuple(i)]) - to_accumulator(largest[row(dimension, i)])

    powers = te.compute(x.shape, lambda *i: te.exp(shifted(i)), f"{result}_exp")
    total = reduce_with(te.sum, powers, (dimension,), True, f"{result}_sum")
    logs = elementwise(total, lambda v: te.log(v), f"{result}_log")
    return te.compute(x.shape, lambda *i: te.cast(x.dtype, shifted(i) - logs[row(dimension, i)]), result)


def prepared(operator: str, x: te.Tensor, axis: int, name: str | None) -> tuple[int, str]:
    """The dimension, and the result's name."""
    check_float(operator, "x", x)
    return axis_of(operator, len(x.shape), axis), result_name(x, operator, name)


def row(dimension: int, indices: Sequence[te.Value]) -> tuple[te.Value, ...]:
    """The place of what belongs to the whole row of an element."""
    return tuple(te.const(0, "int32") if d == dimension else index for d, index in enumerate(indices))
