# SPDX-License-Identifier: Apache-2.0
"""Sums of products of symbols, as products of matrices.

The bounds of a sum are the sums of the bounds of its terms, the same in every order. Operands have
few different bounds, if they are inputs, so that these sums are counts or products of matrices too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import field, product_kernels
from vdla.compiler.certificates.operations import fitted, ring_bounds
from vdla.compiler.certificates.product_kernels import DIGIT, MOST_PATTERNS
from vdla.compiler.certificates.sum_bounds import observe
from vdla.compiler.certificates.symbols import (
    LARGE,
    SYMBOL,
    SymbolForm,
    Symbols,
    elements_of,
    gathered,
    type_bounds,
)

_Bounds = npt.NDArray[np.float64]
_MOST_PAIRS = 4  # of bounds, of the operand with fewer of them
_EXACT = 1 << 53  # integers of smaller magnitude are floats


@dataclass(frozen=True, eq=False)
class Matrices:
    """Matrices of symbols: the places of their elements in a flat array, `[..., rows, columns]`."""

    array: Symbols
    places: npt.NDArray[np.int64]

    @property
    def symbols(self) -> Symbols:
        """The elements themselves."""
        return gathered(self.array, self.places)

    @property
    def turned(self) -> Matrices:
        """The transposed matrices."""
        return Matrices(self.array, self.places.swapaxes(-1, -2))


def listed(symbols: Symbols) -> Matrices:
    """Symbols as the elements of an array of their own."""
    array = np.require(symbols, requirements=["C", "W"]).reshape(-1)
    return Matrices(array, np.arange(symbols.size).reshape(symbols.shape))


def products_of(a: Matrices, b: Matrices, dtype: str) -> Symbols | None:
    """As `sums_of_products`; where all elements of one side are numbers, in compiled code."""
    if a.places.shape[-1] and a.places.size and b.places.size:
        made = _with_numbers(a, b, dtype)
        if made is not None:
            return made
        made = _with_numbers(b.turned, a.turned, dtype)
        if made is not None:
            return made.swapaxes(-1, -2)
    return sums_of_products(a.symbols, b.symbols, dtype)


def _with_numbers(a: Matrices, b: Matrices, dtype: str) -> Symbols | None:
    """Products with matrices of numbers; None where elements are not numbers, or not as small or as
    few as exact sums of floats need.
    """
    batches, (terms, columns) = b.places.shape[:-2], b.places.shape[-2:]
    factors = np.empty((int(np.prod(batches)), terms, columns))
    most = product_kernels.numbers_at(b.array, _flat(b.places), factors.reshape(-1))
    if most < 0:
        return None
    rows = np.ascontiguousarray(a.places).reshape(len(factors), -1, terms)
    digits = np.empty((2, *rows.shape))
    plain, norm = product_kernels.split(a.array, rows.reshape(-1), digits[0].reshape(-1), digits[1].reshape(-1))
    norm *= most * terms
    exact = int((_EXACT >> DIGIT) // max(1.0, most))  # terms of a sum
    if not plain or norm >= LARGE or not exact:
        return None
    bounds = _bounds_with_numbers(a.array, rows, factors, dtype)
    if bounds is None:
        return None
    values = np.zeros((*rows.shape[:-1], columns), np.uint64)
    product_kernels.multiply(digits, factors, exact, *product_kernels.tiles_of(columns), values)
    made = np.empty(values.shape, SYMBOL)
    observe(dtype, *bounds[1:])
    product_kernels.fit(values, *bounds, norm, *type_bounds(dtype), made)
    return made.reshape(*batches, *made.shape[1:])


def _bounds_with_numbers(
    array: Symbols, rows: npt.NDArray[np.int64], factors: _Bounds, dtype: str
) -> tuple[npt.NDArray[np.int64], _Bounds, _Bounds] | None:
    """The pattern of each row, and the bounds of its products, `[batches, patterns, columns]`; None
    where a term may leave the type.
    """
    batches, count, terms = rows.shape
    pattern_of, first = np.empty(batches * count, np.int64), np.empty(MOST_PATTERNS, np.int64)
    hashes = np.empty(MOST_PATTERNS, np.uint64)
    different = product_kernels.patterns(array, rows.reshape(-1, terms), pattern_of, first, hashes)
    shown = rows.reshape(1, -1, terms)[:, first[:different]] if different >= 0 else rows
    if different < 0:
        pattern_of = np.tile(np.arange(count), batches)
    some = gathered(array, shown)
    low, high = some["low"].astype(np.float64), some["high"].astype(np.float64)
    furthest = max(-low.min(), high.max(), 0.0) * np.abs(factors).max()
    if furthest > -type_bounds(dtype)[0] - 1 or furthest * terms >= _EXACT:
        return None
    least, most = np.zeros((2, batches, low.shape[1], factors.shape[2]))
    product_kernels.bound(low, high, factors, least, most)
    return pattern_of.reshape(batches, count), least, most


def _flat(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(places).reshape(-1)


def sums_of_products(a: Symbols, b: Symbols, dtype: str) -> Symbols | None:
    """Symbols `[..., M, K]` and `[..., K, N]` of a type multiplied as matrices.

    None where a term may leave the type, where both operands have many different bounds, or where
    coefficients may be large.
    """
    if (a["form"] == SymbolForm.POLYNOMIAL).any() or (b["form"] == SymbolForm.POLYNOMIAL).any() or not a.shape[-1]:
        return None
    least, most = type_bounds(dtype)
    extremes = [(min(0, int(x["low"].min())), max(0, int(x["high"].max()))) for x in (a, b)]
    corners = [x * y for x in extremes[0] for y in extremes[1]]
    if min(corners) < least or max(corners) > most or max(map(abs, corners)) * a.shape[-1] >= _EXACT:
        return None
    bounds = _bounds_of_sums(a, b)
    if bounds is None:
        return None
    norm = float(a["norm"].max()) * float(b["norm"].max()) * a.shape[-1]
    if norm >= LARGE:
        return None
    a, b = elements_of(a), elements_of(b)
    value = field.matmul(np.ascontiguousarray(a["value"]), np.ascontiguousarray(b["value"]))
    return fitted(value, *bounds, np.zeros(value.shape, np.bool_), norm, dtype)


def _bounds_of_sums(a: Symbols, b: Symbols) -> tuple[_Bounds, _Bounds] | None:
    """The bounds of a product of matrices."""
    pairs = _pairs(a)
    if pairs is None:
        pairs = _pairs(b)
        if pairs is None:
            return None
        flipped = _sums_by_pair(pairs, b.swapaxes(-1, -2), a.swapaxes(-1, -2))
        return flipped[0].swapaxes(-1, -2), flipped[1].swapaxes(-1, -2)
    return _sums_by_pair(pairs, a, b)


def _sums_by_pair(pairs: list[tuple[int, int]], a: Symbols, b: Symbols) -> tuple[_Bounds, _Bounds]:
    """The bounds of a product of matrices, the first of which has these pairs of bounds."""
    others = _pairs(b)
    if others is not None and len(others) == 1:
        b = b[(slice(0, 1),) * b.ndim]
    low, high = np.zeros(()), np.zeros(())
    for pair in pairs:
        terms = ring_bounds("mul", *(np.array(float(bound)) for bound in pair), *_as_floats(b))
        here = np.asarray((a["low"] == pair[0]) & (a["high"] == pair[1]))
        if b.size == 1:
            counts = np.count_nonzero(here, axis=-1)[..., None]
            low, high = low + counts * terms[0].reshape(()), high + counts * terms[1].reshape(())
        else:
            chosen = here.astype(np.float64)
            low, high = low + chosen @ terms[0], high + chosen @ terms[1]
    return low, high


def _as_floats(a: Symbols) -> Iterator[_Bounds]:
    return (a[part].astype(np.float64) for part in ("low", "high"))


def _pairs(a: Symbols) -> list[tuple[int, int]] | None:
    """The different bounds of symbols, or None if there are more than `_MOST_PAIRS`."""
    low, high = a["low"].reshape(-1), a["high"].reshape(-1)
    pairs: list[tuple[int, int]] = []
    while len(low):
        if len(pairs) == _MOST_PAIRS:
            return None
        pairs.append((int(low[0]), int(high[0])))
        rest = np.asarray((low != low[0]) | (high != high[0]))
        low, high = low[rest], high[rest]
    return pairs
