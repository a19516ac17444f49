# SPDX-License-Identifier: Apache-2.0
"""SOFTMAX: of floats, and of int8 in fixed point."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import Array, TensorType
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import check_float
from vdla.hardware.fixed_point import fixed_point, multiply_high, scale_fixed_point

_INTEGER_BITS = 5  # of the scaled differences
_FRACTION = 31 - _INTEGER_BITS
_ONE = (1 << 31) - 1
_EXP_OF_EIGHTH = 1895147668  # e^(-1/8) in 31 bits
_THIRD = 715827883  # 1/3 in 31 bits
# e^-(2**n) in 31 bits, n from -2
_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def softmax(at: OperatorContext) -> None:
    """Along the last dimension."""
    beta = float(at.option("Beta", 0.0))
    if not np.isfinite(beta) or beta <= 0:
        decline(f"have a beta above 0, got {beta}")
    kind = TensorType(at.output.dtype, at.tensor(0).shape)
    if not kind.extents:
        decline("have at least one dimension")
    if at.is_quantised:
        if (at.result.scale, at.result.zero_point) != (np.float32(1 / 256), -128):
            decline("have a result of scale 1/256 and zero point -128")
        return at.define(at.add("vdla.QSoftmax", [at.read(0)], {"exponentials": exponentials(at, beta)}, kind))
    check_float(at)
    name = at.read(0)
    if beta != 1.0:
        name = at.add("Mul", [name, at.builder.constant(np.array(beta, np.float32), f"{at.builder.label}_beta")])
    return at.define(at.add("Softmax", [name], {"axis": -1}, kind))


def exponentials(at: OperatorContext, beta: float) -> Array:
    """e^(beta * scale * d) in 31 bits for differences d from -255 to 0; 0 where negligible."""
    real = min(beta * at.affine(0).wide * (1 << _FRACTION), float(_ONE))
    [multiplier], [shift], _ = fixed_point(real).tolist()
    least = -int(np.floor(((1 << _INTEGER_BITS) - 1) * (1 << _FRACTION) / 2.0**shift))
    differences = np.arange(-255, 1)
    scaled = scale_fixed_point(np.maximum(differences, least), multiplier, shift)
    return np.where(differences >= least, exp_of_negative(scaled), 0).astype(np.int32)


def exp_of_negative(a: Array) -> Array:
    """e^a in 31 bits, of a <= 0 with 26 fractional bits.

    The part below a quarter by a polynomial, the rest by a product of powers.
    """
    quarter = 1 << (_FRACTION - 2)
    remainder = (a & (quarter - 1)) - quarter
    result = _exp_below_quarter(remainder << _INTEGER_BITS)
    above = remainder - a
    for n, power in enumerate(_POWERS):
        bit = (above >> (_FRACTION - 2 + n)) & 1
        result = np.where(bit == 1, multiply_high(result, power), result)
    return np.asarray(np.where(a == 0, _ONE, result))


def _exp_below_quarter(a: Array) -> Array:
    """e^a in 31 bits, of a in [-1/4, 0) with 31: a polynomial about -1/8."""
    x = a + (1 << 28)
    x2 = multiply_high(x, x)
    x3 = multiply_high(x2, x)
    x4 = multiply_high(x2, x2)
    x4_over_4 = _half_up(x4, 2)
    series = _half_up(multiply_high(x4_over_4 + x3, _THIRD) + x2, 1)
    return _EXP_OF_EIGHTH + multiply_high(_EXP_OF_EIGHTH, x + series)


def _half_up(values: Array, exponent: int) -> Array:
    """values / 2**exponent, rounded half away from zero."""
    half = (1 << exponent) >> 1
    return np.asarray((values + half - (values < 0)) >> exponent)
