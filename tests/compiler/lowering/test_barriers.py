# SPDX-License-Identifier: Apache-2.0
"""Barriers: where threads of a block depend on each other, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.analysis import ScheduleError, check_threads
from vdla.compiler.interpret import interpret_kernels
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.verification.grid.cooperative import row_sums, stencil, strided_stencil, tiled_product
from vdla.verification.grid.defects import defects

LIMITS = GridLimits("test", threads=64, shared_bytes=4096)


def kernel_text(s: Schedule) -> str:
    """The only kernel of a schedule, as text."""
    (kernel,) = lower_kernels(s.fn, LIMITS)
    return str(kernel)


def test_a_row_of_threads_waits_before_one_adds_the_parts() -> None:
    assert (
        kernel_text(row_sums(6, 32, 8))
        == """\
kernel sums(x, y) of (6, 1, 1) blocks of (8, 1, 1) threads:
    y_rf: int32[8, 1] in shared
    y_rf[threadIdx.x, 0] = 0
    for k_i in range(4):
        y_rf[threadIdx.x, 0] = y_rf[threadIdx.x, 0] + x[blockIdx.x, threadIdx.x * 4 + k_i]
    if threadIdx.x == 0:
        y[blockIdx.x] = 0
    barrier of block
    if threadIdx.x == 0:
        for y_k_o in range(8):
            y[blockIdx.x] = y[blockIdx.x] + y_rf[y_k_o, 0]"""
    )


def test_a_tree_of_threads_waits_before_each_step() -> None:
    text = kernel_text(row_sums(6, 32, 8, tree=True))
    assert text.count("barrier of block") == 3
    assert "y_y_rf: int32[4, 1] in shared" in text
    assert "y_y_rf_2: int32[2, 1] in shared" in text


def test_the_last_steps_of_a_tree_stop_a_warp_alone() -> None:
    limits = GridLimits("warps of four", warp=4)
    (kernel,) = lower_kernels(row_sums(6, 32, 8, tree=True).fn, limits)
    waits = [stmt.scope.value for stmt in ir.walk(kernel.body) if isinstance(stmt, ir.Barrier)]
    assert waits == ["block", "warp", "warp"]
    x = np.arange(192, dtype=np.int32).reshape(6, 32)
    np.testing.assert_array_equal(interpret_kernels([kernel], {"x": x})["y"], x.sum(axis=1))
    with pytest.raises(ScheduleError) as error:
        check_threads(replace(kernel, warp=2))
    assert str(error.value) == (
        "sums: threads of a block must not access one element, to write it, without a barrier between, got the write "
        "of y_y_rf[threadIdx.x, 0] and the read of y_y_rf[threadIdx.x + y_y_k_o_i_o * 2, 0]"
    )


def test_threads_fetch_vectors() -> None:
    """Four elements a thread at once; the barrier stands behind the loop of lanes."""
    s = row_copies(4, 32, 8)
    _, lanes = s.split(s.loops("x_shared")[-1], factor=4)
    s.vectorize(lanes)
    s.bind(s.loops("x_shared")[-2], "threadIdx.x")
    assert (
        kernel_text(s)
        == """\
kernel reversed(x, y) of (4, 1, 1) blocks of (8, 1, 1) threads:
    x_shared: int32[1, 32] in shared
    for j_j_i in vectorize(4):
        x_shared[0, threadIdx.x * 4 + j_j_i] = x[blockIdx.x, threadIdx.x * 4 + j_j_i]
    barrier of block
    for j_o in range(4):
        y[blockIdx.x, threadIdx.x + j_o * 8] = x_shared[0, threadIdx.x * -1 + j_o * -8 + 31]"""
    )


def row_copies(rows: int, columns: int, threads: int) -> Schedule:
    """y[i, j] = x[i, columns - 1 - j] through a shared row."""
    x = te.placeholder((rows, columns), "int32", "x")
    y = te.compute((rows, columns), lambda i, j: x[i, columns - 1 - j], "y")
    s = Schedule(te.create_function([x], [y], "reversed"))
    i, j = s.loops("y")
    s.bind(i, "blockIdx.x")
    s.bind(s.split(j, factor=threads)[1], "threadIdx.x")
    s.compute_at(s.cache_read("y", "x", "shared"), i)
    return s


def test_no_barrier_is_idle() -> None:
    """Without any one of its barriers, a kernel races."""
    for s in (row_sums(6, 32, 8, tree=True), stencil(30, 8), tiled_product(32, 16, 4, 8)):
        for kernel in lower_kernels(s.fn, LIMITS):
            for kind, less in defects(kernel):
                if kind == "barrier removed":
                    with pytest.raises(ScheduleError):
                        check_threads(less)


def test_threads_that_use_their_own_elements_do_not_wait() -> None:
    assert "barrier" not in kernel_text(own_elements())


def own_elements() -> Schedule:
    """y = 2 (x + 1): each thread of a block reads the shared element that it wrote."""
    x = te.placeholder((32,), "int32", "x")
    more = te.compute((32,), lambda i: x[i] + 1, "more")
    s = Schedule(te.create_function([x], [te.compute((32,), lambda i: more[i] * 2, "y")], "own"))
    block, thread = s.split(s.loops("y")[0], factor=8)
    s.set_scope("more", "shared")
    s.compute_at("more", block)
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    s.bind(s.loops("more")[-1], "threadIdx.x")
    return s


def test_the_threads_of_a_block_fetch_a_tile_together() -> None:
    assert (
        kernel_text(stencil(30, 8))
        == """\
kernel stencil(x, y) of (4, 1, 1) blocks of (8, 1, 1) threads:
    x_shared: int32[10] in shared
    for i_i_o in range(2):
        if blockIdx.x * 8 + threadIdx.x + i_i_o * 8 < 32 and threadIdx.x + i_i_o * 8 < 10:
            x_shared[threadIdx.x + i_i_o * 8] = x[blockIdx.x * 8 + threadIdx.x + i_i_o * 8]
    barrier of block
    if blockIdx.x * 8 + threadIdx.x < 30:
        y[blockIdx.x * 8 + threadIdx.x] = x_shared[threadIdx.x] + x_shared[threadIdx.x + 1] + x_shared[threadIdx.x + 2]"""  # noqa: E501
    )


def test_a_tiled_product_waits_before_and_after_it_reads_the_tiles() -> None:
    text = kernel_text(tiled_product(32, 16, 4, 8))
    assert text.count("barrier") == 2


def test_two_halves_of_a_tile_need_one_barrier() -> None:
    s = tiled_product(32, 16, 4, 8)
    for tile in ("a_shared", "b_shared"):
        s.double_buffer(tile)
    assert kernel_text(s).count("barrier") == 1


@pytest.mark.parametrize(("double", "waits"), [(False, 2), (True, 1)])
def test_virtual_threads_are_strides_and_take_turns_with_the_halves_of_a_tile(double: bool, waits: int) -> None:
    (kernel,) = lower_kernels(strided_stencil(3, 4, double=double).fn, LIMITS)
    assert str(kernel).count("barrier of block") == waits
    assert "y[blockIdx.x * 12 + threadIdx.x + i_i_o * 4] = " in str(kernel)
    x = np.arange(24, dtype=np.int32) ** 2
    np.testing.assert_array_equal(interpret_kernels([kernel], {"x": x})["y"], x[:-1] + x[1:])
