# SPDX-License-Identifier: Apache-2.0
"""The passes from a scheduled function to the kernels that a GPU runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vdla.compiler import ir
from vdla.compiler.ir import GridKernel
from vdla.compiler.lowering.barriers import insert_barriers
from vdla.compiler.lowering.blocks import decompose, remove_blocks
from vdla.compiler.lowering.check import Level, PassError, check
from vdla.compiler.lowering.fragments import deal_fragments
from vdla.compiler.lowering.grid_storage import place_grid_storage
from vdla.compiler.lowering.grids import form_grids, simplify_launches, split_kernels
from vdla.compiler.lowering.select_intrinsics import select_grid_intrinsics
from vdla.compiler.lowering.shuffles import shuffle_partials
from vdla.compiler.lowering.unroll import unroll
from vdla.compiler.lowering.vectorize import vectorize
from vdla.compiler.target import GridLimits


def lower_kernels(fn: ir.Function, limits: GridLimits) -> tuple[GridKernel, ...]:
    """The kernels of a scheduled function, in the order of their launches.

    Raises:
        PassError: a kernel exceeds the limits, or its threads race with any barriers.
    """
    passes: tuple[tuple[Callable[[ir.Function], ir.Function], Level], ...] = (
        (select_grid_intrinsics, Level.SCHEDULED),
        (decompose, Level.DECOMPOSED),
        (place_grid_storage, Level.PLACED),
        (remove_blocks, Level.LOOPS),
        (deal_fragments, Level.LOOPS),
        (form_grids, Level.LOOPS),
        (simplify_launches, Level.LOOPS),
        (vectorize, Level.LOOPS),  # first, as it moves statements out of the loops of lanes
        (partial(shuffle_partials, warp=limits.warp), Level.LOOPS),
        (partial(insert_barriers, warp=limits.warp), Level.LOOPS),
        (unroll, Level.UNROLLED),
    )
    for run, level in passes:
        fn = run(fn)
        check(fn, level)
    kernels = split_kernels(fn, limits.warp)
    for kernel in kernels:
        check_limits(kernel, limits)
    return kernels


def check_limits(kernel: GridKernel, limits: GridLimits) -> None:
    """Refuse a kernel that the device cannot run.

    Raises:
        PassError: it has too many threads in a block or along an axis, or too much shared memory.
    """
    if kernel.threads > limits.threads:
        text = " x ".join(map(str, kernel.block))
        rule = f"a block must have at most {limits.threads} threads on {limits.name}"
        raise PassError(f"{kernel.name}: {rule}, got {kernel.threads} ({text})")
    for axis, threads, most in zip(ir.THREAD_AXES, kernel.block, limits.threads_along or kernel.block, strict=True):
        if threads > most:
            rule = f"a block must have at most {most} threads along {axis[-1]} on {limits.name}"
            raise PassError(f"{kernel.name}: {rule}, got {threads}; bind another loop to {axis}, or split this one")
    if kernel.shared_bytes > limits.shared_bytes:
        rule = f"a block must have at most {limits.shared_bytes} bytes of shared memory on {limits.name}"
        sizes = ", ".join(f"{buffer.name} {list(buffer.dims)}" for buffer in kernel.shared)
        raise PassError(f"{kernel.name}: {rule}, got {kernel.shared_bytes} ({sizes})")
