"""Barriers: where threads of a block depend on each other, and nowhere else."""

from __future__ import annotations

from vdla.benchmarks.gpu.cooperative import row_sums, stencil, tiled_product
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits

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


def test_the_threads_of_a_block_fetch_a_tile_together() -> None:
    assert (
        kernel_text(stencil(30, 8))
        == """\
kernel stencil(x, y) of (4, 1, 1) blocks of (8, 1, 1) threads:
    x_shared: int32[10] in shared
    for i_i_o in range(2):
        if blockIdx.x * 8 + i_i_o * 8 + threadIdx.x < 32 and i_i_o * 8 + threadIdx.x < 10:
            x_shared[i_i_o * 8 + threadIdx.x] = x[blockIdx.x * 8 + i_i_o * 8 + threadIdx.x]
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
