# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of `field` on single elements, for compiled functions."""

from __future__ import annotations

import numpy as np

from vdla.compiler.certificates import field
from vdla.compiler.certificates.jit import Int, helper

_P, _BITS = np.uint64(field.PRIME), np.uint64(61)
_HALF, _LOW_MASK = np.uint64(31), np.uint64((1 << 31) - 1)
_TOP, _TOP_MASK = np.uint64(30), np.uint64((1 << 30) - 1)
_ONE, _TWO, _ZERO = np.uint64(1), np.uint64(2), np.uint64(0)
_S30, _S27, _GOLDEN = np.uint64(30), np.uint64(27), np.uint64(0x9E3779B97F4A7C15)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_I1, _I2 = (np.uint64(pow(factor, -1, 1 << 61)) for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@helper
def reduced(x: Int) -> Int:
    """Any 64-bit number modulo the prime."""
    folded = (x & _P) + (x >> _BITS)
    return folded - _P if folded >= _P else folded


@helper
def add(a: Int, b: Int) -> Int:
    """The sum."""
    total = a + b
    return total - _P if total >= _P else total


@helper
def subtract(a: Int, b: Int) -> Int:
    """The difference."""
    return a - b if a >= b else a + _P - b


@helper
def multiply(a: Int, b: Int) -> Int:
    """The product."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW_MASK, b >> _HALF, b & _LOW_MASK
    middle = a_high * b_low + a_low * b_high
    high = _TWO * a_high * b_high + (middle >> _TOP)
    low = a_low * b_low
    return reduced((high & _P) + (high >> _BITS) + ((middle & _TOP_MASK) << _HALF) + (low & _P) + (low >> _BITS))


@helper
def from_integer(value: Int) -> Int:
    """An integer of 64 bits, negative ones too, as an element."""
    if value < 0:
        return _P - _ONE - reduced(np.uint64(~value))
    return reduced(np.uint64(value))


@helper
def mixed(x: Int) -> Int:
    """The bijection of 64 bits of `field`."""
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _HALF)


@helper
def absorbed(state: Int, argument: Int) -> Int:
    """The state of a hash with one more argument; a hash begins with its key, mixed."""
    return mixed(state * _GOLDEN + argument)


@helper
def moved(started: Int, x: Int, steps: Int) -> Int:
    """An element moved by steps along the orbit of a key, `started`, as `field.moved`."""
    x = ((x ^ (x >> _HALF)) * _M1) & _P
    x = ((x ^ (x >> _HALF)) * _M2) & _P
    x = x ^ (x >> _HALF)
    x = (x + started * steps) & _P
    x = ((x ^ (x >> _HALF)) * _I2) & _P
    x = ((x ^ (x >> _HALF)) * _I1) & _P
    return reduced(x ^ (x >> _HALF))
