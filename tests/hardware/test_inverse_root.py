# SPDX-License-Identifier: Apache-2.0
"""One over the square root in fixed point."""

from __future__ import annotations

import numpy as np

from vdla.hardware.inverse_root import inverse_root
from vdla.verification.tflite_models import rounding

VALUES = np.unique([*range(600), *(1 << np.arange(31)), *((1 << np.arange(1, 32)) - 1), 65_025, 1_234_567_890])


def test_results_are_those_of_the_naive_model() -> None:
    multiplier, shift = inverse_root(VALUES)
    for value, *pair in zip(VALUES.tolist(), multiplier.tolist(), shift.tolist(), strict=True):
        assert tuple(pair) == rounding.inverse_root(value), value


def test_results_are_near_those_of_floats() -> None:
    multiplier, shift = inverse_root(VALUES[1:])
    exact = 1 / np.sqrt(VALUES[1:].astype(np.float64))
    assert np.abs(multiplier * 2.0 ** (shift - 31) / exact - 1).max() < 2e-6


def test_a_hand_computed_one() -> None:
    """1 / sqrt(4) = 1/2: 2**30 of 2**31, within the error of the steps."""
    [multiplier], [shift] = (part.tolist() for part in inverse_root([4]))
    assert abs(multiplier * 2.0**shift - 2.0**30) < 1000
    assert [part.tolist() for part in inverse_root([0, 1])] == [[2**31 - 1] * 2, [0, 0]]
