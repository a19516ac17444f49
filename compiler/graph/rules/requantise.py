# SPDX-License-Identifier: Apache-2.0
"""Requantisation in the rules of integer operators: exact, half to even.

The products of `operators.quantisation` are exact for sums below 2**29; greater sums are rescaled
in int64. Scales are constants of the kernel, so that nodes that differ only in them
share its code.

With the attribute `fixed_point`, sums are rescaled as TensorFlow Lite's reference kernels do.

Attributes are those of int8 numbers. An activation of uint8, as in blocks of channels, stands for
int8 numbers plus 128: its zero points and bounds are 128 more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vdla.compiler import te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.quantisation import activation_shift, requantise
from vdla.hardware.fixed_point import pack_fixed_point

EXACT_SUM = (1 << 29) - 1
Rescale = Callable[[te.Value, te.Operand], te.Value]


def zero_point(call: NodeCall, key: str, dtype: str) -> int:
    """The zero point of an attribute, for activations of `dtype`."""
    return int(call.attribute(key)) + activation_shift("int8", dtype)


def bounds(call: NodeCall, dtype: str = "int8") -> tuple[int, int]:
    """The least and the greatest result, of `dtype`."""
    shift = activation_shift("int8", dtype)
    return call.attribute("low") + shift, call.attribute("high") + shift


def fixed_point_of(call: NodeCall) -> Array | None:
    """The factors of TensorFlow Lite's rounding [3, n]; None where the machine's rounding holds."""
    factors = call.node.attribute("fixed_point")  # operators of a user may have no such attribute
    return factors if factors is not None and factors.size else None


def scales(call: NodeCall) -> Array:
    """The factors of sums, one, or one a channel: real ones, float32, or packed ones, int64."""
    fixed = fixed_point_of(call)
    if fixed is not None:
        return pack_fixed_point(fixed)
    real = np.ldexp(call.attribute("multiplier").astype(np.float64), -call.attribute("shift"))
    return np.asarray(real, np.float32)


def far(zero: int) -> int:
    """The greatest distance of an int8 number from a zero point."""
    return max(127 - zero, zero + 128)


def greatest_sum(weight: Array, bias: Array, x_zero_point: int, channel: int = 0) -> int:
    """The greatest magnitude of a sum; `channel` is the dimension of the weight's outputs."""
    axes = tuple(d for d in range(weight.ndim) if d != channel)
    sums = np.abs(weight.astype(np.int64)).sum(axis=axes) * far(x_zero_point)
    return int(sums.max(initial=0) + np.abs(bias.astype(np.int64)).max(initial=0))


def rescaled_sums(call: NodeCall, greatest: int) -> Rescale:
    """A function of a sum, up to `greatest` in magnitude, and its channel: the result."""
    dtype = call.result.dtype
    limits, added = bounds(call, dtype), zero_point(call, "y_zero_point", dtype)
    multiplier, shift = call.attribute("multiplier"), call.attribute("shift")
    known = scales(call)
    one = len(known) == 1
    if greatest <= EXACT_SUM or known.dtype == np.int64:
        factors = call.pack("scale", known)

        def rescale(total: te.Value, channel: te.Operand) -> te.Value:
            factor = factors[0 if one else channel]
            return requantise(total, factor, added, dtype, greatest, limits)

        return rescale
    mult, amount = call.pack("multiplier", multiplier), call.pack("shift", shift)

    def rescale_wide(total: te.Value, channel: te.Operand) -> te.Value:
        at = 0 if one else channel
        rounded = shift_half_even(te.cast("int64", total) * mult[at], amount[at])
        return te.cast(dtype, te.clip(rounded + added, *limits))

    return rescale_wide


def rescaled(call: NodeCall, total: te.Tensor, channel: int, greatest: int, name: str) -> te.Tensor:
    """Sums requantised, with scales along dimension `channel`."""
    rescale = rescaled_sums(call, greatest)
    return te.compute(total.shape, lambda *i: rescale(total[i], i[channel]), name)


def shift_half_even(value: te.Value, shift: te.Value) -> te.Value:
    """value / 2**shift of int64, rounded half to even; shifts from 0 to 63."""
    below_half = te.const((1 << 62) - 1, "int64") >> (63 - shift)  # 2**(shift - 1) - 1, 0 for shift 0
    odd = (value >> shift) & te.minimum(shift, 1)
    return (value + below_half + odd) >> shift


def centred(call: NodeCall, x: te.Tensor, zero: int, what: str) -> te.Tensor:
    """An int8 tensor less its zero point, as int32."""
    return te.compute(x.shape, lambda *i: te.cast("int32", x[i]) - zero, f"{call.name()}_{what}")
