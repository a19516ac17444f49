# SPDX-License-Identifier: Apache-2.0
"""Operators on elements, of arrays that broadcast. Integers wrap.

Short floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.dtypes import INTEGER_KINDS, in_float32, is_short_float, widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def _of(function: Callable[[Array], Any]) -> Function:
    """A function without attributes."""
    return in_float32(lambda attributes, x: function(x))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), by exp(-|x|), which cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small), x.dtype)


def erf(x: Array) -> Array:
    """The error function, in float64."""
    values = np.asarray(x, np.float64)
    return np.array([math.erf(v) for v in values.reshape(-1)], np.float64).reshape(values.shape)


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.asarray(np.logaddexp(x, x.dtype.type(0)))


def _celu(attributes: Attributes, x: Array) -> Array:
    alpha = attributes.get("alpha", 1.0)
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def _elu(attributes: Attributes, x: Array) -> Array:
    return np.where(x > 0, x, attributes.get("alpha", 1.0) * np.expm1(np.minimum(x, 0)))


def _selu(attributes: Attributes, x: Array) -> Array:
    alpha, gamma = attributes.get("alpha", 1.6732632423543772), attributes.get("gamma", 1.0507009873554805)
    return np.asarray(gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))


def _gelu(attributes: Attributes, x: Array) -> Array:
    if attributes.get("approximate", "none") == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))


def _hard_sigmoid(attributes: Attributes, x: Array) -> Array:
    return np.asarray(np.clip(attributes.get("alpha", 0.2) * x + attributes.get("beta", 0.5), 0, 1))


def _leaky_relu(attributes: Attributes, x: Array) -> Array:
    return np.where(x < 0, attributes.get("alpha", 0.01) * x, x)


def _shrink(attributes: Attributes, x: Array) -> Array:
    bias, limit = attributes.get("bias", 0.0), attributes.get("lambd", 0.5)
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0))


def _swish(attributes: Attributes, x: Array) -> Array:
    return x * sigmoid(x * x.dtype.type(attributes.get("alpha", 1.0)))


def _swiglu(attributes: Attributes, gate: Array, x: Array) -> Array:
    return _swish(attributes, gate) * x


def _thresholded_relu(attributes: Attributes, x: Array) -> Array:
    return np.where(x > attributes.get("alpha", 1.0), x, 0)


def _clip(attributes: Attributes, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    raised = x if low is None else np.maximum(x, low)
    return raised if high is None else np.minimum(raised, high)


def _isinf(attributes: Attributes, x: Array) -> tuple[Array]:
    wide = widened(x)
    below = np.isneginf(wide) & bool(attributes.get("detect_negative", 1))
    return (below | (np.isposinf(wide) & bool(attributes.get("detect_positive", 1))),)


def _isnan(attributes: Attributes, x: Array) -> tuple[Array]:
    return (np.asarray(np.isnan(x.astype(np.float32) if is_short_float(x.dtype) else x)),)


def _not(attributes: Attributes, x: Array) -> tuple[Array]:
    return (np.asarray(~x),)


ELEMENTWISE: Mapping[str, Function] = {
    "Abs": _of(np.abs),
    "Acos": _of(np.arccos),
    "Acosh": _of(np.arccosh),
    "Asin": _of(np.arcsin),
    "Asinh": _of(np.arcsinh),
    "Atan": _of(np.arctan),
    "Atanh": _of(np.arctanh),
    "BitwiseNot": _of(np.invert),
    "Ceil": _of(np.ceil),
    "Celu": in_float32(_celu),
    "Clip": in_float32(_clip),
    "Cos": _of(np.cos),
    "Cosh": _of(np.cosh),
    "Elu": in_float32(_elu),
    "Erf": _of(erf),
    "Exp": _of(np.exp),
    "Floor": _of(np.floor),
    "Gelu": in_float32(_gelu),
    "HardSigmoid": in_float32(_hard_sigmoid),
    "HardSwish": _of(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "IsInf": _isinf,
    "IsNaN": _isnan,
    "LeakyRelu": in_float32(_leaky_relu),
    "Log": _of(np.log),
    "Mish": _of(lambda x: x * np.tanh(softplus(x))),
    "Neg": _of(np.negative),
    "Not": _not,
    "Reciprocal": _of(lambda x: 1 / x),
    "Relu": _of(lambda x: np.maximum(x, 0)),
    "Round": _of(np.rint),
    "Selu": in_float32(_selu),
    "Shrink": in_float32(_shrink),
    "Sigmoid": _of(sigmoid),
    "Sign": _of(np.sign),
    "Sin": _of(np.sin),
    "Sinh": _of(np.sinh),
    "Softplus": _of(softplus),
    "Softsign": _of(lambda x: x / (1 + np.abs(x))),
    "Sqrt": _of(np.sqrt),
    "SwiGLU": in_float32(_swiglu),
    "Swish": in_float32(_swish),
    "Tan": _of(np.tan),
    "Tanh": _of(np.tanh),
    "ThresholdedRelu": in_float32(_thresholded_relu),
}


# --- several arrays -------------------------------------------------------------------------------


_Binary = Callable[[Array, Array], Any]


def _of_pair(function: _Binary) -> Function:
    """A function of two arrays of one type."""
    return in_float32(lambda attributes, a, b: function(a, b))


def _comparison(function: _Binary) -> Function:
    """A function of two arrays to bools."""
    return lambda attributes, a, b: (np.asarray(function(widened(a), widened(b)), np.bool_),)


def _variadic(function: _Binary) -> Function:
    """A function of any number of arrays, from left to right."""
    return in_float32(lambda attributes, *arrays: reduce(function, arrays))


def _mean(attributes: Attributes, *arrays: Array) -> Array:
    return np.asarray(reduce(np.add, arrays) / len(arrays))


def quotient(a: Array, b: Array) -> Array:
    """a / b; integer quotients are truncated, and 0 where b is."""
    if a.dtype.kind not in INTEGER_KINDS:
        return np.asarray(np.divide(a, b))
    down = np.floor_divide(a, b)
    return np.asarray(down + ((down < 0) & (down * b != a)).astype(a.dtype))


def _modulo(attributes: Attributes, a: Array, b: Array) -> Array:
    return np.asarray((np.fmod if attributes.get("fmod", 0) else np.mod)(a, b))


def _power(attributes: Attributes, base: Array, exponent: Array) -> Array:
    if base.dtype.kind in INTEGER_KINDS and exponent.dtype.kind == "f":
        return np.asarray(np.power(base.astype(np.float64), exponent))
    if base.dtype.kind in INTEGER_KINDS and (exponent < 0).any():
        return np.trunc(np.power(base.astype(np.float64), exponent))
    return np.asarray(np.power(base, exponent.astype(base.dtype)))


def _shift(attributes: Attributes, x: Array, count: Array) -> tuple[Array]:
    """A shift by at least the width shifts out every bit; to the right signs fill."""
    bits = x.dtype.itemsize * 8
    to_left, within = attributes["direction"] == "LEFT", np.clip(count, 0, bits - 1).astype(x.dtype)
    moved = (np.left_shift if to_left else np.right_shift)(x, within)
    beyond = np.where(x < 0, -1, 0) if x.dtype.kind == "i" and not to_left else 0
    return (np.where((count >= 0) & (count < bits), moved, beyond).astype(x.dtype),)


def _prelu(attributes: Attributes, x: Array, slope: Array) -> Array:
    return np.where(x < 0, slope * x, x)


def _where(attributes: Attributes, condition: Array, a: Array, b: Array) -> tuple[Array]:
    return (np.where(condition, a, b),)


BROADCAST: Mapping[str, Function] = {
    "Add": _of_pair(np.add),
    "And": _comparison(np.logical_and),
    "BitShift": _shift,
    "BitwiseAnd": _of_pair(np.bitwise_and),
    "BitwiseOr": _of_pair(np.bitwise_or),
    "BitwiseXor": _of_pair(np.bitwise_xor),
    "Div": _of_pair(quotient),
    "Equal": _comparison(np.equal),
    "Greater": _comparison(np.greater),
    "GreaterOrEqual": _comparison(np.greater_equal),
    "Less": _comparison(np.less),
    "LessOrEqual": _comparison(np.less_equal),
    "Max": _variadic(np.maximum),
    "Mean": in_float32(_mean),
    "Min": _variadic(np.minimum),
    "Mod": in_float32(_modulo),
    "Mul": _of_pair(np.multiply),
    "Or": _comparison(np.logical_or),
    "PRelu": in_float32(_prelu),
    "Pow": in_float32(_power),
    "Sub": _of_pair(np.subtract),
    "Sum": _variadic(np.add),
    "Where": _where,
    "Xor": _comparison(np.logical_xor),
}
