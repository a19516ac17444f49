# SPDX-License-Identifier: Apache-2.0
"""The formulas of the timing contract's constants."""

from __future__ import annotations

from vdla.hardware import timing
from vdla.hardware.config import Config

PYNQ, TINY = Config.preset("pynq_z1"), Config.preset("tiny")


def test_depth_grows_with_the_adder_tree():
    assert (timing.compute_depth(PYNQ), timing.compute_depth(TINY)) == (
        timing.PIPELINE_DEPTH + 4,
        timing.PIPELINE_DEPTH + 2,
    )


def test_pages_and_fetch_buffer_are_counted_in_beats():
    assert (timing.page_beats(PYNQ), timing.page_beats(TINY)) == (512, 1024)
    assert (timing.fetch_buffer_beats(PYNQ), timing.fetch_buffer_beats(TINY)) == (64, 16)


def test_the_accumulator_has_two_halves():
    assert [timing.accumulator_half(TINY, index) for index in (0, 31, 32, 63)] == [0, 0, 1, 1]
