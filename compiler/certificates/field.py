# SPDX-License-Identifier: Apache-2.0
"""Arithmetic in the field of the prime 2^61 - 1, on NumPy arrays of uint64 below the prime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

PRIME = (1 << 61) - 1

Elements = npt.NDArray[np.uint64]
_P, _BITS = np.uint64(PRIME), np.uint64(61)
_HALF, _LOW_MASK = np.uint64(31), np.uint64((1 << 31) - 1)
_TOP, _TOP_MASK = np.uint64(30), np.uint64((1 << 30) - 1)


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


def _mixed(x: Elements) -> Elements:
    """A bijection of 64 bits in which every bit of the argument changes half of the result's."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hashed(key: int, *arguments: Any) -> Elements:  # noqa: ANN401  arrays that broadcast
    """A function of arrays of elements without structure: one for each key, in random places."""
    with np.errstate(over="ignore"):
        state: Any = _mixed(np.asarray(key, np.uint64))
        for argument in arguments:
            state = _mixed(state * np.uint64(0x9E3779B97F4A7C15) + np.asarray(argument, np.uint64))
    return _reduced(np.asarray(state))
