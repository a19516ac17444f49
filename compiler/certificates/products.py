# SPDX-License-Identifier: Apache-2.0
"""Sums of products of symbols, as products of matrices.

The bounds of a sum are the sums of the bounds of its terms, the same in every order. Operands have
few different bounds, if they are inputs, so that these sums are counts or products of matrices too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

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
    numbers,
    type_bounds,
)

_Bounds = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]
_MOST_PAIRS = 4  # of bounds, of the operand with fewer of them
_EXACT = 1 << 53  # integers of smaller magnitude are floats


@dataclass(frozen=True, eq=False)
class Matrices:
    """Matrices of symbols, or of integers, `[..., rows, columns]`: the place of an element in a
    flat array is a part for its row, `[..., rows]`, plus one for its column, `[..., columns]`.
    """

    array: Any  # symbols or integers
    rows: _Ints
    columns: _Ints

    @property
    def places(self) -> _Ints:
        """The places of all elements."""
        return np.asarray(self.rows[..., :, None] + self.columns[..., None, :])

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod((*self.batches, self.rows.shape[-1], self.columns.shape[-1])))

    @property
    def batches(self) -> tuple[int, ...]:
        """How many matrices there are, by dimension."""
        return np.broadcast_shapes(self.rows.shape[:-1], self.columns.shape[:-1])

    @property
    def symbols(self) -> Symbols:
        """The elements themselves."""
        if self.array.dtype == SYMBOL:
            return gathered(self.array, self.places)
        return numbers(self.array[self.places])

    @property
    def turned(self) -> Matrices:
        """The transposed matrices."""
        return Matrices(self.array, self.columns, self.rows)


@dataclass(frozen=True, eq=False)
class LocatedFactor:
    """A factor of a sum of products: the place of an element in a flat array, of symbols or of
    integers, is the sum of `parts`, which broadcast to all points.
    """

    array: Any  # symbols or integers
    parts: tuple[_Ints, ...]

    @property
    def size(self) -> int:
        """The number of points."""
        return int(np.prod(np.broadcast_shapes(*(part.shape for part in self.parts))))

    def separated(self, rank: int, outer: int) -> tuple[_Ints, _Ints] | None:
        """The places as a sum of two parts of this rank: one along the first `outer` dimensions and
        one along the others; None where it is no such sum.
        """
        totals = [np.zeros((1,) * rank, np.int64), np.zeros((1,) * rank, np.int64)]
        for part in self.parts:
            whole = part.reshape((1,) * (rank - part.ndim) + part.shape)
            first, second = _first_along(whole, range(outer, rank)), _first_along(whole, range(outer))
            second = second - second.reshape(-1)[0]
            if not np.array_equal(whole, first + second):
                return None
            totals = [totals[0] + first, totals[1] + second]
        return totals[0], totals[1]

    def together(self) -> LocatedFactor:
        """The same elements, next to each other."""
        places = sum(self.parts, np.zeros((), np.int64))
        symbols = Matrices(self.array, places.reshape(-1), np.zeros(1, np.int64)).symbols.reshape(-1)
        return located(symbols.reshape(places.shape))


def _first_along(array: _Ints, dimensions: Iterable[int]) -> _Ints:
    """The first elements along dimensions, which keep length 1."""
    for dimension in dimensions:
        array = array.take([0], axis=dimension)
    return array


def located(symbols: Symbols) -> LocatedFactor:
    """Symbols as a factor with an array of its own."""
    array = np.require(symbols, requirements=["C", "W"]).reshape(-1)
    return LocatedFactor(array, (np.arange(array.size).reshape(symbols.shape),))


def listed(symbols: Symbols) -> Matrices:
    """Symbols, `[..., rows, columns]`, as the elements of an array of their own."""
    array = np.require(symbols, requirements=["C", "W"]).reshape(-1)
    rows = np.arange(array.size).reshape(symbols.shape)[..., :, :1]
    return Matrices(array, rows[..., 0], np.arange(symbols.shape[-1]))


def products_of(a: Matrices, b: Matrices, dtype: str) -> Symbols | None:
    """As `sums_of_products`; where all elements of one side are numbers, in compiled code."""
    if a.size and b.size:
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
    known = _numbers_of(b)
    if known is None:
        return None
    factors, most = known
    count, terms, columns = factors.shape
    if a.array.dtype != SYMBOL or a.columns.ndim > 1 or a.array.size > a.size:
        a = listed(np.broadcast_to(a.symbols, (*b.batches, *a.places.shape[-2:])))
    rows = np.ascontiguousarray(np.broadcast_to(a.rows, (*b.batches, a.rows.shape[-1]))).reshape(count, -1)
    digits = np.empty((2, a.array.size))
    plain, norm = product_kernels.split(a.array, *digits)
    norm *= most * terms
    exact = int((_EXACT >> DIGIT) // max(1.0, most))  # terms of a sum
    if not plain or norm >= LARGE or not exact:
        return None
    bounds = _bounds_with_numbers(a.array, rows, a.columns, factors, dtype)
    if bounds is None:
        return None
    values = np.zeros((*rows.shape, columns), np.uint64)
    product_kernels.multiply(digits, rows, a.columns, factors, exact, product_kernels.tiles_of(columns), values)
    made = np.empty(values.shape, SYMBOL)
    observe(dtype, *bounds[1:])
    product_kernels.fit(values, *bounds, norm, *type_bounds(dtype), made)
    return made.reshape(*b.batches, *made.shape[1:])


def _numbers_of(b: Matrices) -> tuple[_Bounds, float] | None:
    """Matrices of numbers as floats, `[batches, rows, columns]`, and their largest magnitude."""
    shape = int(np.prod(b.batches)), b.rows.shape[-1], b.columns.shape[-1]
    if b.array.dtype != SYMBOL:
        factors = _elements(b).astype(np.float64, order="C").reshape(shape)
        return factors, float(np.abs(factors).max())
    factors = np.empty(shape)
    most = product_kernels.numbers_at(b.array, b.places.reshape(-1), factors.reshape(-1))
    return None if most < 0 else (factors, most)


def _elements(b: Matrices) -> _Ints:
    """Integers; those at regular places as a view, which needs no table of places."""
    steps = [_step(part) for part in (b.rows, b.columns)]
    if None in steps:
        return np.asarray(b.array[b.places])
    flat = b.array[int(b.rows[0] + b.columns[0]) :]
    strides = [step * flat.itemsize for step in steps if step is not None]
    return np.lib.stride_tricks.as_strided(flat, (len(b.rows), len(b.columns)), strides, writeable=False)


def _step(part: _Ints) -> int | None:
    """The distance of neighbours among places, which is the same for all and not negative."""
    if part.ndim > 1 or len(part) < 2:
        return 0 if part.shape == (1,) else None
    step = int(part[1] - part[0])
    return step if step >= 0 and (np.diff(part) == step).all() else None


def _bounds_with_numbers(
    array: Symbols, rows: _Ints, columns: _Ints, factors: _Bounds, dtype: str
) -> tuple[npt.NDArray[np.int64], _Bounds, _Bounds] | None:
    """The pattern of each row, and the bounds of its products, `[batches, patterns, columns]`; None
    where a term may leave the type.
    """
    (batches, count), terms = rows.shape, len(columns)
    pattern_of, first = np.empty(batches * count, np.int64), np.empty(MOST_PATTERNS, np.int64)
    hashes = np.empty(MOST_PATTERNS, np.uint64)
    different = product_kernels.patterns(array, rows.reshape(-1), columns, pattern_of, first, hashes)
    shown = rows.reshape(1, -1)[:, first[:different]] if different >= 0 else rows
    if different < 0:
        pattern_of = np.tile(np.arange(count), batches)
    some = gathered(array, shown[..., None] + columns)
    low, high = some["low"].astype(np.float64), some["high"].astype(np.float64)
    furthest = max(-low.min(), high.max(), 0.0) * np.abs(factors).max()
    if furthest > -type_bounds(dtype)[0] - 1 or furthest * terms >= _EXACT:
        return None
    least, most = np.zeros((2, batches, low.shape[1], factors.shape[2]))
    product_kernels.bound(low, high, factors, least, most)
    return pattern_of.reshape(batches, count), least, most


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
