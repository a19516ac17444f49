# SPDX-License-Identifier: Apache-2.0
"""Compiled lanes against the definitions of the instruction set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from vdla.hardware.numerics import pack_scale, requantise
from vdla.simulator.function.lanes import LANES, load16, requantise16, widen_bytes


@njit(error_model="numpy")
def requantised(sums, scales, zero, low, high, out):
    requantise16(load16(sums, 0), scales, 0, zero, low, high, out, 1)


@njit(error_model="numpy")
def widened(target, source, index):
    widen_bytes(target, source, index)


def check(sums, bias, mult, shift, zero=0, low=-128, high=127):
    lanes = pack_scale(*(np.broadcast_to(part, LANES) for part in (bias, mult, shift)))
    sums, out = np.resize(np.array(sums, np.int64), LANES).astype(np.int32), np.zeros(LANES + 1, np.uint8)
    requantised(sums, lanes.astype(np.int64), zero, low, high, out)
    assert out[1:].view(np.int8).tolist() == requantise(sums, lanes, zero, low, high).tolist()


@pytest.mark.parametrize("near", [0, 2**20, 2**29 - 8, 2**29, 2**30, 2**31 - 16])
@pytest.mark.parametrize("mult, shift", [(2**24 - 1, 0), (2**23, 24), (2**24 - 1, 45), (12_345_679, 53), (1, 63)])
def test_sums_of_any_size_round_half_to_even(near, mult, shift):
    for sign in (-1, 1):
        check(sign * (near + np.arange(LANES)), 0, mult, shift, 3, -100, 90)


@pytest.mark.parametrize("shift", [1, 2, 8, 27])
def test_ties_round_to_even(shift):
    check((2 * np.arange(-8, 8) + 1) << (shift - 1), 0, 1, shift, 1)


@pytest.mark.parametrize("total, mult", [(854846045, 13253109), (827375355, 11822029), (2118527329, 8403617)])
def test_products_of_more_than_53_bits_beside_a_tie(total, mult):
    """As float64, they would be ties."""
    check([total, -total], 0, mult, 47)


INT32 = st.integers(-(2**31), 2**31 - 1)


@given(
    st.lists(INT32 | st.integers(-(2**20), 2**20), min_size=LANES, max_size=LANES),
    INT32, st.integers(0, 2**24 - 1), st.integers(0, 63), st.integers(-128, 127), st.integers(-128, 127),
    st.integers(-128, 127),
)  # fmt: skip
def test_any_scale_is_exact(sums, bias, mult, shift, zero, one, other):
    check(sums, bias, mult, shift, zero, min(one, other), max(one, other))


def test_elements_are_widened_in_their_places():
    source, target = np.arange(-20, 20, dtype=np.int8), np.zeros(40, np.int16)
    widened(target, source, 5)
    assert target.tolist() == [*[0] * 5, *range(-15, 1), *[0] * 19]
