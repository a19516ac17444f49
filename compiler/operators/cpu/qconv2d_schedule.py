"""The CPU schedule of a quantised convolution: a register tile of pixels by blocks of channels, rescaled at once.

A row of results is rescaled with channels innermost and then transposed. The steps of the dot product are a declared
intrinsic; a CPU without it compiles what it computes.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.intrinsics.dot import dot_for_layout
from vdla.compiler.codegen.llvm.loops import ROLLED
from vdla.compiler.operators.cpu.nest import nest_named, size_of
from vdla.compiler.operators.cpu.tile import register_tile
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

TRANSPOSED = 64  # bytes that are brought from the order of the lanes into that of the result at once
SHORTEST_ROW, LONGEST_ROW = 4, 16  # results of one channel that are written at once


def schedule_qconv2d(schedule: Schedule, block: str, target: Target) -> None:
    """Rows of the result one after another, each for some blocks of channels: sums, rescaling, transposition."""
    leaf = nest_named(schedule.fn, block).leaf.block
    stages = {key: str(leaf.annotations[key]) for key in ("data", "lanes", "result")}
    _, blocks, _, columns, lanes = (size_of(axis.extent) for axis in leaf.axes[:5])
    tile = register_tile(target, (1, columns, blocks), lambda t: t.depth == 1 and blocks % t.vectors == 0)
    if size_of(schedule.fn.buffers[stages["result"]].shape[1]) >= lanes:
        row = transposed(schedule, stages["result"], tile.vectors, columns, lanes)
        schedule.compute_at(stages["lanes"], row)  # of fewer channels it would take no whole vectors
    place = rescaled(schedule, stages["lanes"], tile.rows)
    schedule.compute_at(block, place)
    sum_tile(schedule, block, place, target)
    regroup(schedule, stages["data"])


def transposed(schedule: Schedule, result: str, vectors: int, columns: int, lanes: int) -> str:
    """Cut the result into rows of `vectors` blocks, and these into pieces that a few shuffles transpose; the loop in
    which a row is."""
    length = piece(columns)
    copy = schedule.cache_write(result, "stack")
    n, channel, row, column = schedule.loops(copy)
    outer, inner = schedule.split(channel, factor=vectors * lanes)
    inner, lane = schedule.split(inner, factor=lanes)
    column, within = schedule.split(column, factor=length)
    schedule.reorder(n, outer, row, inner, column, lane, within)
    row = schedule.fuse(n, outer, row)
    schedule.parallel(row)
    schedule.compute_at(result, column)
    *_, lane_inside, row_inside, column_inside = schedule.loops(result)[-3:]
    schedule.reorder(row_inside, lane_inside, column_inside)
    steps, lane_inside = schedule.split(lane_inside, factor=divisor(lanes, max(1, TRANSPOSED // length)))
    schedule.vectorize(schedule.fuse(lane_inside, column_inside))
    schedule.unroll(steps)
    schedule.unroll(lane)
    schedule.vectorize(within)
    return row


def piece(columns: int) -> int:
    """How many results of a row are written at once: a power of two where one divides the row, as stores are then
    whole; else a divisor; else what leaves a rest."""
    even = columns & -columns
    if even >= SHORTEST_ROW:
        return min(even, LONGEST_ROW)
    best = divisor(columns, LONGEST_ROW)
    return best if best == columns or best >= SHORTEST_ROW else LONGEST_ROW


def divisor(extent: int, most: int) -> int:
    """The largest divisor of at most `most`."""
    return max(size for size in range(1, min(extent, most) + 1) if extent % size == 0)


def rescaled(schedule: Schedule, lanes: str, pixels: int) -> str:
    """Cut a row of rescaled results into tiles; the loop in which one is."""
    n, block, y, column, lane = schedule.loops(lanes)[-5:]
    outer, inner = schedule.split(column, factor=pixels)
    schedule.reorder(n, y, outer, inner, block, lane)
    schedule.vectorize(lane)
    schedule.unroll(block)
    schedule.unroll(inner)
    return outer


def sum_tile(schedule: Schedule, block: str, place: str, target: Target) -> None:
    """The sums of a tile: reductions outside, steps of the dot product written out."""
    leaf = nest_named(schedule.fn, block).leaf.block
    data = schedule.fn.buffers[str(leaf.annotations["data"])]
    loops = schedule.loops(block)
    n, blocks, y, x, lane, *outer, group = loops[loops.index(place) + 1 :]
    schedule.reorder(n, y, *outer, x, blocks, lane, group)
    schedule.unroll(x)
    schedule.unroll(blocks)
    lanes, terms = size_of(leaf.axes[4].extent), size_of(leaf.axes[-1].extent)
    schedule.tensorize(lane, dot_for_layout(target, lanes, terms, data.dtype))


def regroup(schedule: Schedule, data: str) -> None:
    """The groups written out: LLVM makes shuffles of what neighbours along a row store."""
    n, channel, _, column, group = schedule.loops(data)
    schedule.unroll(group)
    schedule.annotate(column, ROLLED, True)
    schedule.parallel(schedule.fuse(n, channel))
