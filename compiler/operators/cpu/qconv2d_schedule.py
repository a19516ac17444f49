"""The CPU schedule of a quantised convolution: register tiles of pixels by blocks of channels.

A row of results is rescaled with channels innermost, then transposed. The dot product is a declared
intrinsic; for a CPU without it its definition is compiled.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm import ROLLED
from vdla.compiler.codegen.llvm.intrinsics.dot import dot_for_layout
from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.reduction_steps import reduction_order, unroll_steps
from vdla.compiler.operators.cpu.register_tile import best_register_tile, largest_divisor, legal_tiles
from vdla.compiler.operators.cpu.threads import thread_plan
from vdla.compiler.operators.roles import DATA, RESCALED, RESULT
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_TRANSPOSED_BYTES = 64  # transposed at once from lanes of channels into rows
_SHORTEST_ROW, _LONGEST_ROW = 4, 16  # results of one channel that are stored at once


def schedule_qconv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Compute sums, rescaling and transposition inside of each row of some blocks of channels."""
    leaf = block_nest(schedule.fn, block).leaf.block
    data, rescaled, result = (str(leaf.annotations[role]) for role in (DATA, RESCALED, RESULT))
    _, blocks, _, columns, lanes = (nominal_extent(axis.extent) for axis in leaf.axes[:5])
    extents = 1, columns, blocks
    best = best_register_tile(target, extents, lambda t: t.depth == 1 and blocks % t.vectors == 0)
    tile = choices.tile(best, (t for t in legal_tiles(target, extents) if blocks % t.vectors == 0), extents)
    if nominal_extent(schedule.fn.buffers[result].shape[1]) >= lanes:
        row = _transpose(schedule, result, tile.vectors, columns, lanes, choices)
        schedule.compute_at(rescaled, row)  # fewer channels do not fill a vector
    place = _tile_rescaled(schedule, rescaled, tile.rows)
    schedule.compute_at(block, place)
    _schedule_sums(schedule, block, place, target, choices)
    _schedule_data(schedule, data)


def _transpose(schedule: Schedule, result: str, vectors: int, columns: int, lanes: int, choices: Choices) -> str:
    """Tile the result into rows of `vectors` blocks, in parts that few shuffles transpose.

    The result is the loop that contains a row.
    """
    length = _row_part(columns)
    copy = schedule.cache_write(result, "stack")
    n, channel, row, column = schedule.loops(copy)
    outer, inner = schedule.split(channel, factor=vectors * lanes)
    inner, lane = schedule.split(inner, factor=lanes)
    column, within = schedule.split(column, factor=length)
    schedule.reorder(n, outer, row, inner, column, lane, within)
    row = schedule.fuse(n, outer, row)
    thread_plan(choices).run(schedule, row)
    schedule.compute_at(result, column)
    *_, lane_inside, row_inside, column_inside = schedule.loops(result)[-3:]
    schedule.reorder(row_inside, lane_inside, column_inside)
    steps, lane_inside = schedule.split(lane_inside, factor=largest_divisor(lanes, max(1, _TRANSPOSED_BYTES // length)))
    schedule.vectorize(schedule.fuse(lane_inside, column_inside))
    schedule.unroll(steps)
    schedule.unroll(lane)
    schedule.vectorize(within)
    return row


def _row_part(columns: int) -> int:
    """The results of a row that are stored at once.

    A power of two if one divides the row, as stores are then whole; else a divisor; else the most,
    with a remainder.
    """
    even = columns & -columns
    if even >= _SHORTEST_ROW:
        return min(even, _LONGEST_ROW)
    best = largest_divisor(columns, _LONGEST_ROW)
    return best if best == columns or best >= _SHORTEST_ROW else _LONGEST_ROW


def _tile_rescaled(schedule: Schedule, rescaled: str, pixels: int) -> str:
    """Tile a row of rescaled results; the loop that contains a tile."""
    n, block, y, column, lane = schedule.loops(rescaled)[-5:]
    outer, inner = schedule.split(column, factor=pixels)
    schedule.reorder(n, y, outer, inner, block, lane)
    schedule.vectorize(lane)
    schedule.unroll(block)
    schedule.unroll(inner)
    return outer


def _schedule_sums(schedule: Schedule, block: str, place: str, target: Target, choices: Choices) -> None:
    """The sums of a tile: reductions outermost, steps of the dot product unrolled."""
    leaf = block_nest(schedule.fn, block).leaf.block
    data = schedule.fn.buffers[str(leaf.annotations[DATA])]
    loops = schedule.loops(block)
    n, blocks, y, x, lane, channel, *taps, group = loops[loops.index(place) + 1 :]
    outer = unroll_steps(schedule, block, reduction_order(schedule, block, channel, taps, choices), choices)
    schedule.reorder(n, y, *outer, x, blocks, lane, group)
    schedule.unroll(x)
    schedule.unroll(blocks)
    lanes, group_size = nominal_extent(leaf.axes[4].extent), nominal_extent(leaf.axes[-1].extent)
    schedule.tensorize(lane, dot_for_layout(target, lanes, group_size, data.dtype))


def _schedule_data(schedule: Schedule, data: str) -> None:
    """Unroll the groups: LLVM turns the stores of neighbours along a row into shuffles."""
    n, channel, _, column, group = schedule.loops(data)
    schedule.unroll(group)
    schedule.annotate(column, ROLLED, True)
    schedule.parallel(schedule.fuse(n, channel))
