# SPDX-License-Identifier: Apache-2.0
"""Operations on symbolic floats.

Sums, differences and products are those of real numbers; a conversion that rounds, a comparison, a
quotient and every other function is one without structure of its operands. Numbers are computed as
they are, sums and products only if they are exact.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from vdla.compiler import ir
from vdla.compiler.certificates import field
from vdla.compiler.certificates.extremes import EXTREMES, extreme
from vdla.compiler.certificates.float_symbols import INFINITE, any_float, float_numbers, float_values, in_order
from vdla.compiler.certificates.symbols import (
    BOOL,
    LARGE,
    Symbols,
    chosen,
    elements_of,
    key,
    known,
    numbers,
    settled,
    symbols,
    type_bounds,
    unstructured,
)
from vdla.compiler.ir import SCALAR_FUNCTIONS, SMALL_FLOATS, Array, is_float, storage_dtype, wrap

_RING = {"add": field.add, "sub": field.subtract, "mul": field.multiply}
_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # bits of exact integers
_EXACT_IN = {"float16": ("float32", "float64"), "bfloat16": ("float32", "float64"), "float32": ("float64",)}
_MIRRORED = {"gt": "lt", "ge": "le"}


def float_binary(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """`a op b` of floats."""
    a, b = np.broadcast_arrays(a, b)
    both = known(a) & known(b)
    if op in _RING:
        made = _neutral(op, _ring(op, a, b), a, b)
        return _with_exact_numbers(made, both, _computed(op, a, b, dtype)) if both.any() else made
    made = _extreme(op, a, b, dtype) if op in EXTREMES else _compared(op, a, b)
    if not both.any():
        return made
    result = _computed(op, a, b, dtype)
    return chosen(both, numbers(result) if op in ir.COMPARE_OPS else float_numbers(result), made)


def _computed(op: str, a: Symbols, b: Symbols, dtype: str) -> Array:
    """The results where both are numbers, in the type that arithmetic uses; arbitrary elsewhere."""
    stored = np.dtype(np.float32) if dtype in SMALL_FLOATS else storage_dtype(dtype)
    with np.errstate(all="ignore"):
        result = np.asarray(ir.OPERATORS[op].on_arrays(*(float_values(x).astype(stored) for x in (a, b))))
    return result if op in ir.COMPARE_OPS else wrap(result, dtype)


def _with_exact_numbers(made: Symbols, where: Array, result: Array) -> Symbols:
    """Results of which those are numbers that are exact."""
    exact = float_numbers(result)
    return chosen(where & np.isfinite(result) & (exact["value"] == made["value"]), exact, made)


def _ring(op: str, a: Symbols, b: Symbols) -> Symbols:
    a, b = elements_of(a), elements_of(b)
    for most in (LARGE, np.sqrt(LARGE) / 2, 1):
        a, b = (_shortened(x, most) for x in (a, b))
        norm = a["norm"] * b["norm"] if op == "mul" else a["norm"] + b["norm"]
        if (norm < LARGE).all():
            return any_float(_RING[op](a["value"], b["value"]), norm)
    raise AssertionError("norms of 1")


_NEUTRAL = {"add": 0.0, "sub": 0.0, "mul": 1.0}


def _neutral(op: str, made: Symbols, a: Symbols, b: Symbols) -> Symbols:
    """A result, or the operand that the other one does not change, as of integers."""
    neutral = float_numbers(_NEUTRAL[op])
    for x, y in ((a, b),) if op == "sub" else ((b, a), (a, b)):
        made = chosen(known(y) & (y["low"] == neutral["low"]) & (x["norm"] < LARGE), x, made)
    return made


def _shortened(a: Symbols, most: float) -> Symbols:
    """Symbols whose norm is at most this; the others become functions without structure."""
    large = a["norm"] > most
    if not large.any():
        return a
    return chosen(large, unstructured(("large float",), a["low"], a["high"], a), a)


def _extreme(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    made = extreme(op, a, b, dtype)
    for x, y in ((a, b), (b, a)):
        decided = x["high"] <= y["low"] if op == "min" else x["low"] >= y["high"]
        made = chosen(decided | (x["value"] == y["value"]), x, made)
    return made


def _compared(op: str, a: Symbols, b: Symbols) -> Symbols:
    """Comparisons without a rule that NaN breaks: at most is not the opposite of greater."""
    if op in _MIRRORED:
        return _compared(_MIRRORED[op], b, a)
    if op == "ne":
        equal = _compared("eq", a, b)
        return symbols(field.subtract(field.from_integers(1), equal["value"]), 1 - equal["high"], 1 - equal["low"])
    if op == "eq":
        swap = a["value"] > b["value"]
        a, b = chosen(swap, b, a), chosen(swap, a, b)
    return unstructured((op, "float"), *BOOL, a, b)


# --- casts, selections, calls ---------------------------------------------------------------------


def float_cast(a: Symbols, source: str, target: str) -> Symbols:
    """Symbols of a type in another one, one or both of floats."""
    if not is_float(source):
        return _from_integers(settled(a, source), target)
    if target == "bool":
        return float_binary("ne", a, float_numbers(0.0), source)
    if source == target or target in _EXACT_IN.get(source, ()):
        return a
    ends = (-INFINITE, INFINITE) if is_float(target) else type_bounds(target)
    made = unstructured(("convert", target), *ends, a)
    if not known(a).any():
        return made
    values = float_values(a).astype(np.float64 if source == "float64" else np.float32)
    exact = wrap(values, target)
    return chosen(known(a), float_numbers(exact) if is_float(target) else numbers(exact), made)


def _from_integers(a: Symbols, target: str) -> Symbols:
    """Integers as floats; those that may need rounding are functions without structure."""
    a, most = elements_of(a), 1 << _PRECISION[target]
    inside = (a["low"] >= -most) & (a["high"] <= most)
    low, high = (in_order(np.where(inside, a[part], 0).astype(np.float64)) for part in ("low", "high"))
    kept = symbols(a["value"], low, high, norm=a["norm"])
    made = chosen(inside, kept, unstructured(("convert", target), -INFINITE, INFINITE, a))
    exact = known(a)
    stored = np.float32 if target in SMALL_FLOATS else storage_dtype(target)
    return chosen(exact, float_numbers(wrap(a["low"].astype(stored), target)), made) if exact.any() else made


def float_select(condition: Symbols, a: Symbols, b: Symbols) -> Symbols:
    """`a` where the condition holds, else `b`."""
    condition, a, b = np.broadcast_arrays(condition, a, b)
    low, high = np.minimum(a["low"], b["low"]), np.maximum(a["high"], b["high"])
    made = unstructured(("select",), low, high, condition, a, b)
    made = chosen(a["value"] == b["value"], a, made)
    return chosen(known(condition), chosen(condition["low"] == 1, a, b), made)


def reciprocal(a: Symbols) -> Symbols:
    """One over known numbers: powers of two are exact, others elements without structure."""
    values = float_values(a)
    exact = np.abs(np.frexp(values)[0]) == 0.5
    halves = float_numbers(np.where(exact, 1 / np.where(exact, values, 1), 1))
    return chosen(exact, halves, any_float(field.hashed(key("reciprocal"), a["low"].view(np.uint64))))


def _quotient(a: Symbols, b: Symbols, made: Symbols) -> Symbols:
    """A quotient by numbers is a product with their reciprocals."""
    usable = known(b) & ~known(a) & np.isfinite(float_values(b)) & (b["low"] != 0)
    if not usable.any():
        return made
    return chosen(usable, _ring("mul", a, reciprocal(np.where(usable, b, float_numbers(1.0)))), made)


def float_called(name: str, arguments: list[Symbols], dtypes: list[str], dtype: str) -> Symbols:
    """A scalar function with operands or a result of floats."""
    arguments = [a if is_float(source) else settled(a, source) for a, source in zip(arguments, dtypes, strict=True)]
    ends = (-INFINITE, INFINITE) if is_float(dtype) else type_bounds(dtype)
    made = unstructured((name, dtype), *ends, *arguments)
    if name == "divide":
        a, b = np.broadcast_arrays(*arguments)
        made = _quotient(a, b, made)
    every = reduce(np.logical_and, (known(a) for a in arguments))
    if not every.any():
        return made
    values = [_stored(np.where(every, a, float_numbers(1.0) if is_float(source) else numbers(1)), source)
              for a, source in zip(arguments, dtypes, strict=True)]  # fmt: skip
    with np.errstate(all="ignore"):
        result = wrap(np.asarray(SCALAR_FUNCTIONS[name].model(*values)), dtype)
    return chosen(every, float_numbers(result) if is_float(dtype) else numbers(result), made)


def _stored(a: Symbols, dtype: str) -> Array:
    """Numbers in the type that functions take."""
    if not is_float(dtype):
        return np.asarray(a["low"].astype(storage_dtype(dtype)))
    return float_values(a).astype(np.float64 if dtype == "float64" else np.float32)


# --- sums -----------------------------------------------------------------------------------------


def float_combined_along(op: str, terms: Symbols, axis: tuple[int, ...], dtype: str) -> Symbols:
    """Terms combined along axes, which are kept with length 1."""
    if op == "add":
        return _summed(terms, axis, dtype)
    kept = tuple(1 if d in axis else n for d, n in enumerate(terms.shape))
    flat = np.moveaxis(terms, axis, range(len(axis)))
    flat = flat.reshape(-1, *flat.shape[len(axis) :])
    result: Symbols = reduce(lambda a, b: float_binary(op, a, b, dtype), flat)
    return result.reshape(kept)


def _summed(terms: Symbols, axis: tuple[int, ...], dtype: str) -> Symbols:
    terms = elements_of(terms)
    norm = np.sum(terms["norm"], axis=axis, keepdims=True)
    if (norm >= LARGE).any():
        terms = _shortened(terms, 1)
        norm = np.sum(terms["norm"], axis=axis, keepdims=True)
    made = any_float(field.total(np.ascontiguousarray(terms["value"]), axis), norm)
    every = np.asarray(known(terms).all(axis=axis, keepdims=True))
    if not every.any():
        return made
    with np.errstate(all="ignore"):
        sums = np.sum(float_values(terms), axis=axis, keepdims=True)
        rounded = wrap(sums.astype(np.float32) if dtype in SMALL_FLOATS else sums, dtype)
    return _with_exact_numbers(made, every, rounded)


def float_products(a: Symbols, b: Symbols, dtype: str) -> Symbols | None:
    """Symbols `[..., M, K]` and `[..., K, N]` multiplied as matrices; None where coefficients may
    be large.
    """
    a, b = elements_of(a), elements_of(b)
    if not a.size or not b.size:
        return None
    norm = float(a["norm"].max()) * float(b["norm"].max()) * a.shape[-1]
    if norm >= LARGE:
        return None
    return any_float(field.matmul(np.ascontiguousarray(a["value"]), np.ascontiguousarray(b["value"])), norm)
