# SPDX-License-Identifier: Apache-2.0
"""What kernels do, against counts by hand and a naive count of sectors and banks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vdla.compiler import te
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.operators import matmul
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.grid import GridMachine, GridWork, kernel_work, modelled_cycles

MACHINE = GridMachine()


def doubled(stride: int, shared: bool = False, lanes: int = 1) -> GridWork:
    """2 groups of 64 threads, which double `lanes` elements each, `stride` apart from the next."""
    count = 64 * lanes
    x = te.placeholder((2, count * stride), "float32", "x")
    y = te.compute((2, count), lambda g, i: x[g, i * stride] + x[g, i * stride], "y")
    s = Schedule(te.create_function([x], [y], "f"))
    group, loop = s.loops("y")
    s.bind(group, "blockIdx.x")
    if lanes > 1:
        loop, lane = s.split(loop, factor=lanes)
        s.vectorize(lane)
    if shared:
        tile = s.cache_read("y", "x", "shared")
        s.compute_at(tile, group)
        s.bind(s.split(s.loops(tile)[-1], factor=64)[1], "threadIdx.x")
    s.bind(loop, "threadIdx.x")
    (kernel,) = lower_kernels(s.fn, GridLimits("device"))
    return kernel_work(kernel)


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (8, 32), (16, 32)])
def test_a_warp_moves_the_sectors_that_it_touches(stride: int, sectors: int) -> None:
    found = doubled(stride)
    assert found.memory_bytes == 2 * 32 * (sectors + 4)  # two warps read, and write 128 bytes each
    assert (found.groups, found.threads, found.warps, found.waits, found.barriers) == (2, 64, 2, 1, 0)


@pytest.mark.parametrize(("stride", "passes"), [(1, 1), (2, 2), (3, 1), (8, 8), (32, 32)])
def test_a_warp_passes_as_often_as_its_busiest_bank_has_words(stride: int, passes: int) -> None:
    found = doubled(stride, shared=True)
    words = 63 * stride + 1  # of which the threads write 32 by pass
    assert found.shared_passes == -(-words // 64) * 2 + 2 * passes
    assert found.shared_bytes == 4 * words
    assert found.barriers == (stride > 1)  # else each thread reads what it wrote


def test_vectors_are_one_access_of_sixteen_bytes() -> None:
    narrow, wide = doubled(1), doubled(1, lanes=4)
    assert wide.memory_bytes == 4 * narrow.memory_bytes
    assert wide.operations == 2 * (1 + 1 + 4)  # of each warp: a load, a store, four sums
    assert narrow.operations == 2 * (1 + 1 + 1)


def test_loads_that_follow_each_other_in_a_loop_are_waited_for_in_fours() -> None:
    a, b = te.placeholder((32, 40), "float32", "a"), te.placeholder((40, 32), "float32", "b")
    s = Schedule(te.create_function([a, b], [matmul(a, b)], "f"))
    row, column, _ = s.loops("a_matmul")
    s.bind(row, "blockIdx.x")
    s.bind(column, "threadIdx.x")
    (kernel,) = lower_kernels(s.fn, GridLimits("device"))
    assert kernel_work(kernel).waits == 40 / 4


def test_the_model_prefers_less_traffic_and_hides_latency_behind_more_groups() -> None:
    near, far = modelled_cycles(doubled(1), MACHINE), modelled_cycles(doubled(8), MACHINE)
    assert near < far
    many = GridWork(
        groups=10_000.0,
        threads=128.0,
        shared_bytes=0.0,
        registers=32.0,
        memory_bytes=0.0,
        shared_passes=0.0,
        operations=0.0,
        waits=100.0,
        barriers=0.0,
    )
    full = replace(many, shared_bytes=82 * 1024.0)
    assert (many.resident(MACHINE), full.resident(MACHINE)) == (16, 2)
    assert (many.occupancy(MACHINE), full.occupancy(MACHINE)) == (1, 0.125)
    latency = MACHINE.memory_latency * 100
    assert modelled_cycles(many, MACHINE) == MACHINE.launch_cycles + 6 * latency  # 93 groups by 16
    assert modelled_cycles(full, MACHINE) == MACHINE.launch_cycles + 47 * latency
