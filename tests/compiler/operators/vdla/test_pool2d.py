"""Averages equal integer division, rounded half up, for every sum of every window."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.compiler.operators.vdla.pool2d import pool2d
from vdla.hardware.config import Config
from vdla.hardware.isa import COL
from vdla.hardware.numerics import requantise
from vdla.simulator.simulate import simulate

TINY = Config.preset("tiny")
WINDOWS = [(rows, cols) for rows in range(1, 9) for cols in range(rows, 9)]
ZERO_POINTS = [(0, 0), (-128, -128), (127, 127), (-128, 127), (127, -128), (-5, 3)]


def average(sums: np.ndarray, count: np.ndarray | int, zero_point: int) -> np.ndarray:
    """The averages rounded half up, in integers."""
    return np.clip((2 * sums + count) // (2 * count) + zero_point, -128, 127)


@pytest.mark.parametrize("kernel", WINDOWS, ids=lambda kernel: f"{kernel[0]}x{kernel[1]}")
def test_every_sum_of_a_window_is_divided_exactly(kernel: tuple[int, int]) -> None:
    rows, cols = kernel
    count = rows * cols
    sums = np.arange(-128 * count, 127 * count + 1)
    for zero_point, input_zero_point in ZERO_POINTS:
        operator = pool2d(
            TINY, kind="average", batch=1, height=rows, width=cols, channels=4, kernel=kernel,
            zero_point=zero_point, input_zero_point=input_zero_point,
        )  # fmt: skip
        lane = operator.pack(np.zeros((1, 4, rows, cols), int))["scale"].ravel()[0]
        added = {int(value) for value in operator.program.columns[:, COL["zero_point"]] if value}
        assert added == {-128}
        found = requantise(sums, lane, -128, -128, 127)
        expected = average(sums - count * input_zero_point, count, zero_point)
        np.testing.assert_array_equal(found, expected, err_msg=f"{zero_point}, {input_zero_point}")


def test_a_tie_is_rounded_up() -> None:
    """-738 / 36 = -20.5."""
    operator = pool2d(TINY, kind="average", batch=1, height=6, width=6, channels=4, kernel=6)
    data = np.full((1, 4, 6, 6), -20)
    data[:, :, :3] = -21
    assert data[0, 0].sum() == -738
    found = operator.unpack(simulate(operator.program, operator.pack(data)).outputs)
    assert found.ravel().tolist() == [-20] * 4


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize(("zero_point", "input_zero_point"), ZERO_POINTS)
def test_padded_averages_are_exact(include: bool, zero_point: int, input_zero_point: int) -> None:
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


def test_the_scale_changes_only_with_rescale() -> None:
    shape = {"batch": 1, "height": 4, "width": 4, "channels": 4, "kernel": 2}
    data = np.zeros((1, 4, 4, 4), int)
    for kind in ("max", "average"):
        with pytest.raises(TemplateError) as refused:
            pool2d(TINY, kind=kind, **shape).pack(data, multiplier=0.5)
        assert str(refused.value) == f"{kind}_pool2d: multiplier must be left out without rescale=True, got one"
        with pytest.raises(TemplateError) as missing:
            pool2d(TINY, kind=kind, rescale=True, **shape).pack(data)
        assert str(missing.value).startswith(
            f"{kind}_pool2d: multiplier must be given to requantise the sums, got None"
        )


def test_a_bias_is_added_to_the_sums() -> None:
    operator = pool2d(TINY, kind="average", batch=1, height=6, width=6, channels=4, kernel=6)
    data, bias = np.zeros((1, 4, 6, 6), int), np.array([18, 17, -18, -19])
    found = operator.unpack(simulate(operator.program, operator.pack(data, bias)).outputs)
    assert found.ravel().tolist() == [1, 0, 0, -1]
