# SPDX-License-Identifier: Apache-2.0
"""The scalar functions of expressions, one table: arity, argument types, and a NumPy model.

The model defines the value: exactly for integers and for the operations of IEEE 754 (divide, sqrt,
roundings), within a few units in the last place for the others. Models see float32 and float64;
16-bit floats are widened before and rounded after.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler.ir.dtypes import FLOATS, INTEGER_BITS, Array

WIDE_FLOATS = ("float32", "float64")
NUMBERS = (*INTEGER_BITS, *FLOATS)
WHOLE_BYTES = tuple(dtype for dtype, bits in INTEGER_BITS.items() if bits >= 8)


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function; arguments share one of `dtypes`, the result has `result` or the same."""

    name: str
    arity: int
    dtypes: tuple[str, ...]
    model: Callable[..., Any]
    result: str | None = None


def _rsqrt(x: Array) -> Array:
    """1 / sqrt(x), each operation rounded."""
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def _sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), computed from exp(-|x|), which cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small), x.dtype)


def _erf(x: Array) -> Array:
    """The error function, evaluated in float64."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), x.dtype)


def _popcount(x: Array) -> Array:
    """The number of one bits."""
    bits = np.unpackbits(np.ascontiguousarray(x[..., None]).view(np.uint8), axis=-1)
    return np.asarray(bits.sum(axis=-1), x.dtype)


ROUND_PRODUCT_LIMITS = {"float32": (-(2**22), 2**22), "float64": (-(2**31), 2**31 - 1)}


def _round_product(x: Array, y: Array, low: Array, high: Array) -> Array:
    """x * y rounded half to even, at least low, at most high; NaN as high."""
    least, most = ROUND_PRODUCT_LIMITS[str(x.dtype)]
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.rint(x.astype(np.float64) * y.astype(np.float64))
    return np.asarray(np.maximum(np.fmin(rounded, np.fmin(high, most)), np.fmax(low, least)), np.int32)


SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {
    function.name: function
    for function in (
        ScalarFunction("exp", 1, FLOATS, np.exp),
        ScalarFunction("log", 1, FLOATS, np.log),
        ScalarFunction("sqrt", 1, FLOATS, np.sqrt),
        ScalarFunction("rsqrt", 1, FLOATS, _rsqrt),
        ScalarFunction("tanh", 1, FLOATS, np.tanh),
        ScalarFunction("sigmoid", 1, FLOATS, _sigmoid),
        ScalarFunction("erf", 1, FLOATS, _erf),
        ScalarFunction("sin", 1, FLOATS, np.sin),
        ScalarFunction("cos", 1, FLOATS, np.cos),
        ScalarFunction("pow", 2, FLOATS, np.power),
        ScalarFunction("divide", 2, FLOATS, np.divide),
        ScalarFunction("floor", 1, FLOATS, np.floor),
        ScalarFunction("ceil", 1, FLOATS, np.ceil),
        ScalarFunction("round", 1, FLOATS, np.rint),
        ScalarFunction("trunc", 1, FLOATS, np.trunc),
        ScalarFunction("round_product", 4, WIDE_FLOATS, _round_product, "int32"),
        ScalarFunction("abs", 1, NUMBERS, np.abs),
        ScalarFunction("popcount", 1, WHOLE_BYTES, _popcount),
        ScalarFunction("isnan", 1, FLOATS, np.isnan, "bool"),
    )
}


def call_dtype(name: str, dtype: str) -> str:
    """The result dtype of a call with arguments of `dtype`."""
    return SCALAR_FUNCTIONS[name].result or dtype
