# SPDX-License-Identifier: Apache-2.0
"""An average is the sum of a window and one requantisation by 1 / count, half to even."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers import reference

from vdla.compiler.templates.channelwise import pool2d
from vdla.hardware.config import Config
from vdla.hardware.numerics import requantise
from vdla.simulator.simulate import simulate

TINY = Config.preset("tiny")
WINDOWS = [(rows, cols) for rows in range(1, 9) for cols in range(rows, 9)]
ZERO_POINTS = [(0, 0), (-128, -128), (127, 127), (-128, 127), (127, -128), (-5, 3)]


def average(sums: np.ndarray, count: np.ndarray | int, zero_point: int) -> np.ndarray:
    """The averages, with the float32 nearest to 1 / count as the machine's multiplier."""

    def one(total: int, n: int) -> int:
        return round(total * Fraction(float(np.float32(1) / np.float32(n))))

    return np.clip(np.vectorize(one, otypes=[int])(sums, count) + zero_point, -128, 127)


@pytest.mark.sampled
@pytest.mark.parametrize("kernel", WINDOWS, ids=lambda kernel: f"{kernel[0]}x{kernel[1]}")
def test_every_sum_of_a_window_is_divided_and_rounded_half_to_even(kernel: tuple[int, int]) -> None:
    """Equal to exact division, but for ties of a count that is no power of two."""
    rows, cols = kernel
    count = rows * cols
    sums = np.arange(-128 * count, 127 * count + 1)
    for zero_point, input_zero_point in ZERO_POINTS:
        operator = pool2d(
            TINY, kind="average", batch=1, height=rows, width=cols, channels=4, kernel=kernel,
            zero_point=zero_point, input_zero_point=input_zero_point,
        )  # fmt: skip
        lane = operator.pack(np.zeros((1, 4, rows, cols), int))["scale"].ravel()[0]
        found = requantise(sums, lane, zero_point, -128, 127)
        moved = sums - count * input_zero_point
        tie = (2 * moved % (2 * count) == count) & (count & (count - 1) != 0)
        floor, rest = np.divmod(moved, count)
        exact = floor + (2 * rest > count) + ((2 * rest == count) & (floor % 2 == 1))
        expected = np.clip(exact + zero_point, -128, 127)
        np.testing.assert_array_equal(found[~tie], expected[~tie], err_msg=f"{zero_point}, {input_zero_point}")
        np.testing.assert_array_equal(found[tie], average(moved[tie], count, zero_point))


@pytest.mark.parametrize(("quarters", "expected"), [(2, 0), (6, 2), (10, 2), (-2, 0), (-6, -2), (3, 1), (-5, -1)])
def test_a_tie_goes_to_the_even_neighbour(quarters: int, expected: int) -> None:
    operator = pool2d(TINY, kind="average", batch=1, height=2, width=2, channels=4, kernel=2)
    data = np.zeros((1, 4, 2, 2), int)
    data[:, :, 0, 0] = quarters
    found = operator.unpack(simulate(operator.program, operator.pack(data)).outputs)
    assert found.ravel().tolist() == [expected] * 4


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize(("zero_point", "input_zero_point"), ZERO_POINTS)
def test_padded_averages_divide_by_their_counts(include: bool, zero_point: int, input_zero_point: int) -> None:
    """3x3 windows have 4, 6 and 9 values where padding is left out of the count."""
    rng = np.random.default_rng(0)
    data = rng.integers(-128, 128, (1, 8, 9, 9))
    operator = pool2d(
        TINY, kind="average", batch=1, height=9, width=9, channels=8, kernel=3, pads=1, count_include_pad=include,
        zero_point=zero_point, input_zero_point=input_zero_point,
    )  # fmt: skip
    found = operator.unpack(simulate(operator.program, operator.pack(data)).outputs)
    full, ones = np.pad(data - input_zero_point, ((0, 0), (0, 0), (1, 1), (1, 1))), np.pad(np.ones((9, 9), int), 1)
    windows = [(slice(y, y + 9), slice(x, x + 9)) for y in range(3) for x in range(3)]
    sums = sum(full[:, :, rows, cols] for rows, cols in windows)
    counts = 9 if include else sum(ones[window] for window in windows)
    np.testing.assert_array_equal(found, average(sums, counts, zero_point))


@pytest.mark.parametrize("kind", ["max", "average"])
def test_without_a_multiplier_results_have_the_scale_of_the_data(kind: str) -> None:
    operator = pool2d(TINY, kind=kind, batch=1, height=4, width=4, channels=4, kernel=2, strides=2)
    data = np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 4))
    without, one = (operator.pack(data, multiplier=factor)["scale"] for factor in (None, 1.0))
    np.testing.assert_array_equal(without, one)
    half = operator.unpack(simulate(operator.program, operator.pack(data, multiplier=0.5)).outputs)
    windows = data.reshape(1, 4, 2, 2, 2, 2)
    pooled = windows.max(axis=(3, 5)) if kind == "max" else windows.sum(axis=(3, 5)) / 4
    np.testing.assert_array_equal(half, np.rint(pooled / 2))


def test_a_bias_is_added_to_the_sums() -> None:
    operator = pool2d(TINY, kind="average", batch=1, height=6, width=6, channels=4, kernel=6)
    data, bias = np.zeros((1, 4, 6, 6), int), np.array([19, 17, -17, -19])
    found = operator.unpack(simulate(operator.program, operator.pack(data, bias)).outputs)
    assert found.ravel().tolist() == [1, 0, 0, -1]


# --- windows larger than the input buffer ---------------------------------------------------------


@pytest.mark.parametrize("kind", ["max", "average"])
@pytest.mark.parametrize(("preset", "size"), [("pynq_z1", 56), ("tiny", 40), ("batch4", 40), ("int4", 70)])
def test_a_global_pool_may_be_of_any_size(preset: str, size: int, kind: str) -> None:
    config = Config.preset(preset)
    low, high = reference.limits(config.inp_bits)
    operator = pool2d(config, kind=kind, batch=1, height=size, width=size, channels=9, kernel=size, input_zero_point=2)
    assert operator.description.startswith("rows of windows: ")
    data = np.random.default_rng(0).integers(low, high + 1, (1, 9, size, size))
    found = operator.unpack(simulate(operator.program, operator.pack(data)).outputs)
    window = ((size, size), (1, 1), (0, 0))
    sums = reference.max_pool2d(data, *window) - 2 if kind == "max" else reference.sum_pool2d(data, *window, zero=2)
    factor = np.array(1.0 if kind == "max" else 1 / size**2)
    np.testing.assert_array_equal(found, reference.requantise(sums, np.zeros(9, int), factor, 0, low, high))


@pytest.mark.parametrize("include", [True, False])
def test_large_windows_reach_padding(include: bool) -> None:
    """Windows of 20x18 in steps of 7x5; padding counts or not, in classes of positions."""
    kernel, strides, pads, dilations = (20, 18), (7, 5), (6, 5, 3, 4), (2, 1)
    config = replace(TINY, scl_kib=16)
    data = np.random.default_rng(1).integers(-128, 128, (1, 5, 41, 26))
    operator = pool2d(
        config, kind="average", batch=1, height=41, width=26, channels=5, kernel=kernel, strides=strides, pads=pads,
        dilations=dilations, count_include_pad=include, input_zero_point=-9,
    )  # fmt: skip
    assert operator.description.startswith("rows of windows: ")
    found = operator.unpack(simulate(operator.program, operator.pack(data, multiplier=4.0)).outputs)
    sums = reference.sum_pool2d(data, kernel, strides, pads, dilations, -9)
    counts = 360 if include else reference.counts((41, 26), kernel, strides, pads, dilations)
    expected = reference.requantise(sums, np.zeros(5, int), 4.0 / np.broadcast_to(counts, sums.shape), 0, -128, 127)
    np.testing.assert_array_equal(found, expected)
