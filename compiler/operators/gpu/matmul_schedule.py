"""The schedule of a matrix product for a GPU: shared tiles, register tiles, vector loads.

A group of 16 x 16 threads computes a tile of the result of up to 64 x 64 elements, each thread up
to 4 x 4 of them in registers. Step by step over the terms, all threads together fetch the tiles of
both operands into shared memory, several elements at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.analysis import read_buffers, stores
from vdla.compiler.operators.cpu.block_nest import block_nest
from vdla.compiler.schedule import Schedule, ScheduleError

GROUP = 16
"""The rows and the columns of threads in a group."""
_TILES = (64, 32, 16)
_DEPTHS = (16, 8)
_LANES = (4, 2, 1)


def schedule_matmul(schedule: Schedule, block: str) -> None:
    """Tile the product that a block sums; outer dimensions are a batch.

    Raises:
        ScheduleError: no tile divides an extent.
    """
    copy = schedule.cache_write(block, "local")
    *batch, row, column = _extents(schedule, copy)
    term = schedule.loops(block)[-1]
    rows, columns = _largest(_TILES, row[1], "rows"), _largest(_TILES, column[1], "columns")
    depth = _largest(_DEPTHS, _extents(schedule, block)[-1][1], "terms")
    groups, threads, own = _split(schedule, (row[0], column[0]), (rows, columns))
    outer = [name for name, _ in batch]
    schedule.reorder(*outer, *groups, *threads, *own)
    if outer:
        schedule.bind(schedule.fuse(*outer) if len(outer) > 1 else outer[0], "blockIdx.z")
    for loop, axis in zip((*groups, *threads), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"), strict=True):
        schedule.bind(loop, axis)
    schedule.compute_at(block, threads[1])
    step, inner = schedule.split(term, factor=depth)
    *_, row_loop, column_loop = [loop for loop in schedule.loops(block) if loop not in (step, inner)]
    schedule.reorder(step, inner, row_loop, column_loop)
    _fetch_operands(schedule, block, step, depth * min(rows, columns))
    schedule.unroll(row_loop)
    if columns > GROUP:
        schedule.vectorize(own[1])


def _split(schedule: Schedule, loops: Sequence[str], tiles: Sequence[int]) -> tuple[list[str], list[str], list[str]]:
    """Each loop as one over groups, one over threads and one over the elements of a thread."""
    groups, threads, own = [], [], []
    for loop, tile in zip(loops, tiles, strict=True):
        group, rest = schedule.split(loop, factor=tile)
        thread, element = schedule.split(rest, factor=tile // GROUP)
        groups.append(group)
        threads.append(thread)
        own.append(element)
    return groups, threads, own


def _fetch_operands(schedule: Schedule, block: str, loop: str, elements: int) -> None:
    """Copy the tile of each operand to shared memory in `loop`; the smaller has `elements`."""
    lanes = _largest(_LANES, elements // GROUP**2, "elements for each thread")
    leaf = block_nest(schedule.fn, block).leaf.block
    written = {store.buffer for store in stores(leaf)}
    for buffer in sorted(read_buffers(leaf) - written):
        tile = schedule.cache_read(block, buffer, "shared")
        schedule.compute_at(tile, loop)
        row, column = schedule.loops(tile)[-2:]
        vector, lane = schedule.split(column, factor=lanes)
        if lanes > 1:
            schedule.vectorize(lane)
        _, share = schedule.split(schedule.fuse(row, vector), factor=GROUP**2)
        y, x = schedule.split(share, factor=GROUP)
        schedule.bind(y, "threadIdx.y")
        schedule.bind(x, "threadIdx.x")


def _extents(schedule: Schedule, block: str) -> list[tuple[str, int]]:
    """The loops around a block with their extents, which must be numbers."""
    return [(loop.var, loop.size) for loop in block_nest(schedule.fn, block).leaf.loops]


def _largest(choices: Sequence[int], extent: int, what: str) -> int:
    """The largest choice that divides an extent."""
    found = next((choice for choice in choices if extent % choice == 0), None)
    if found is None:
        raise ScheduleError(f"matmul on a grid: {what} must be a multiple of {choices[-1]}, got {extent}")
    return found
