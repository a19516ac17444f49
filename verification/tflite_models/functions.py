# SPDX-License-Identifier: Apache-2.0
"""The reference kernels that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from math import erf

import numpy as np

from vdla.support.arrays import Array
from vdla.verification.tflite_models.rounding import (
    inverse_root,
    multiplier,
    round_half_away,
    shift_right,
    times,
    times_fixed,
)
from vdla.verification.tflite_models.step import Kernel, Kernels, OperatorStep


def _sum(sign: int) -> Kernel:
    def kernel(s: OperatorStep) -> Array:
        a, b, twice = float(s.scale(0)), float(s.scale(1)), 2 * max(float(s.scale(0)), float(s.scale(1)))
        first, second = times(s.wide(0) << 20, a / twice), times(s.wide(1) << 20, b / twice)
        return s.result(times(first + sign * second, twice / (2**20 * float(s.y_scale))))

    return kernel


def _mul(s: OperatorStep) -> Array:
    return s.result(times(s.wide(0) * s.wide(1), float(s.scale(0) * s.scale(1) / s.y_scale)))


def _rescale(s: OperatorStep, activation: int = 0) -> Array:
    return s.result(times(s.wide(0), float(s.scale(0) / s.y_scale)), activation)


def _quantise(s: OperatorStep) -> Array:
    if s[0].dtype == np.float32:
        return s.result(_rounded(s[0] / s.y_scale))
    return s.result(times(s.wide(0), float(s.scale(0)) / float(s.y_scale)))


def _leaky(s: OperatorStep) -> Array:
    x, alpha = s.wide(0), np.float32(s.options["Alpha"])
    above, below = float(s.scale(0) / s.y_scale), float(s.scale(0) * alpha / s.y_scale)
    return s.result(np.where(x >= 0, times(x, above), times(x, below)))


def _prelu(s: OperatorStep) -> Array:
    x, slope = s.wide(0), s.wide(1)
    above, below = float(s.scale(0) / s.y_scale), float(s.scale(0) * s.scale(1) / s.y_scale)
    return s.result(np.where(x >= 0, times(x, above), times(x * slope, below)))


def _absolute(s: OperatorStep) -> Array:
    x = np.abs(s.wide(0))
    return s.result(x if s.scale(0) == s.y_scale else times(x, float(s.scale(0) / s.y_scale)))


def _by_float(function: Callable[[Array], Array]) -> Kernel:
    def kernel(s: OperatorStep) -> Array:
        values = function((s.wide(0).astype(np.float32) * s.scale(0)).astype(np.float32)).astype(np.float32)
        scaled = values * (np.float32(1) / s.y_scale)
        return s.result(_rounded(np.clip(scaled, -(2**20), 2**20)))

    return kernel


def _rounded(values: Array) -> Array:
    return np.asarray(np.vectorize(round_half_away, otypes=[np.int64])(values.astype(np.float64)))


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-x)))


def _elu(x: Array) -> Array:
    return np.where(x < 0, np.expm1(x), x)


def _gelu(s: OperatorStep) -> Array:
    """x * Phi(x), by the error function or by a hyperbolic tangent."""

    def function(x: Array) -> Array:
        wide = x.astype(np.float64)
        if s.options["Approximate"]:
            return np.asarray(wide / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))))
        return np.asarray(wide / 2 * (1 + np.vectorize(erf)(wide / np.sqrt(2))))

    return np.asarray(_by_float(function)(s))


def _log(s: OperatorStep) -> Array:
    """The least result where there is no logarithm."""
    least = np.float32(-128 - s.y_zero) * s.y_scale

    def function(x: Array) -> Array:
        return np.where(x > 0, np.log(np.where(x > 0, x, np.float32(1))), least)

    return np.asarray(_by_float(function)(s))


def _sqrt(s: OperatorStep) -> Array:
    """Rounded towards zero."""
    root = np.sqrt(s.scale(0) * s.wide(0).astype(np.float32))
    return s.result(np.trunc(root / s.y_scale).astype(np.int64))


def _rsqrt(s: OperatorStep) -> Array:
    """1 / sqrt of the integer with 20 fractional bits, then times the factor of the scales."""
    real = 1 / (float(np.sqrt(s.scale(0))) * float(s.y_scale))
    q, shift = multiplier(real)
    made = np.full(s[0].shape, 127, np.int64)
    for place, value in np.ndenumerate(s.wide(0)):
        if value > 0:
            root, up = inverse_root(int(value))
            fine = times_fixed(np.array(1), root, up + 20)
            made[place] = int(times_fixed(fine, q, shift - 20)) + s.y_zero
    return np.asarray(np.clip(made, -128, 127).astype(np.int8))


def _squared_difference(s: OperatorStep) -> Array:
    a, b = float(s.scale(0)), float(s.scale(1))
    twice = 2 * max(a, b)
    difference = times(s.wide(0) << 7, a / twice) - times(s.wide(1) << 7, b / twice)
    return s.result(times(difference * difference, twice * twice / (2**14 * float(s.y_scale))))


def _compared(function: Callable[[Array, Array], Array]) -> Kernel:
    """Of numbers with eight more bits, times their scales."""

    def kernel(s: OperatorStep) -> Array:
        a, b = (times(s.wide(n) << 8, float(s.scale(n))) for n in (0, 1))
        return function(a, b)

    return kernel


def _short_high(a: Array, b: int) -> Array:
    """As `doubling_high`, of 16 bits."""
    product = np.asarray(a, np.int64) * b
    nudged = product + np.where(product >= 0, 2**14, 1 - 2**14)
    return np.where(nudged >= 0, nudged // 2**15, -(-nudged // 2**15))


def _hard_swish(s: OperatorStep) -> Array:
    fine = np.float32(1 / 128) * s.scale(0)
    q, shift = multiplier(float(fine / s.y_scale))
    gate_q, gate_shift = multiplier(float(fine / np.float32(3.0 / 32768.0)))
    x = s.wide(0) << 7
    scaled = _short_high(x, min((q + 2**15) >> 16, 2**15 - 1))
    gate = np.clip(x * 2 ** max(gate_shift - 1, 0), -(2**15), 2**15 - 1)
    gate = _short_high(gate, min((gate_q + 2**15) >> 16, 2**15 - 1))
    gate = np.clip(gate * 2, -(2**15), 2**15 - 1) if gate_shift > 0 else gate
    gate = shift_right(gate, -gate_shift) if gate_shift < 0 else gate
    product = ((gate + 2**15) >> 1) * scaled
    high = np.where(product >= 0, product // 2**15, -(-product // 2**15))
    return s.result(shift_right(high, -shift) if shift <= 0 else high * 2**shift)


FUNCTIONS: Kernels = {
    "ABS": _absolute,
    "ADD": _sum(1),
    "CAST": lambda s: s[0].astype(s.y_dtype),
    "DEQUANTIZE": lambda s: s.wide(0).astype(np.float32) * s.scale(0),
    "ELU": _by_float(_elu),
    "EQUAL": _compared(np.equal),
    "EXP": _by_float(np.exp),
    "GELU": _gelu,
    "GREATER": _compared(np.greater),
    "GREATER_EQUAL": _compared(np.greater_equal),
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky,
    "LESS": _compared(np.less),
    "LESS_EQUAL": _compared(np.less_equal),
    "LOG": _log,
    "LOGISTIC": _by_float(_sigmoid),
    "MAXIMUM": lambda s: np.maximum(s[0], s[1]),
    "MINIMUM": lambda s: np.minimum(s[0], s[1]),
    "MUL": _mul,
    "NOT_EQUAL": _compared(np.not_equal),
    "PRELU": _prelu,
    "QUANTIZE": _quantise,
    "RELU": lambda s: _rescale(s, 1),
    "RELU6": lambda s: _rescale(s, 3),
    "RELU_0_TO_1": lambda s: _rescale(s, 4),
    "RELU_N1_TO_1": lambda s: _rescale(s, 2),
    "RSQRT": _rsqrt,
    "SQRT": _sqrt,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SUB": _sum(-1),
    "TANH": _by_float(np.tanh),
}
