# SPDX-License-Identifier: Apache-2.0
"""Symbolic integers: what is computed of inputs, as elements of a field, with bounds.

Sums and products are those of the field, so they are the same in every order. Whatever else is
computed is a function without structure of its operands, unless bounds show that it changes nothing
or decide it. An integer whose bounds are equal is a number, and operations on numbers are exact.

Integers that may leave their type are polynomials, equal modulo its range; they wrap, by a function
without structure, where anything but a ring operation of the type reads them. Minima and maxima are
sums of such a function of their operands, so that their order does not matter; where another
operation reads one, it is a function without structure of that sum.

Two polynomials that are equal in the field are equal as integers only while their coefficients are
smaller than the prime. The norm of a symbol bounds the sum of their magnitudes.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache, reduce
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.certificates import field
from vdla.compiler.ir import INTEGER_BITS, SCALAR_FUNCTIONS, Array, limits, storage_dtype, wrap
from vdla.support.errors import Error

SYMBOL = np.dtype([("value", "u8"), ("low", "i8"), ("high", "i8"), ("form", "u1"), ("norm", "f4")], align=True)
"""An element of the field, bounds, a `SymbolForm`, and a bound of the sum of its coefficients."""
OPAQUE = np.dtype(f"V{SYMBOL.itemsize}")
"""A symbol that is moved, which NumPy does faster if it knows no fields."""

Symbols = npt.NDArray[np.void]
_BOOL = (0, 1)
LARGE = 1 << 58
"""Coefficients of this magnitude are not exact in the field."""


class CertificateError(Error, ValueError):
    """An expression or a program that cannot be evaluated symbolically."""


class SymbolForm(IntEnum):
    """How an integer was made."""

    PLAIN = 0
    POLYNOMIAL = 1  # of a type, whose range its value may leave
    MINIMUM = 2
    MAXIMUM = 3


_SETS = {"min": SymbolForm.MINIMUM, "max": SymbolForm.MAXIMUM}
_RING = ("add", "sub", "mul")


def symbols(value: Any, low: Any, high: Any, form: Any = SymbolForm.PLAIN, norm: Any = 1) -> Symbols:  # noqa: ANN401  arrays that broadcast
    """Symbols of their parts."""
    shape = np.broadcast_shapes(*(np.shape(part) for part in (value, low, high, form)))
    made = np.empty(shape, SYMBOL)
    made["value"], made["low"], made["high"], made["form"], made["norm"] = value, low, high, form, norm
    return made


def chosen(mask: npt.ArrayLike, a: Symbols, b: Symbols) -> Symbols:
    """`a` where the mask holds, else `b`; not to be written, since it may be one of them."""
    for everywhere, one in ((np.all(mask), a), (not np.any(mask), b)):
        if everywhere:
            return np.broadcast_to(one, np.broadcast_shapes(np.shape(mask), a.shape, b.shape))
    return np.where(mask, a.view(OPAQUE), b.view(OPAQUE)).view(SYMBOL)


def gathered(a: Symbols, places: npt.NDArray[np.integer[Any]]) -> Symbols:
    """The elements of the flat array, or the entries along the first dimension, at places."""
    return a.view(OPAQUE).take(places, axis=0).view(SYMBOL)


def numbers(values: npt.ArrayLike) -> Symbols:
    """Integers as symbols; the large ones are elements without structure."""
    integers = np.asarray(values).astype(np.int64)
    elements, norm = field.from_integers(integers), np.abs(integers.astype(np.float32))
    large = norm >= LARGE
    if large.any():
        elements = np.where(large, field.hashed(_key("large"), integers.view(np.uint64)), elements)
        norm = np.where(large, np.float32(1), norm)
    return symbols(elements, integers, integers, norm=norm)


def unknowns(name: str, shape: tuple[int, ...], dtype: str, seed: int) -> Symbols:
    """Independent inputs of a type: every element is another one."""
    places = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
    return symbols(field.hashed(_key("input", name, seed), places), *type_bounds(dtype))


def type_bounds(dtype: str) -> tuple[int, int]:
    """The range of a type of integers, as far as int64 has it."""
    if dtype == "bool":
        return _BOOL
    if dtype not in INTEGER_BITS or dtype == "uint64":
        raise CertificateError(f"certify: type must be bool or an integer of at most int64, got {dtype}")
    low, high = limits(dtype)
    return int(low), int(high)


def known(a: Symbols) -> npt.NDArray[np.bool_]:
    """Which symbols are numbers."""
    return np.asarray(a["low"] == a["high"])


@lru_cache(maxsize=1024)
def _key(*parts: object) -> int:
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest())


def _unstructured(key: tuple[object, ...], low: Any, high: Any, *arguments: Symbols) -> Symbols:  # noqa: ANN401
    return symbols(field.hashed(_key(*key), *(argument["value"] for argument in arguments)), low, high)


def settled(a: Symbols, dtype: str) -> Symbols:
    """Symbols of a type with those wrapped that may leave it."""
    polynomial = a["form"] == SymbolForm.POLYNOMIAL
    if not polynomial.any():
        return a
    return chosen(polynomial, _unstructured(("wrap", dtype), *type_bounds(dtype), a), a)


def elements_of(a: Symbols) -> Symbols:
    """Symbols with minima and maxima that are no sums of their operands."""
    extremes = a["form"] >= SymbolForm.MINIMUM
    if not extremes.any():
        return a
    return chosen(extremes, _unstructured(("extreme",), a["low"], a["high"], a), a)


# --- operations -----------------------------------------------------------------------------------


def binary(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """`a op b` of operands of a type."""
    a, b = np.broadcast_arrays(a, b)
    if op == "shl" and known(b).all() and ((b["low"] >= 0) & (b["low"] < min(INTEGER_BITS[dtype], 63))).all():
        op, b = "mul", numbers(np.int64(1) << b["low"])
    both = known(a) & known(b)
    if both.all():
        return _of_numbers(op, a, b, dtype)
    if op in _RING:
        made = _ring(op, a, b, dtype)
    else:
        a, b = settled(a, dtype), settled(b, dtype)
        made = _STRUCTURED.get(op, _without_structure)(op, a, b, dtype)
    return chosen(both, _of_numbers(op, a, b, dtype), made) if both.any() else made


def _of_numbers(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    stored = storage_dtype(dtype)
    with np.errstate(all="ignore"):
        result = np.asarray(ir.OPERATORS[op].on_arrays(a["low"].astype(stored), b["low"].astype(stored)))
    return numbers(result if op in ir.COMPARE_OPS else wrap(result, dtype))


def _ring(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    operation = {"add": field.add, "sub": field.subtract, "mul": field.multiply}[op]
    a, b = elements_of(a), elements_of(b)
    norm = a["norm"] * b["norm"] if op == "mul" else a["norm"] + b["norm"]
    if (norm >= LARGE).any():
        return _ring_of_large(op, a, b, dtype)
    low, high = ring_bounds(op, *(_exact(part) for part in (a["low"], a["high"], b["low"], b["high"])))
    polynomial = (a["form"] == SymbolForm.POLYNOMIAL) | (b["form"] == SymbolForm.POLYNOMIAL)
    return fitted(operation(a["value"], b["value"]), low, high, polynomial, norm, dtype)


def _ring_of_large(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """Ring operations of polynomials, the larger of which are functions without structure first."""
    for most in (np.sqrt(LARGE) / 2, 1):
        a, b = (_shortened(x, most, dtype) for x in (a, b))
        norm = a["norm"] * b["norm"] if op == "mul" else a["norm"] + b["norm"]
        if (norm < LARGE).all():
            return _ring(op, a, b, dtype)
    raise AssertionError("norms of 1")


def _shortened(a: Symbols, most: float, dtype: str) -> Symbols:
    """Symbols whose norm is at most this, or 1; large numbers too are functions without structure."""
    large = a["norm"] > most
    if not large.any():
        return a
    a = settled(a, dtype)
    return chosen(large, _unstructured(("large", dtype), a["low"], a["high"], a), a)


def _exact(bounds: Array) -> Array:
    """Bounds in a type in which a product of two is exact, or known to be too large for int64."""
    return bounds.astype(np.longdouble)


def ring_bounds(op: str, a: Array, a_high: Array, b: Array, b_high: Array) -> tuple[Array, Array]:
    """The bounds of `a op b` of a ring operation."""
    if op == "add":
        return a + b, a_high + b_high
    if op == "sub":
        return a - b_high, a_high - b
    corners = [a * b, a * b_high, a_high * b, a_high * b_high]
    return reduce(np.minimum, corners), reduce(np.maximum, corners)


def fitted(value: Array, low: Array, high: Array, polynomial: Array, norm: Any, dtype: str) -> Symbols:  # noqa: ANN401  a number or an array
    """Results of ring operations: plain where their bounds are in the type, else polynomials."""
    least, most = type_bounds(dtype)
    outside = polynomial | (low < least) | (high > most)
    inside_low, inside_high = (np.where(outside, 0, bound).astype(np.int64) for bound in (low, high))
    return symbols(
        value, np.where(outside, least, inside_low), np.where(outside, most, inside_high), outside.astype(np.uint8), norm
    )


def _extreme(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """The minimum or the maximum; the operand that bounds show to be it, if one is."""
    form, choose = _SETS[op], np.minimum if op == "min" else np.maximum
    value = field.add(_member(a, form), _member(b, form))
    made = symbols(value, choose(a["low"], b["low"]), choose(a["high"], b["high"]), form)
    first, second = (a["high"] <= b["low"], b["high"] <= a["low"])
    if op == "max":
        first, second = second, first
    return chosen(first, a, chosen(second, b, made))


def _member(a: Symbols, form: SymbolForm) -> field.Elements:
    """The share of an operand in a minimum or maximum: of one of the same kind, its own members."""
    return np.where(a["form"] == form, a["value"], field.hashed(_key("member", int(form)), a["value"]))


def _shift_right(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    made = _without_structure(op, a, b, dtype)
    amount = np.clip(b["low"], 0, 63)
    inside = known(b) & (b["low"] >= 0)
    made["low"], made["high"] = (np.where(inside, a[part] >> amount, made[part]) for part in ("low", "high"))
    return chosen(inside & (amount == 0), a, made)


def _bitwise_and(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """With a mask of low bits, the operand itself where it has no others."""
    if dtype == "bool":
        return _logic(op, a, b)
    made = _without_structure(op, a, b, dtype)
    for mask in (a, b):
        masks = known(mask) & (mask["low"] >= 0)
        made["low"] = np.where(masks, 0, made["low"])
        made["high"] = np.where(masks, np.minimum(mask["low"], made["high"]), made["high"])
    for x, mask in ((a, b), (b, a)):
        masks = known(mask) & (mask["low"] >= 0)
        low_bits = masks & ((mask["low"] & (mask["low"] + 1)) == 0)
        made = chosen(low_bits & (x["low"] >= 0) & (x["high"] <= mask["low"]), x, made)
        made = chosen(masks & (mask["low"] == 0), numbers(0), made)
    return made


def _logic(op: str, a: Symbols, b: Symbols) -> Symbols:
    """And, or of bools, one of which may be known."""
    made = _without_structure(op, a, b, "bool")
    neutral = int(op == "and")
    for x, other in ((a, b), (b, a)):
        made = chosen(known(other), x if op == "xor" else chosen(other["low"] == neutral, x, other), made)
    return made if op != "xor" else _without_structure(op, a, b, "bool")


def _compared(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    if op in ("gt", "le"):  # of one spelling
        made = _compared("lt", b, a, dtype)
        return made if op == "gt" else _inverted(made)
    if op == "ge":
        return _inverted(_compared("lt", a, b, dtype))
    if op == "ne":
        return _inverted(_compared("eq", a, b, dtype))
    made = _without_structure(op, a, b, dtype)
    made["low"], made["high"] = _BOOL
    never = (a["low"] >= b["high"]) if op == "lt" else (a["high"] < b["low"]) | (b["high"] < a["low"])
    always = (a["high"] < b["low"]) if op == "lt" else a["value"] == b["value"]
    return chosen(never, numbers(0), chosen(always, numbers(1), made))


def _inverted(a: Symbols) -> Symbols:
    return symbols(field.subtract(field.from_integers(1), a["value"]), 1 - a["high"], 1 - a["low"])


def _remainder(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    made = _without_structure(op, a, b, dtype)
    positive = known(b) & (b["low"] > 0)
    made["low"] = np.where(positive, 0, made["low"])
    made["high"] = np.where(positive, b["low"] - 1, made["high"])
    return chosen(positive & (a["low"] >= 0) & (a["high"] < b["low"]), a, made)


def _without_structure(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    if op in ir.COMMUTATIVE_OPS:
        swap = a["value"] > b["value"]
        a, b = chosen(swap, b, a), chosen(swap, a, b)
    return _unstructured((op, dtype), *type_bounds(dtype), a, b)


_STRUCTURED = {
    "min": _extreme,
    "max": _extreme,
    "shr": _shift_right,
    "and": _bitwise_and,
    "mod": _remainder,
    **dict.fromkeys(ir.COMPARE_OPS, _compared),
}


def cast(a: Symbols, source: str, target: str) -> Symbols:
    """Symbols of a type in another one."""
    if target == "bool":
        return _compared("ne", settled(a, source), numbers(0), source)
    low, high = type_bounds(target)
    inside = (a["low"] >= low) & (a["high"] <= high)
    narrows = INTEGER_BITS.get(source, 1) >= INTEGER_BITS[target]
    if narrows:  # a polynomial is one modulo a smaller range too
        kept = inside & (a["form"] != SymbolForm.POLYNOMIAL)
        exact = numbers(wrap(a["low"], target))
        made = chosen(known(a) & (a["form"] != SymbolForm.POLYNOMIAL), exact, _polynomial(a, low, high))
        return chosen(kept, a, made)
    a = settled(a, source)
    inside = (a["low"] >= low) & (a["high"] <= high)
    return a if inside.all() else chosen(inside, a, _polynomial(a, low, high))


def _polynomial(a: Symbols, low: int, high: int) -> Symbols:
    """Symbols that may leave a type with these bounds."""
    a = elements_of(a)
    return symbols(a["value"], low, high, SymbolForm.POLYNOMIAL, a["norm"])


def select(condition: Symbols, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """`a` where the condition holds, else `b`."""
    condition, a, b = np.broadcast_arrays(condition, settled(a, dtype), settled(b, dtype))
    low, high = np.minimum(a["low"], b["low"]), np.maximum(a["high"], b["high"])
    made = chosen(a["value"] == b["value"], a, _unstructured(("select",), low, high, condition, a, b))
    return chosen(known(condition), chosen(condition["low"] == 1, a, b), made)


def called(name: str, arguments: list[Symbols], dtypes: list[str], dtype: str) -> Symbols:
    """A scalar function of integers."""
    arguments = [settled(a, source) for a, source in zip(arguments, dtypes, strict=True)]
    made = _unstructured((name, dtype), *type_bounds(dtype), *arguments)
    every = reduce(np.logical_and, (known(a) for a in arguments))
    if not every.any():
        return made
    stored = [a["low"].astype(storage_dtype(source)) for a, source in zip(arguments, dtypes, strict=True)]
    return chosen(every, numbers(wrap(np.asarray(SCALAR_FUNCTIONS[name].model(*stored)), dtype)), made)


def summed(terms: Symbols, axis: tuple[int, ...], dtype: str) -> Symbols:
    """The sum of terms along axes, which are kept with length 1."""
    terms = elements_of(terms)
    norm = np.sum(terms["norm"], axis=axis, keepdims=True)
    if (norm >= LARGE).any():
        terms, norm = _shortened(terms, 1, dtype), np.float32(np.prod([terms.shape[d] for d in axis]))
    low, high = (np.sum(_exact(terms[part]), axis=axis, keepdims=True) for part in ("low", "high"))
    polynomial = (terms["form"] == SymbolForm.POLYNOMIAL).any(axis=axis, keepdims=True)
    return fitted(field.total(np.ascontiguousarray(terms["value"]), axis), low, high, polynomial, norm, dtype)


def combined_along(op: str, terms: Symbols, axis: tuple[int, ...], dtype: str) -> Symbols:
    """Terms combined along axes, which are kept with length 1."""
    if op == "add":
        return summed(terms, axis, dtype)
    kept = tuple(1 if d in axis else n for d, n in enumerate(terms.shape))
    flat = np.moveaxis(terms, axis, range(len(axis)))
    flat = flat.reshape(-1, *flat.shape[len(axis) :])
    result: Symbols = reduce(lambda a, b: binary(op, a, b, dtype), flat)
    return result.reshape(kept)
