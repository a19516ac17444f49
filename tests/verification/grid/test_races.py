# SPDX-License-Identifier: Apache-2.0
"""The benchmark of GPU kernels: planted races, and the model that decides which kernels race."""

from __future__ import annotations

import pytest

from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.target import GridLimits
from vdla.support.progress import silent
from vdla.verification.grid.cooperative import centred_rows, strided_stencil, tiled_product, total
from vdla.verification.grid.defects import defects
from vdla.verification.grid.races import RANDOM, count_races


def test_every_planted_race_is_refused_and_no_clean_kernel_is() -> None:
    found = count_races(silent, seed=1, least=30, random_kernels=100)
    assert (found.refused, found.false_alarms) == (found.planted, 0)
    assert found.planted.total() - found.planted[RANDOM] >= 30
    assert found.planted[RANDOM] > 20
    assert found.clean > 30


def test_defects_are_of_every_kind() -> None:
    schedules = centred_rows(3, 10, 4), tiled_product(8, 4, 2, 2), total(12, 2, 3), strided_stencil(3, 4, double=True)
    kernels = [kernel for s in schedules for kernel in lower_kernels(s.fn, GridLimits("test"))]
    assert {kind for kernel in kernels for kind, _ in defects(kernel)} == {
        "barrier in some iterations",
        "barrier of a warp",
        "barrier removed",
        "barrier under a condition",
        "blocks overlapped",
        "condition removed",
        "halves overlapped",
        "strides overlapped",
        "tile overlapped",
        "tiles overlapped",
        "update not atomic",
    }


@pytest.mark.long
def test_analysis_and_interpreter_agree_on_random_kernels() -> None:
    counts = count_races(silent, seed=7, least=0, random_kernels=3000)
    assert (counts.planted, counts.false_alarms) == (counts.refused, 0)
    assert counts.planted.total() > 800
