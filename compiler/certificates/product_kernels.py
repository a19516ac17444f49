# SPDX-License-Identifier: Apache-2.0
"""Products of matrices of symbols with matrices of numbers, in compiled code around BLAS.

An element of the field has two digits of 31 bits. Sums of their products with small numbers are
exact as floats, so that two products of matrices of floats make one of symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vdla.compiler.certificates import field_kernels as fk
from vdla.compiler.certificates.field import started
from vdla.compiler.certificates.jit import Int, entry_point, helper
from vdla.compiler.certificates.symbols import SymbolForm, key

DIGIT = 31
MOST_PATTERNS = 64
"""The most rows with different bounds that are told from each other."""

_PLAIN, _POLYNOMIAL, _HALVES, _CLIPPED = (int(SymbolForm[n]) for n in ("PLAIN", "POLYNOMIAL", "HALVES", "CLIPPED"))
_OF_EXTREME = np.uint64(started(key("extreme")))
_DIGIT, _LOW, _P = np.uint64(DIGIT), np.uint64((1 << DIGIT) - 1), np.uint64((1 << 61) - 1)
_STEP = np.uint64(0x9E3779B97F4A7C15)

Array = Any


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
def split(array: Array, places: Array, low: Array, high: Array) -> tuple[bool, float]:
    """The digits of symbols at places; whether all are plain integers, and their largest norm."""
    norm = 0.0
    for k in range(len(places)):
        one = array[places[k]]
        if one.form == _POLYNOMIAL or one.form == _HALVES:
            return False, norm
        value = element_value(one.form, one.value)
        norm = max(norm, 1.0 if one.form >= _CLIPPED else float(one.norm))
        low[k], high[k] = float(np.int64(value & _LOW)), float(np.int64(value >> _DIGIT))
    return True, norm


@helper
def _same_bounds(array: Array, row: Array, other: Array) -> bool:
    for k in range(len(row)):
        one, two = array[row[k]], array[other[k]]
        if one.low != two.low or one.high != two.high:
            return False
    return True


@entry_point
def patterns(array: Array, places: Array, pattern_of: Array, first: Array) -> int:
    """The rows `[rows, terms]` with different bounds: their number, the first row of each, and the
    pattern of each row; -1 if there are more than `first` has room for.
    """
    count, hashes = 0, np.empty(len(first), np.uint64)
    for m in range(len(places)):
        state = _P
        for k in range(places.shape[1]):
            one = array[places[m, k]]
            state = (state ^ np.uint64(one.low)) * _STEP
            state = (state ^ (np.uint64(one.high) << np.uint64(20)) ^ (state >> np.uint64(29))) * _STEP
        at = 0
        while at < count and not (hashes[at] == state and _same_bounds(array, places[m], places[first[at]])):
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


@entry_point
def combine(low: Array, high: Array, values: Array) -> None:
    """Add the elements with these digits to values."""
    for k in range(len(values)):
        values[k] = fk.add(values[k], of_digits(low[k], high[k]))


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
