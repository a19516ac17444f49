# SPDX-License-Identifier: Apache-2.0
"""Lanes in NumPy against Python's integers."""

import numpy as np
import pytest

from vdla.hardware.numerics import pack_scale
from vdla.simulator.function import plain_lanes
from vdla.simulator.function.plain_lanes import LANES

EDGES = np.array(
    [-(2**31), 1 - 2**31, -(2**16), -129, -31, -6, -1, 0, 1, 2, 5, 31, 32, 2**16, 2**31 - 2, 2**31 - 1], np.int32
)
OPERATIONS = {
    "add16": lambda a, b: a + b,
    "sub16": lambda a, b: a - b,
    "mul16": lambda a, b: a * b,
    "min16": min,
    "max16": max,
    "shift_left16": lambda a, b: a << (b & 31),
    "shift_right16": lambda a, b: (a + ((1 << (b & 31)) >> 1)) >> (b & 31),
}


def wrapped(value):
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_operations_wrap_and_round(name):
    for b in EDGES.tolist():
        with np.errstate(over="raise"):
            lanes = getattr(plain_lanes, name)(EDGES, plain_lanes.splat16(b))
        assert lanes.dtype == np.int32
        assert lanes.tolist() == [wrapped(OPERATIONS[name](a, b)) for a in EDGES.tolist()], b


def test_lanes_are_loaded_and_stored_by_index():
    words, elements = np.arange(40, dtype=np.int32), np.arange(-20, 20, dtype=np.int8)
    lanes = plain_lanes.load16(words, 3)
    plain_lanes.store16(words, 20, lanes + plain_lanes.widen16(elements, 1))
    assert lanes.tolist() == list(range(3, 19))
    assert words.tolist() == [*range(20), *range(-16, 16, 2), *range(36, 40)]


def test_results_round_half_to_even():
    scales = pack_scale(np.zeros(LANES), np.ones(LANES), np.ones(LANES)).astype(np.int64)
    sums, out = np.arange(-7, 9, dtype=np.int32), np.zeros(LANES + 1, np.uint8)
    plain_lanes.requantise16(sums, scales, 0, 3, -1, 6, out, 1)
    assert out.view(np.int8).tolist() == [0, *(min(max(round(value / 2) + 3, -1), 6) for value in sums.tolist())]


def test_a_product_is_added_to_sums():
    inputs, weights = np.array([[127, -128], [1, 2]], np.int8), np.array([[-128, 127], [3, 4], [5, 6]], np.int8)
    sums = np.full(6, 2**31 - 1, np.int32)
    plain_lanes.multiply(inputs, weights, sums)
    products = (inputs.astype(int) @ weights.astype(int).T).reshape(-1).tolist()
    assert sums.tolist() == [wrapped(2**31 - 1 + product) for product in products]
