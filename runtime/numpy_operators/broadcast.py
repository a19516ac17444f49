"""Element-wise operators on several arrays, which broadcast as NumPy's do. Integers wrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.dtypes import INTEGER_KINDS, in_float32, widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function

_Binary = Callable[[Array, Array], Any]


def _of(function: _Binary) -> Function:
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
    left, within = attributes["direction"] == "LEFT", np.clip(count, 0, bits - 1).astype(x.dtype)
    moved = (np.left_shift if left else np.right_shift)(x, within)
    beyond = np.where(x < 0, -1, 0) if x.dtype.kind == "i" and not left else 0
    return (np.where((count >= 0) & (count < bits), moved, beyond).astype(x.dtype),)


def _prelu(attributes: Attributes, x: Array, slope: Array) -> Array:
    return np.where(x < 0, slope * x, x)


def _where(attributes: Attributes, condition: Array, a: Array, b: Array) -> tuple[Array]:
    return (np.where(condition, a, b),)


BROADCAST: Mapping[str, Function] = {
    "Add": _of(np.add),
    "And": _comparison(np.logical_and),
    "BitShift": _shift,
    "BitwiseAnd": _of(np.bitwise_and),
    "BitwiseOr": _of(np.bitwise_or),
    "BitwiseXor": _of(np.bitwise_xor),
    "Div": _of(quotient),
    "Equal": _comparison(np.equal),
    "Greater": _comparison(np.greater),
    "GreaterOrEqual": _comparison(np.greater_equal),
    "Less": _comparison(np.less),
    "LessOrEqual": _comparison(np.less_equal),
    "Max": _variadic(np.maximum),
    "Mean": in_float32(_mean),
    "Min": _variadic(np.minimum),
    "Mod": in_float32(_modulo),
    "Mul": _of(np.multiply),
    "Or": _comparison(np.logical_or),
    "PRelu": in_float32(_prelu),
    "Pow": in_float32(_power),
    "Sub": _of(np.subtract),
    "Sum": _variadic(np.add),
    "Where": _where,
    "Xor": _comparison(np.logical_xor),
}
