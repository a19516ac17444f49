# SPDX-License-Identifier: Apache-2.0
"""Symbolic floats: real numbers as elements of the field.

Sums and products are exact, in every order, as if nothing were rounded. So are numbers: an odd
multiple of 2^-e is the odd number times a random element to the power of e, which stands for a
half. NaN, infinities, signs of zeros and the rounding of sums and products are not told apart.

The bounds of a float are integers in the order of floats: their bits, negative for negative ones.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import field
from vdla.compiler.certificates.symbols import Symbols, key, symbols

Floats = npt.NDArray[np.float64]
_BITS = 53  # of the mantissa of a float64
_LEAST_EXPONENT = 1074 + _BITS
_MAGNITUDE = np.int64((1 << 63) - 1)
INFINITE = int(np.array(np.inf).view(np.int64))
"""The bound of a float of which nothing is known."""


def float_unknowns(name: str, shape: tuple[int, ...], seed: int) -> Symbols:
    """Independent inputs: every element is another one."""
    places = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
    return any_float(field.hashed(key("input", name, seed), places))


def any_float(value: Any, norm: Any = 1) -> Symbols:  # noqa: ANN401  arrays that broadcast
    """Floats of which nothing is known but their elements of the field."""
    return symbols(value, -INFINITE, INFINITE, norm=norm)


def float_numbers(values: npt.ArrayLike) -> Symbols:
    """Floats as symbols that are known; without structure if not finite or from 2^53."""
    numbers = np.asarray(values).astype(np.float64) + 0.0  # no negative zeros
    bounds, nan = in_order(numbers), np.isnan(numbers)
    plain = np.isfinite(numbers) & (np.abs(numbers) < 2.0**_BITS)
    mantissas, exponents = np.frexp(np.where(plain, numbers, 0))
    odd = np.ldexp(mantissas, _BITS).astype(np.int64)
    spare = np.where(odd == 0, 0, np.log2(np.maximum(odd & -odd, 1))).astype(np.int64)
    halves = np.where(odd == 0, 0, _BITS - exponents.astype(np.int64) - spare)  # negative for even integers
    odd = (odd >> spare) << np.maximum(-halves, 0)
    elements = field.multiply(field.from_integers(odd), _powers()[np.maximum(halves, 0)])
    hashed = field.hashed(key("float"), bounds.view(np.uint64))
    low, high = (np.where(nan, end, bounds) for end in (-INFINITE, INFINITE))
    norm = np.where(plain, np.abs(odd).astype(np.float32), np.float32(1))
    return symbols(np.where(plain, elements, hashed), low, high, norm=norm)


@cache
def _powers() -> field.Elements:
    """The powers of the element that stands for a half."""
    half, powers = key("half") % field.PRIME, [1]
    for _ in range(_LEAST_EXPONENT):
        powers.append(powers[-1] * half % field.PRIME)
    return np.array(powers, np.uint64)


def in_order(values: Floats) -> npt.NDArray[np.int64]:
    """Integers in the order of floats."""
    bits = np.asarray(values, np.float64).view(np.int64)
    return np.where(bits < 0, -(bits & _MAGNITUDE), bits)


def float_values(a: Symbols) -> Floats:
    """The numbers of symbols that are known."""
    bits = np.abs(np.asarray(a["low"]))
    return np.asarray(np.copysign(bits.view(np.float64), np.where(a["low"] < 0, -1.0, 1.0)), np.float64)
