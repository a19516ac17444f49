# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the machine against exact Python integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.vector_arithmetic import vector_op, vector_start
from hypothesis import given
from hypothesis import strategies as st

from vdla.hardware.isa import VectorOp
from vdla.hardware.numerics import (
    NumericsError,
    pack_elements,
    pack_scale,
    requantise,
    round_half_even,
    scale_from_float,
    scales_from_floats,
    unpack_elements,
    unpack_scale,
)

int32 = st.integers(-(1 << 31), (1 << 31) - 1) | st.sampled_from([0, 1, -1, (1 << 31) - 1, -(1 << 31)])
mults = st.integers(0, (1 << 24) - 1) | st.integers(0, 23).map(lambda bit: 1 << bit)  # powers of two make ties
shifts = st.integers(0, 63)


def wrap(value):
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def half_up(value, shift):
    return math.floor(Fraction(value, 1 << shift) + Fraction(1, 2)) if shift else value


def half_even(value, shift):
    return round(Fraction(value, 1 << shift))


def exact_requantise(value, bias, mult, shift, zero_point, lo, hi):
    return min(max(half_even(wrap(value + bias) * mult, shift) + zero_point, lo), hi)


@given(int32, int32, mults, shifts, st.sampled_from([2, 4, 8]), st.data())
def test_requantise_is_exact(value, bias, mult, shift, bits, data):
    element = st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    zero_point, lo, hi = data.draw(element), *sorted([data.draw(element), data.draw(element)])
    got = requantise(np.array([value], np.int32), pack_scale(bias, mult, shift), zero_point, lo, hi, bits)
    assert got.tolist() == [exact_requantise(value, bias, mult, shift, zero_point, lo, hi)]
    assert got.dtype == np.int8


def test_requantise_equals_hand_computed_results():
    lanes = pack_scale([1, -1], [3, 3], [2, 0])
    # (5 + 1) * 3 / 4 = 4.5 -> 4; (5 - 1) * 3 = 12
    # (-7 + 1) * 3 / 4 = -4.5 -> -4; (-7 - 1) * 3 = -24
    # (9 + 1) * 3 / 4 = 7.5 -> 8; (9 - 1) * 3 = 24
    got = requantise(np.array([[5, 5], [-7, -7], [9, 9]], np.int32), lanes, 10, -10, 127)
    assert got.tolist() == [[14, 22], [6, -10], [18, 34]]


@given(st.integers(-(1 << 55), 1 << 55) | st.integers(-300, 300), shifts)
def test_round_half_even_is_exact(value, shift):
    assert round_half_even(value, shift) == half_even(value, shift)


@pytest.mark.parametrize("shift", [1, 2, 3, 24, 53, 54])
def test_every_tie_goes_to_the_even_neighbour(shift):
    odd_halves = np.arange(-99, 100, 2)
    results = round_half_even(odd_halves << np.int64(shift - 1), shift)
    assert (results % 2 == 0).all()
    assert (np.abs(2 * results - odd_halves) == 1).all()


def test_requantise_refuses_invalid_parameters():
    with pytest.raises(NumericsError, match=r"^requantise: clip_hi must be an integer from -8 to 7, got 8$"):
        requantise(np.zeros(1, np.int32), pack_scale(0, 1, 0), 0, -8, 8, out_bits=4)


def test_a_packed_scale_equals_a_hand_computed_word():
    assert int(pack_scale(-1, 0xABCDEF, 63)) == 0x3FAB_CDEF_FFFF_FFFF


@given(st.lists(st.tuples(int32, mults, shifts), min_size=1))
def test_packed_scales_round_trip(rows):
    bias, mult, shift = np.array(rows, np.int64).T
    for got, expected in zip(unpack_scale(pack_scale(bias, mult, shift)), (bias, mult, shift), strict=True):
        assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((1 << 31, 0, 0), "scale: bias must be an integer from -2147483648 to 2147483647, got 2147483648"),
        ((0, 1 << 24, 0), "scale: mult must be an integer from 0 to 16777215, got 16777216"),
        ((0, 0, 64), "scale: shift must be an integer from 0 to 63, got 64"),
    ],
)
def test_invalid_scales_are_refused(values, message):
    with pytest.raises(NumericsError) as error:
        pack_scale(*values)
    assert str(error.value) == message


@given(st.floats(2.0**-39, 2.0**23))
def test_scale_from_float_is_the_nearest(real):
    mult, shift = scale_from_float(real)
    assert 1 << 23 <= mult < 1 << 24
    assert 0 <= shift <= 63
    assert abs(Fraction(mult, 1 << shift) - Fraction(real)) <= Fraction(1, 2 << shift)


def test_scale_from_float_at_the_limits_of_its_range():
    assert scale_from_float(0.0) == (0, 0)
    assert scale_from_float(1.0) == (1 << 23, 23)
    assert scale_from_float(1 - 2.0**-30) == (1 << 23, 23)
    assert scale_from_float(2.0**-63) == (1, 63)
    assert scale_from_float(2.0**-70) == (0, 0)
    assert scale_from_float(2.0**24 - 1) == ((1 << 24) - 1, 0)
    assert [a.tolist() for a in scales_from_floats([0.5, 0.75])] == [[1 << 23, 3 << 22], [24, 24]]
    for bad in (-1.0, 2.0**24, math.inf, math.nan):
        with pytest.raises(NumericsError) as error:
            scale_from_float(bad)
        assert str(error.value) == f"scale: factor must be from 0 to 16777215, got {bad}"


EXACT = {
    VectorOp.ADD: lambda a, x, b: a + b,
    VectorOp.SUB: lambda a, x, b: a - b,
    VectorOp.MUL: lambda a, x, b: a * b,
    VectorOp.MIN: lambda a, x, b: min(a, b),
    VectorOp.MAX: lambda a, x, b: max(a, b),
    VectorOp.SHL: lambda a, x, b: a << (b % 32),
    VectorOp.SHR: lambda a, x, b: half_up(a, b % 32),
    VectorOp.CLIP: lambda a, x, b: min(max(a, wrap(-b)), b),
    VectorOp.MOV: lambda a, x, b: b,
    VectorOp.MAC: lambda a, x, b: a + x * b,
}


@pytest.mark.parametrize("op", VectorOp)
@given(a=int32, x=int32, b=int32 | st.integers(-40, 40))
def test_vector_op_is_exact(op, a, x, b):
    arrays = [np.array([value], np.int32) for value in (a, x, b)]
    got = vector_op(op, *arrays)
    assert got.dtype == np.int32
    assert got.tolist() == [wrap(EXACT[op](a, x, b))]
    assert vector_start(op, *arrays[1:]).tolist() == [wrap(x * b) if op is VectorOp.MAC else b]


@given(st.sampled_from([2, 4, 8]), st.data())
def test_packed_elements_round_trip(bits, data):
    half = 1 << (bits - 1)
    rows = data.draw(st.lists(st.lists(st.integers(-half, half - 1), min_size=8, max_size=8), min_size=1, max_size=4))
    values = np.array(rows, np.int8)
    packed = pack_elements(values, bits)
    assert packed.shape == (len(rows), bits)
    assert np.array_equal(unpack_elements(packed, bits), values)


def test_packed_elements_equal_hand_computed_bytes():
    assert pack_elements([1, -1, 0, -2], 2).tolist() == [0b10_00_11_01]
    assert pack_elements([1, -8], 4).tolist() == [0x81]
    assert pack_elements([-1, 127], 8).tolist() == [255, 127]


def test_invalid_elements_are_refused():
    with pytest.raises(NumericsError, match=r"^elements: int4 value must be an integer from -8 to 7, got 8$"):
        pack_elements([0, 8], 4)
    with pytest.raises(NumericsError) as error:
        pack_elements([0, 1, 1], 4)
    assert str(error.value) == "elements: the last axis must be a multiple of 2 for int4, got (3,)"
