# SPDX-License-Identifier: Apache-2.0
"""Products of matrices of symbols with matrices of numbers, in compiled code.

An element of the field has two digits of 31 bits. Sums of their products with small numbers are
exact as floats, so that two products of matrices of floats make one of symbols. BLAS is slower: its
threads wait in loops between the products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vdla.compiler.certificates import field_kernels as fk
from vdla.compiler.certificates.field import started
from vdla.compiler.certificates.jit import Int, entry_point, helper
from vdla.compiler.certificates.lane_products import LANES, add_products
from vdla.compiler.certificates.symbols import SymbolForm, key

DIGIT = 31
MOST_PATTERNS = 64
"""The most rows with different bounds that are told from each other."""

_PLAIN, _POLYNOMIAL, _HALVES, _CLIPPED = (int(SymbolForm[n]) for n in ("PLAIN", "POLYNOMIAL", "HALVES", "CLIPPED"))
_OF_EXTREME = np.uint64(started(key("extreme")))
_DIGIT, _LOW, _P = np.uint64(DIGIT), np.uint64((1 << DIGIT) - 1), np.uint64((1 << 61) - 1)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_ROWS, _TERMS = 32, 256  # of a block, whose operands stay in cache
_FEW = 4  # lanes for each column that is computed without them

Array = Any
Arrays = Any  # a tuple of them


@helper
def element_value(form: Int, value: Int) -> Int:
    """The value of a symbol of which an extreme is no sum of its operands."""
    return fk.reduced(fk.absorbed(_OF_EXTREME, value)) if form >= _CLIPPED else value


@entry_point
def numbers_at(array: Array, places: Array, out: Array) -> float:
    """Numbers at places as floats; the largest magnitude, or -1 if one is unknown."""
    most = 0.0
    for k in range(len(places)):
        one = array[places[k]]
        if one.low != one.high:
            return -1.0
        out[k] = one.low
        most = max(most, abs(out[k]))
    return most


@entry_point
def split(array: Array, low: Array, high: Array) -> tuple[bool, float]:
    """The digits of symbols; whether all are plain integers, and their largest norm."""
    norm = 0.0
    for k in range(len(array)):
        one = array[k]
        if one.form == _POLYNOMIAL or one.form == _HALVES:
            return False, norm
        value = element_value(one.form, one.value)
        norm = max(norm, 1.0 if one.form >= _CLIPPED else float(one.norm))
        low[k], high[k] = float(np.int64(value & _LOW)), float(np.int64(value >> _DIGIT))
    return True, norm


@helper
def _same_bounds(array: Array, row: Int, other: Int, terms: Array) -> bool:
    for k in range(len(terms)):
        one, two = array[row + terms[k]], array[other + terms[k]]
        if one.low != two.low or one.high != two.high:
            return False
    return True


@entry_point
def patterns(array: Array, rows: Array, terms: Array, pattern_of: Array, first: Array, hashes: Array) -> int:
    """The rows with different bounds, whose elements are at `rows[m] + terms[k]`: their number, the
    first row of each and its hash, and the pattern of each row; -1 if there are more than `first`
    has room for.
    """
    count = 0
    for m in range(len(rows)):
        state = _P
        for k in range(len(terms)):
            one = array[rows[m] + terms[k]]
            state = (state ^ np.uint64(one.low)) * _STEP
            state = (state ^ (np.uint64(one.high) << np.uint64(20)) ^ (state >> np.uint64(29))) * _STEP
        at = 0
        while at < count and not (hashes[at] == state and _same_bounds(array, rows[m], rows[first[at]], terms)):
            at += 1
        if at == len(first):
            return -1
        if at == count:
            first[at], hashes[at] = m, state
            count += 1
        pattern_of[m] = at
    return count


@helper
def residue(x: float) -> Int:
    """A float that is an integer, as an element."""
    return fk.from_integer(np.int64(x))


@helper
def of_digits(low: float, high: float) -> Int:
    """The element whose digits are these integers."""
    value = residue(high)
    shifted = ((value << _DIGIT) & _P) + (value >> np.uint64(30))  # 2^61 is 1
    return fk.add(fk.reduced(shifted), residue(low))


def tiles_of(columns: int) -> tuple[Array, ...]:
    """Room for the totals of a block of rows, for terms of these rows, and of some columns."""
    totals = np.zeros((_ROWS, -(-columns // LANES), 2, LANES))
    return totals, np.zeros((_ROWS, 2, _TERMS)), np.zeros((_TERMS, LANES))


@entry_point
def multiply(
    digits: Array, rows: Array, terms: Array, factors: Array, most: Int, tiles: Arrays, values: Array
) -> None:  # fmt: skip
    """The products of elements at `rows[b, m] + terms[k]`, of which there are the digits `[2,
    elements]`, with matrices of numbers `[batches, terms, columns]`; at most `most` terms are exact
    as floats. `tiles` are those of `tiles_of`.
    """
    columns, (totals, panel, tile) = factors.shape[2], tiles
    blocks, length = (columns + LANES - 1) // LANES, min(most, _TERMS)
    for b in range(len(factors)):
        if columns * _FEW <= LANES:
            _multiply_few(digits, rows[b], terms, factors[b], most, values[b])
            continue
        for first in range(0, rows.shape[1], _ROWS):
            count, load = min(_ROWS, rows.shape[1] - first), 0
            for k in range(0, len(terms), length):
                size = min(length, len(terms) - k)
                _pack_rows(digits, rows[b], first, count, terms, k, size, panel)
                if load + size > most:
                    _fold(totals, count, values[b, first:])
                    load = 0
                load += size
                for n in range(blocks):
                    _pack(factors[b], k, size, n * LANES, tile)
                    _multiply_rows(totals, n, panel, count, size, tile)
            _fold(totals, count, values[b, first:])


@helper
def _multiply_few(digits: Array, rows: Array, terms: Array, factors: Array, most: Int, values: Array) -> None:
    """A product with few columns."""
    for m in range(len(rows)):
        for n in range(factors.shape[1]):
            for first in range(0, len(factors), most):
                low, high = 0.0, 0.0
                for k in range(first, min(first + most, len(factors))):
                    low += digits[0, rows[m] + terms[k]] * factors[k, n]
                    high += digits[1, rows[m] + terms[k]] * factors[k, n]
                values[m, n] = fk.add(values[m, n], of_digits(low, high))


@helper
def _pack(factors: Array, first: Int, size: Int, column: Int, tile: Array) -> None:
    """Terms of some columns, the others 0, next to each other."""
    width = min(LANES, factors.shape[1] - column)
    for k in range(size):
        for o in range(width):
            tile[k, o] = factors[first + k, column + o]
        for o in range(width, LANES):
            tile[k, o] = 0.0


@helper
def _pack_rows(
    digits: Array, rows: Array, first: Int, count: Int, terms: Array, k: Int, size: Int, panel: Array
) -> None:  # fmt: skip
    """Digits of terms of some rows next to each other."""
    for m in range(count):
        row = rows[first + m]
        for t in range(size):
            panel[m, 0, t], panel[m, 1, t] = digits[0, row + terms[k + t]], digits[1, row + terms[k + t]]


@helper
def _multiply_rows(totals: Array, block: Int, panel: Array, count: Int, size: Int, tile: Array) -> None:
    for m in range(count):
        low, x = (m * totals.shape[1] + block) * 2 * LANES, m * 2 * _TERMS
        add_products(totals, low, low + LANES, panel, x, x + _TERMS, tile, 0, LANES, size)


@helper
def _fold(totals: Array, count: Int, values: Array) -> None:
    """Add totals of rows to their elements, and begin new ones."""
    for m in range(count):
        for n in range(values.shape[1]):
            block, o = n // LANES, n % LANES
            values[m, n] = fk.add(values[m, n], of_digits(totals[m, block, 0, o], totals[m, block, 1, o]))
    totals[...] = 0.0


@entry_point
def bound(low: Array, high: Array, factors: Array, least: Array, most: Array) -> None:
    """Add the bounds of products of rows `[batches or 1, rows, terms]` with matrices of numbers."""
    for b in range(len(factors)):
        of = b if len(low) > 1 else 0
        for m in range(low.shape[1]):
            for k in range(low.shape[2]):
                _add_bounds(least[b, m], most[b, m], low[of, m, k], high[of, m, k], factors[b, k])


@helper
def _add_bounds(least: Array, most: Array, low: float, high: float, factors: Array) -> None:
    for n in range(len(factors)):
        one, two = low * factors[n], high * factors[n]
        least[n] += min(one, two)
        most[n] += max(one, two)


@entry_point
def fit(
    values: Array, pattern_of: Array, low: Array, high: Array, norm: float, least: Int, most: Int, out: Array
) -> None:
    """Sums `[batches, rows, columns]` as symbols, with the bounds `[batches, patterns, columns]` of
    the pattern of each row, before they wrap.
    """
    for b in range(values.shape[0]):
        for m in range(values.shape[1]):
            at = pattern_of[b, m]
            for n in range(values.shape[2]):
                target = out[b, m, n]
                target.value, target.norm = values[b, m, n], norm
                below, above = low[b, at, n], high[b, at, n]
                if below < least or above > most:
                    target.low, target.high, target.form = least, most, _POLYNOMIAL
                else:
                    target.low, target.high, target.form = np.int64(below), np.int64(above), _PLAIN
