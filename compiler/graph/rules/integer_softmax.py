# SPDX-License-Identifier: Apache-2.0
"""The rule of vdla.QSoftmax: TensorFlow Lite's softmax of int8, in fixed point throughout.

Exponentials of differences are a table; the reciprocal of their sum is found by three steps of
Newton's method on numbers of 31 bits.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler import te
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.reduction import reduce_with

_FIRST = 255  # the entry of the difference 0
_SUM_BITS = 12  # integer bits of a sum of exponentials
_ONE, _TWO_BITS = (1 << 31) - 1, 1 << 29
_48_OVER_17, _32_OVER_17 = 1515870810, -1010580540  # with 29 fractional bits
_STEPS = 3
_OF_TWO_BITS = 16  # the shift of exponents that a search by halves begins with


def qsoftmax(call: NodeCall) -> te.Tensor:
    """Along the last dimension."""
    x, name, table = call.tensor(0), call.name(), call.pack("exponentials", call.attribute("exponentials"))
    if x.dtype != "int8":
        call.decline(f"read int8 elements, got {x.dtype}")
    axis = len(x.shape) - 1
    largest = reduce_with(te.max, x, (axis,), True, f"{name}_largest")

    def exponential(*i: te.Value) -> te.Value:
        row = (*i[:-1], 0)
        difference = te.cast("int32", x[i]) - te.cast("int32", largest[row])
        return te.cast("int64", table[difference + _FIRST])

    exponentials = te.compute(x.shape, exponential, f"{name}_exp")
    terms = te.compute(x.shape, lambda *i: _divided(exponentials[i], _SUM_BITS), f"{name}_terms")
    total = reduce_with(te.sum, terms, (axis,), True, f"{name}_sum")
    headroom, reciprocal = _reciprocal(total, name)

    def value(*i: te.Value) -> te.Value:
        row = (*i[:-1], 0)
        shift = _SUM_BITS - headroom[row] + 31 - 8
        result = _divided(_high(reciprocal[row], exponentials[i]), shift) - 128
        return te.cast("int8", te.clip(result, -128, 127))

    return te.compute(x.shape, value, name)


def _reciprocal(total: te.Tensor, name: str) -> tuple[te.Tensor, te.Tensor]:
    """The leading zeros of sums in 32 bits, and one over the sums without them, in 31 bits."""

    def rows(what: str, value: Callable[..., te.Value]) -> te.Tensor:
        return te.compute(total.shape, lambda *i: value(*i), f"{name}_{what}")

    shifted, headroom = total, rows("zeros", lambda *i: te.const(0, "int64") * total[i])
    step = _OF_TWO_BITS
    while step:
        shifted, headroom = _normalised(rows, shifted, headroom, step)
        step //= 2
    half = rows("half", lambda *i: (shifted[i] - (1 << 31) + _ONE + 1) >> 1)
    estimate = rows("estimate0", lambda *i: _high(half[i], te.const(_32_OVER_17, "int64")) + _48_OVER_17)
    for number in range(1, _STEPS + 1):
        estimate = _newton(rows, half, estimate, number)
    return headroom, rows("reciprocal", lambda *i: te.minimum(estimate[i] << 1, te.const(_ONE, "int64")))


_Rows = Callable[[str, Callable[..., te.Value]], te.Tensor]


def _normalised(rows: _Rows, shifted: te.Tensor, headroom: te.Tensor, step: int) -> tuple[te.Tensor, te.Tensor]:
    """One step of the search for the leading zeros: shifts by `step` what stays below 2**32."""

    def shift(*i: te.Value) -> te.Value:
        return te.select(shifted[i] < (1 << (32 - step)), te.const(step, "int64"), te.const(0, "int64"))

    amount = rows(f"shift{step}", shift)
    return (
        rows(f"shifted{step}", lambda *i: shifted[i] << amount[i]),
        rows(f"headroom{step}", lambda *i: headroom[i] + amount[i]),
    )


def _newton(rows: _Rows, half: te.Tensor, x: te.Tensor, number: int) -> te.Tensor:
    """x + x (1 - half x), numbers of two integer bits."""

    def value(*i: te.Value) -> te.Value:
        remainder = _TWO_BITS - _high(half[i], x[i])
        return x[i] + (_high(x[i], remainder) << 2)

    return rows(f"estimate{number}", value)


def _high(a: te.Value, b: te.Value) -> te.Value:
    """a * b / 2**31, rounded half up."""
    return (a * b + (1 << 30)) >> 31


def _divided(value: te.Value, exponent: te.Operand) -> te.Value:
    """A value from 0 up over 2**exponent, rounded half up; exponents of at least 1."""
    return (value + ((te.const(1, "int64") << exponent) >> 1)) >> exponent
