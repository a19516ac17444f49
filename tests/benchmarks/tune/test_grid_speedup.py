# SPDX-License-Identifier: Apache-2.0
"""Ranks, and the section of tiles of grids on a tiny function."""

from __future__ import annotations

import pytest
from helpers.opencl_functions import needs_opencl

from vdla.benchmarks.tune import grid_speedup
from vdla.benchmarks.tune.grid_speedup import SpeedupCase, measure_grid_speedup, rank_correlation
from vdla.benchmarks.tune.section import SectionRequest
from vdla.compiler.operators import relu
from vdla.runtime.grid.opencl_context import OpenClDeviceError


def test_ranks_agree_however_far_values_are_apart() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 4000]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 2], [5, 5, 9]) == pytest.approx(1)
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9486832980505138)  # ties share a rank
    assert rank_correlation([1, 1, 1], [1, 2, 3]) == 0


def test_without_a_device_there_are_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise OpenClDeviceError("opencl: a driver must be installed, got none")

    monkeypatch.setattr(grid_speedup, "open_opencl", missing)
    steps: list[str] = []
    assert measure_grid_speedup(SectionRequest(0, steps.append)).figures == {}
    assert len(steps) == len(grid_speedup.CASES)


@pytest.mark.long
@needs_opencl
def test_a_section_tunes_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_speedup, "CASES", {"relu": SpeedupCase(relu, ((8, 64),))})
    monkeypatch.setattr(grid_speedup, "TRIALS", 3)
    section = measure_grid_speedup(SectionRequest(0, lambda step: None))
    assert section.figures["grid_failed"] == 0
    assert section.figures["grid_speedup"] >= 1
    assert [row["function"] for row in section.rows] == ["relu"]
