# SPDX-License-Identifier: Apache-2.0
"""Operators of expressions whose meaning differs from machine instructions: they are total.

Values are int64 within the range of their type. Division by 0 gives 0; a shift by a negative amount
or by at least the width shifts out every bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.simulator.support.jit import Int, helper
from vdla.support.arrays import Bytes

Elements = NDArray[np.int8]


@helper
def divide(a: Int, b: Int) -> Int:
    """The quotient, rounded down."""
    if b == -1:  # the quotient of the least int64 would trap
        return -a
    return a // b if b != 0 else 0


@helper
def remainder(a: Int, b: Int) -> Int:
    """The remainder, with the sign of the divisor."""
    return a % b if b != 0 and b != -1 else 0


@helper
def shift_left(a: Int, amount: Int, bits: Int) -> Int:
    """A left shift in `bits`, to be wrapped by the caller."""
    return a << amount if 0 <= amount < bits else 0


@helper
def _one_bits(a: Int) -> Int:
    """The number of one bits of a value from 0 to 2**32 - 1: in pairs, in fours, in bytes."""
    pairs = a - (a >> 1 & 0x55555555)
    fours = (pairs & 0x33333333) + (pairs >> 2 & 0x33333333)
    return (fours + (fours >> 4) & 0x0F0F0F0F) * 0x01010101 >> 24 & 0xFF


@helper
def one_bits(a: Int, bits: Int) -> Int:
    """The number of one bits of a value of `bits`."""
    if bits > 32:
        return _one_bits(a & 0xFFFFFFFF) + _one_bits(a >> 32 & ((1 << (bits - 32)) - 1))
    return _one_bits(a & ((1 << bits) - 1))


@helper
def narrow(element: Int, place: Int, bits: Int) -> Int:
    """Part `place` of an element, a signed number of `bits`; part 0 is in the low bits."""
    return element << (64 - (place + 1) * bits) >> (64 - bits)


@helper
def shift_right(a: Int, amount: Int, bits: Int) -> Int:
    """An arithmetic right shift of a value of `bits`."""
    if 0 <= amount < bits:
        return a >> amount
    return -1 if a < 0 else 0


@helper
def unpack_entry(packed: Bytes, bits: Int, elements: Elements) -> None:
    """The signed elements of a packed entry."""
    for n in range(len(elements)):
        at = n * bits
        elements[n] = np.int8(packed[at // 8] << (8 - bits - at % 8)) >> (8 - bits)


@helper
def pack_entry(elements: Elements, bits: Int, packed: Bytes) -> None:
    """Packs elements into an entry."""
    for n in range(len(packed)):
        packed[n] = 0
    for n in range(len(elements)):
        at = n * bits
        packed[at // 8] |= np.uint8((np.int64(elements[n]) & ((1 << bits) - 1)) << (at % 8))
