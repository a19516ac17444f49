# SPDX-License-Identifier: Apache-2.0
"""Arithmetic in the field of the prime 2^61 - 1, on NumPy arrays of uint64 below the prime.

A product of matrices is one of floats, which BLAS has: elements have three digits of 21 bits, so
that the sums of 1,024 products of digits are exact in the 53 bits of a float.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

PRIME = (1 << 61) - 1

Elements = npt.NDArray[np.uint64]
_P, _BITS = np.uint64(PRIME), np.uint64(61)
_HALF, _LOW_MASK = np.uint64(31), np.uint64((1 << 31) - 1)
_TOP, _TOP_MASK = np.uint64(30), np.uint64((1 << 30) - 1)
_DIGIT, _DIGITS = 21, 3
_MOST_TERMS = 1 << 10  # of an exact sum of products of two digits, and of another such sum
_MOST_SUMS = 1 << 20  # of one product of matrices, which bounds its memory


def _reduced(x: Elements) -> Elements:
    """Any 64-bit number modulo the prime."""
    folded = (x & _P) + (x >> _BITS)
    return folded - _prime_if(folded >= _P)


def _prime_if(condition: npt.NDArray[np.bool_]) -> Elements:
    return np.where(condition, _P, np.uint64(0))


def from_integers(values: npt.ArrayLike) -> Elements:
    """Integers of at most 64 bits, negative ones too, as elements."""
    integers = np.asarray(values, np.int64)
    positive = _reduced(np.where(integers < 0, ~integers, integers).astype(np.uint64))
    return np.where(integers < 0, _P - np.uint64(1) - positive, positive)  # -x is ~x + 1


def add(a: Elements, b: Elements) -> Elements:
    """The sum."""
    total = a + b
    return total - _prime_if(total >= _P)


def subtract(a: Elements, b: Elements) -> Elements:
    """The difference."""
    return a + _prime_if(a < b) - b


def multiply(a: Elements, b: Elements) -> Elements:
    """The product, from parts of 30 and 31 bits; 2^61 is 1 in the field."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW_MASK, b >> _HALF, b & _LOW_MASK
    middle = a_high * b_low + a_low * b_high
    high: Elements = np.uint64(2) * a_high * b_high
    low = _reduced(a_low * b_low)
    return _reduced(_reduced(high + (middle >> _TOP)) + _reduced(((middle & _TOP_MASK) << _HALF) + low))


def total(values: Elements, axis: tuple[int, ...]) -> Elements:
    """The sum along axes, which are kept with length 1."""
    low = np.asarray(np.sum(values & _LOW_MASK, axis=axis, keepdims=True, dtype=np.uint64))
    high = _reduced(np.sum(values >> _HALF, axis=axis, keepdims=True, dtype=np.uint64))
    return add(multiply(high, np.full_like(high, 1 << 31)), _reduced(low))


def matmul(a: Elements, b: Elements) -> Elements:
    """The product of matrices `[..., M, K]` and `[..., K, N]`."""
    rows = max(1, _MOST_SUMS // max(1, b.shape[-1]))
    if a.shape[-2] > rows:
        return np.concatenate([matmul(a[..., m : m + rows, :], b) for m in range(0, a.shape[-2], rows)], axis=-2)
    terms = range(0, a.shape[-1], _MOST_TERMS)
    parts = (_short_matmul(a[..., k : k + _MOST_TERMS], b[..., k : k + _MOST_TERMS, :]) for k in terms)
    return reduce(add, parts)


def _short_matmul(a: Elements, b: Elements) -> Elements:
    """A product of matrices with at most `_MOST_TERMS` terms a sum."""
    m, n = a.shape[-2], b.shape[-1]
    left = np.concatenate(_digits(a), axis=-2)
    right = np.concatenate(_digits(b), axis=-1)
    sums = left @ right
    digits = [[sums[..., i * m : (i + 1) * m, j * n : (j + 1) * n] for j in range(_DIGITS)] for i in range(_DIGITS)]
    places = [sum(digits[i][place - i] for i in range(_DIGITS) if 0 <= place - i < _DIGITS) for place in range(5)]
    once, twice, thrice, over, above = (np.asarray(place).astype(np.uint64) for place in places)
    first = once + (over << np.uint64(2))  # 2^63 is 4 in the field
    return _reduced(first + _shifted(twice + (above << np.uint64(2)), _DIGIT) + _shifted(thrice, 2 * _DIGIT))


def _digits(a: Elements) -> list[npt.NDArray[np.float64]]:
    """The digits of elements, the lowest ones first."""
    mask, integers = np.int64((1 << _DIGIT) - 1), a.view(np.int64)
    return [((integers >> np.int64(place * _DIGIT)) & mask).astype(np.float64) for place in range(_DIGITS)]


def _shifted(x: Elements, bits: int) -> Elements:
    """Numbers below 2^55 times a power of two, below 2^62."""
    rest = np.uint64(61 - bits)
    return ((x & ((np.uint64(1) << rest) - np.uint64(1))) << np.uint64(bits)) + (x >> rest)


def _mixed(x: Elements) -> Elements:
    """A bijection of 64 bits in which every bit of the argument changes half of the result's."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def started(key: int) -> int:
    """The state of `hashed` before its arguments."""
    return int(_mixed(np.asarray(key, np.uint64)))


def hashed(key: int, *arguments: Any) -> Elements:  # noqa: ANN401  arrays that broadcast
    """A function of arrays of elements without structure: one for each key, in random places."""
    with np.errstate(over="ignore"):
        state: Any = _mixed(np.asarray(key, np.uint64))
        for argument in arguments:
            state = _mixed(state * np.uint64(0x9E3779B97F4A7C15) + np.asarray(argument, np.uint64))
    return _reduced(np.asarray(state))


def moved(key: int, x: Elements, steps: Elements) -> Elements:
    """Elements moved by steps along orbits without structure: by m and then by n is by m + n.

    The elements are mixed, a random number for each step is added modulo 2^61, and the mixing is
    undone.
    """
    with np.errstate(over="ignore"):
        step = _mixed(np.asarray(key, np.uint64))
        mixed = (_mixed_short(np.asarray(x)) + step * steps) & _P
        return _reduced(_unmixed_short(mixed))


_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_INVERSES = tuple(np.uint64(pow(factor, -1, 1 << 61)) for factor in _FACTORS)


def _mixed_short(x: Elements) -> Elements:
    """A bijection of the numbers of 61 bits."""
    for factor in _FACTORS:
        x = ((x ^ (x >> _HALF)) * np.uint64(factor)) & _P
    return x ^ (x >> _HALF)


def _unmixed_short(x: Elements) -> Elements:
    """The inverse of `_mixed_short`; a shift by half of the bits undoes itself."""
    for inverse in reversed(_INVERSES):
        x = ((x ^ (x >> _HALF)) * inverse) & _P
    return x ^ (x >> _HALF)
