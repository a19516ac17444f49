"""Requantisation in the rules of integer operators: exact, half to even.

The products of `operators.quantisation` are exact for sums below 2**29; greater sums are rescaled
in int64. Scales are constants of the kernel, so that nodes that differ only in them
share its code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vdla.compiler import te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.quantisation import requantise

EXACT_SUM = (1 << 29) - 1
Rescale = Callable[[te.Value, te.Operand], te.Value]


def bounds(call: NodeCall) -> tuple[int, int]:
    """The least and the greatest result."""
    return call.attribute("low"), call.attribute("high")


def scales(call: NodeCall) -> Array:
    """The real factors of sums, float32: one, or one a channel."""
    real = np.ldexp(call.attribute("multiplier").astype(np.float64), -call.attribute("shift"))
    return np.asarray(real, np.float32)


def far(zero_point: int) -> int:
    """The greatest distance of an int8 value from a zero point."""
    return max(127 - zero_point, zero_point + 128)


def rescaled_sums(call: NodeCall, greatest: int) -> Rescale:
    """A function of a sum, up to `greatest` in magnitude, and its channel: the int8 result."""
    low, high = bounds(call)
    multiplier, shift = call.attribute("multiplier"), call.attribute("shift")
    zero_point, one = call.attribute("y_zero_point"), len(multiplier) == 1
    if greatest <= EXACT_SUM:
        factors = call.pack("scale", scales(call))

        def rescale(total: te.Value, channel: te.Operand) -> te.Value:
            factor = factors[0 if one else channel]
            return requantise(total, factor, zero_point, "int8", greatest, (low, high))

        return rescale
    mult, amount = call.pack("multiplier", multiplier), call.pack("shift", shift)

    def rescale_wide(total: te.Value, channel: te.Operand) -> te.Value:
        at = 0 if one else channel
        rounded = shift_half_even(te.cast("int64", total) * mult[at], amount[at])
        return te.cast("int8", te.clip(rounded + zero_point, low, high))

    return rescale_wide


def shift_half_even(value: te.Value, shift: te.Value) -> te.Value:
    """value / 2**shift of int64, rounded half to even; shifts from 0 to 63."""
    below_half = te.const((1 << 62) - 1, "int64") >> (63 - shift)  # 2**(shift - 1) - 1, 0 for shift 0
    odd = (value >> shift) & te.minimum(shift, 1)
    return (value + below_half + odd) >> shift


def centred(call: NodeCall, x: te.Tensor, zero_point: int, what: str) -> te.Tensor:
    """An int8 tensor less its zero point, as int32."""
    return te.compute(x.shape, lambda *i: te.cast("int32", x[i]) - zero_point, f"{call.name()}_{what}")
