"""The scalar functions of expressions, one table: how many arguments, of which types, and what they compute.

The models are numpy's, and define the value: exactly for what IEEE 754 defines (divide, sqrt, roundings) and for
integers, within a few units in the last place for the rest. Floats come as float32 or float64; the 16-bit ones are
widened before and rounded after.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler.ir.dtypes import FLOATS, INTEGER_BITS, Array

NUMBERS = (*INTEGER_BITS, *FLOATS)
WHOLE_BYTES = tuple(dtype for dtype, bits in INTEGER_BITS.items() if bits >= 8)


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function: all arguments of one of `dtypes`; `result` is its dtype where that is another one."""

    name: str
    arity: int
    dtypes: tuple[str, ...]
    model: Callable[..., Any]
    result: str | None = None


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x), both rounded."""
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), by way of the exponential of what is not positive, which cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small), x.dtype)


def erf(x: Array) -> Array:
    """The error function, evaluated in float64."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), x.dtype)


def popcount(x: Array) -> Array:
    """The number of ones among the bits."""
    bits = np.unpackbits(np.ascontiguousarray(x[..., None]).view(np.uint8), axis=-1)
    return np.asarray(bits.sum(axis=-1), x.dtype)


TABLE = (
    ScalarFunction("exp", 1, FLOATS, np.exp),
    ScalarFunction("log", 1, FLOATS, np.log),
    ScalarFunction("sqrt", 1, FLOATS, np.sqrt),
    ScalarFunction("rsqrt", 1, FLOATS, rsqrt),
    ScalarFunction("tanh", 1, FLOATS, np.tanh),
    ScalarFunction("sigmoid", 1, FLOATS, sigmoid),
    ScalarFunction("erf", 1, FLOATS, erf),
    ScalarFunction("sin", 1, FLOATS, np.sin),
    ScalarFunction("cos", 1, FLOATS, np.cos),
    ScalarFunction("pow", 2, FLOATS, np.power),
    ScalarFunction("divide", 2, FLOATS, np.divide),
    ScalarFunction("floor", 1, FLOATS, np.floor),
    ScalarFunction("ceil", 1, FLOATS, np.ceil),
    ScalarFunction("round", 1, FLOATS, np.rint),
    ScalarFunction("trunc", 1, FLOATS, np.trunc),
    ScalarFunction("abs", 1, NUMBERS, np.abs),
    ScalarFunction("popcount", 1, WHOLE_BYTES, popcount),
    ScalarFunction("isnan", 1, FLOATS, np.isnan, "bool"),
)
SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {function.name: function for function in TABLE}


def call_dtype(name: str, dtype: str) -> str:
    """The dtype of a call with arguments of `dtype`."""
    return SCALAR_FUNCTIONS[name].result or dtype
