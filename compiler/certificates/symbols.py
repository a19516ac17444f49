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
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import field
from vdla.compiler.ir import INTEGER_BITS, limits
from vdla.support.errors import Error

SYMBOL = np.dtype([("value", "u8"), ("low", "i8"), ("high", "i8"), ("form", "u1"), ("norm", "f4")], align=True)
"""An element of the field, bounds, a `SymbolForm`, and a bound of the sum of its coefficients."""
OPAQUE = np.dtype(f"V{SYMBOL.itemsize}")
"""A symbol that is moved, which NumPy does faster if it knows no fields."""

Symbols = npt.NDArray[np.void]
BOOL = (0, 1)
HALF_RANGE = 1 << 32
LARGE = 1 << 58
"""Coefficients of this magnitude are not exact in the field."""


class CertificateError(Error, ValueError):
    """An expression or a program that cannot be evaluated symbolically."""


class SymbolForm(IntEnum):
    """How an integer was made."""

    PLAIN = 0
    POLYNOMIAL = 1  # of a type, whose range its value may leave
    HALVES = 2  # of 64 bits, known but for the low half, whose bounds it has less 2^31
    CLIPPED = 3  # by numbers; this form and the next ones are extremes, with flags
    MINIMUM = 4
    MAXIMUM = 5
    AT_LEAST = 8  # flag: the lower bound is an operand of a maximum
    AT_MOST = 16  # flag: the upper bound is an operand of a minimum


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
    return a.view(OPAQUE).take(places.astype(np.intp, copy=False), axis=0).view(SYMBOL)


def numbers(values: npt.ArrayLike) -> Symbols:
    """Integers as symbols; the large ones are elements without structure."""
    integers = np.asarray(values).astype(np.int64)
    elements, norm = field.from_integers(integers), np.abs(integers.astype(np.float32))
    large = norm >= LARGE
    if large.any():
        elements = np.where(large, field.hashed(key("large"), integers.view(np.uint64)), elements)
        norm = np.where(large, np.float32(1), norm)
    return symbols(elements, integers, integers, norm=norm)


def unknowns(name: str, shape: tuple[int, ...], dtype: str, seed: int) -> Symbols:
    """Independent inputs of a type: every element is another one."""
    places = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
    return symbols(field.hashed(key("input", name, seed), places), *type_bounds(dtype))


def hashed_unknowns(name: str, dtype: str, *arguments: Symbols) -> Symbols:
    """Numbers of a type of which nothing is known but what they depend on."""
    return unstructured((name,), *type_bounds(dtype), *np.broadcast_arrays(*arguments))


def type_bounds(dtype: str) -> tuple[int, int]:
    """The range of a type of integers, as far as int64 has it."""
    if dtype == "bool":
        return BOOL
    if dtype not in INTEGER_BITS or dtype == "uint64":
        raise CertificateError(f"certify: type must be bool or an integer of at most int64, got {dtype}")
    low, high = limits(dtype)
    return int(low), int(high)


def known(a: Symbols) -> npt.NDArray[np.bool_]:
    """Which symbols are numbers."""
    return np.asarray(a["low"] == a["high"])


@lru_cache(maxsize=1024)
def key(*parts: object) -> int:
    """A number for a function without structure."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "big")


def unstructured(name: tuple[object, ...], low: Any, high: Any, *arguments: Symbols) -> Symbols:  # noqa: ANN401
    """A function without structure of symbols, with bounds of its results."""
    return symbols(field.hashed(key(*name), *(argument["value"] for argument in arguments)), low, high)


def settled(a: Symbols, dtype: str) -> Symbols:
    """Symbols of a type with those wrapped that may leave it."""
    a, polynomial = whole(a), a["form"] == SymbolForm.POLYNOMIAL
    if not polynomial.any():
        return a
    return chosen(polynomial, unstructured(("wrap", dtype), *type_bounds(dtype), a), a)


def elements_of(a: Symbols) -> Symbols:
    """Symbols that are whole, with minima and maxima that are no sums of their operands."""
    a = whole(a)
    extremes = a["form"] >= SymbolForm.CLIPPED
    if not extremes.any():
        return a
    return chosen(extremes, unstructured(("extreme",), a["low"], a["high"], a), a)


# --- halves ---------------------------------------------------------------------------------------


def with_low_half(upper: int, half: Symbols) -> Symbols:
    """Integers of 64 bits: `upper`, a multiple of 2^32, with symbols of int32 in the low half."""
    half, base = elements_of(half), upper + HALF_RANGE // 2
    value = field.add(half["value"], field.from_integers(upper))
    made = symbols(value, base + half["low"], base + half["high"], SymbolForm.HALVES, half["norm"])
    return chosen(known(half), numbers(upper + (half["low"] & (HALF_RANGE - 1))), made)


def low_half(a: Symbols) -> Symbols:
    """The low half of integers made of two, as int32."""
    upper = a["low"] // HALF_RANGE * HALF_RANGE
    low, high = (a[part] - upper - HALF_RANGE // 2 for part in ("low", "high"))
    least, most = type_bounds("int32")
    form = np.where((low == least) & (high == most), SymbolForm.POLYNOMIAL, SymbolForm.PLAIN)
    return symbols(field.subtract(a["value"], field.from_integers(upper)), low, high, form, a["norm"])


def whole(a: Symbols) -> Symbols:
    """Symbols of which those made of halves are integers like others."""
    halves = a["form"] == SymbolForm.HALVES
    if not halves.any():
        return a
    return chosen(halves, unstructured(("halves",), *type_bounds("int64"), a), a)
