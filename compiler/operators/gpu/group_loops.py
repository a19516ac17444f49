# SPDX-License-Identifier: Apache-2.0
"""Loops over the threads of a group: tiles of a result, and tiles that threads fetch together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdla.compiler import ir
from vdla.compiler.analysis import LeafBlock, loads, stores, written_buffers
from vdla.compiler.operators.cpu.block_nest import block_nest, loops_inside
from vdla.compiler.schedule import Schedule

_FETCH_LANES = (4, 2)


def loop_extent(schedule: Schedule, block: str, loop: str) -> int:
    """The extent of a loop around a block.

    Raises:
        SymbolicError: it is not a number.
    """
    return next(outer.size for outer in block_nest(schedule.fn, block).leaf.loops if outer.var == loop)


def fuse_all(schedule: Schedule, loops: Sequence[str]) -> str:
    """Nested loops as one."""
    return schedule.fuse(*loops) if len(loops) > 1 else loops[0]


def split_tile(schedule: Schedule, block: str, loop: str, tile: int, elements: int) -> tuple[str, str, str]:
    """Split a loop over groups of `tile` elements, threads, and the `elements` of a thread.

    If `elements` divides the extent, every thread computes either all of its elements or none.
    """
    if loop_extent(schedule, block, loop) % elements == 0:
        outer, element = schedule.split(loop, factor=elements)
        group, thread = schedule.split(outer, factor=tile // elements)
        return group, thread, element
    group, outer = schedule.split(loop, factor=tile)
    thread, element = schedule.split(outer, factor=elements)
    return group, thread, element


def bind_all(schedule: Schedule, loops: Sequence[str], axes: Sequence[str]) -> None:
    """Bind loops, the innermost to the first axis.

    Every later step checks bound loops, so that loops over groups are bound last.
    """
    for loop, axis in zip(reversed(loops), axes, strict=False):
        schedule.bind(loop, axis)


def keep_in_registers(schedule: Schedule, block: str) -> None:
    """Keep the results of a block in the registers of each thread."""
    for buffer in written_buffers(block_nest(schedule.fn, block).leaf.block):
        schedule.set_scope(buffer, "local")


def fetch_together(schedule: Schedule, block: str, loop: str, threads: Mapping[str, int], lanes: int = 4) -> None:
    """Distribute the elements of a copy in `loop` over all threads of a group.

    `threads` are the extents of the axes, "threadIdx.x" first. Neighbouring threads fetch
    neighbouring elements, up to `lanes` at once where these are contiguous in both buffers.
    """
    loops = loops_inside(schedule, block, loop)
    width = _vector_width(schedule, block, loops, lanes)
    if width > 1:
        loops[-1], lane = schedule.split(loops[-1], factor=width)
        schedule.vectorize(lane)
    fused = fuse_all(schedule, loops)
    shares = []
    for extent in threads.values():
        fused, share = schedule.split(fused, factor=extent)
        shares.append(share)
    for share, axis in zip(shares, threads, strict=True):
        schedule.bind(share, axis)


def _vector_width(schedule: Schedule, block: str, loops: Sequence[str], lanes: int) -> int:
    """The number of elements that a thread can fetch at once."""
    nest = block_nest(schedule.fn, block)
    if not is_copy(nest.leaf) or {*nest.read_strides(loops[-1]), *nest.write_strides(loops[-1])} != {1}:
        return 1
    extent = loop_extent(schedule, block, loops[-1])
    return next((width for width in _FETCH_LANES if width <= lanes and extent % width == 0), 1)


def is_copy(leaf: LeafBlock) -> bool:
    """Whether a block only copies elements."""
    return len(list(loads(leaf.block))) == 1 and all(isinstance(store.value, ir.Load) for store in stores(leaf.block))
