# SPDX-License-Identifier: Apache-2.0
"""Races between threads: what the analysis accepts, what it refuses and how it says so."""

from __future__ import annotations

import pytest
from helpers.small_kernels import CLEAN, FAULTY

from vdla.compiler.analysis import ScheduleError, check_threads
from vdla.compiler.ir import GridKernel


@pytest.mark.parametrize("kernel", CLEAN)
def test_threads_that_meet_at_barriers_do_not_race(kernel: GridKernel) -> None:
    check_threads(kernel)


@pytest.mark.parametrize(("kernel", "message"), FAULTY)
def test_a_race_is_refused_with_both_accesses(kernel: GridKernel, message: str) -> None:
    with pytest.raises(ScheduleError) as error:
        check_threads(kernel)
    assert str(error.value) == message
