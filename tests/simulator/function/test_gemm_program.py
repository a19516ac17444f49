# SPDX-License-Identifier: Apache-2.0
"""The hand-written matrix product: refused sizes, safety and utilisation."""

import pytest

from vdla.hardware.config import Config
from vdla.simulator.timing import time_program
from vdla.simulator.verify import verify
from vdla.verification.programs.gemm_program import GemmTiling, GemmTilingError, gemm_program

PYNQ = Config.preset("pynq_z1")


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((100, 128, 64, 8, 2), "gemm: m must be a multiple of 8, got 100"),
        ((96, 100, 64, 8, 2), "gemm: n must be a multiple of 32, got 100"),
        ((96, 128, 70, 8, 2), "gemm: k must be a multiple of 16, got 70"),
        ((16, 128, 64, 8, 2), "gemm: tiles along m must be at least 3, got 2"),
        ((512, 128, 4096, 8, 2), "gemm: inp entries must be at most 2048, got 4096"),
        ((24, 2048, 16, 8, 2), "gemm: scl entries must be at most 64, got 128"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, text):
    with pytest.raises(GemmTilingError) as error:
        GemmTiling(PYNQ, *sizes)
    assert str(error.value) == text


def test_the_benchmark_program_is_safe_and_near_its_bound():
    program = gemm_program(GemmTiling(PYNQ, 256, 256, 1024, 16, 8))
    assert verify(program).ok
    stats = time_program(program)
    assert stats.compute_bound_cycles == 256 * 256 * 1024 / 256
    assert stats.total_cycles < 1.2 * stats.compute_bound_cycles
    assert stats.memory_bound_cycles < stats.total_cycles
