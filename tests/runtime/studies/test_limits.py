# SPDX-License-Identifier: Apache-2.0
"""What limits a program: the bound, its own steps, or that its units take turns."""

from __future__ import annotations

import pytest

from vdla.hardware.config import Config
from vdla.runtime.studies.report import Point

TINY = Config.preset("tiny")
RATE = 16
BYTES = TINY.peak_bytes_per_cycle


def point(cycles: float, compute: float, reads: float, writes: float, busy: float) -> Point:
    """A point by the cycles of each of its bounds."""
    return Point(compute * RATE, cycles, reads * BYTES, writes * BYTES, busy)


@pytest.mark.parametrize(
    ("case", "limit", "turns"),
    [
        (point(1000, compute=900, reads=300, writes=100, busy=980), "compute", False),
        (point(1000, compute=300, reads=900, writes=100, busy=400), "reads", False),
        (point(1000, compute=300, reads=100, writes=900, busy=400), "writes", False),
        (point(1000, compute=60, reads=390, writes=100, busy=990), "steps", False),
        (point(1000, compute=900, reads=950, writes=100, busy=980), "reads", False),  # its steps are the machine's rate
        (point(1000, compute=400, reads=500, writes=100, busy=420), "reads", True),
        (point(1000, compute=10, reads=300, writes=100, busy=600), "steps", True),
        (point(1000, compute=10, reads=800, writes=100, busy=790), "reads", False),
        (point(1001, compute=10, reads=800, writes=100, busy=790), "reads", True),
    ],
)
def test_the_cause_is_named(case: Point, limit: str, turns: bool) -> None:
    assert case.limited_by(RATE, TINY) == limit
    assert case.in_turns(RATE, TINY) == turns
    assert case.bound(RATE, TINY).by in ("compute", "reads", "writes")
