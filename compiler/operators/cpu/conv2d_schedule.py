# SPDX-License-Identifier: Apache-2.0
"""The CPU schedules of convolutions: register tiles of pixels by blocks of output channels.

The consumer of the sums is tiled and the sums of a tile are computed inside, so that they stay in
registers until the element-wise operators after the convolution have read them. Sums of 8-bit
integers use the dot products of the target, or their definition on a CPU without them.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm import ROLLED
from vdla.compiler.operators.cpu.block_nest import block_nest, block_nests, consumer_of, nominal_extent
from vdla.compiler.operators.cpu.choices import INNER, MIDDLE, OUTER, Choices, thread_plan
from vdla.compiler.operators.cpu.register_tile import RegisterTile, best_register_tile, largest_divisor, legal_tiles
from vdla.compiler.operators.cpu.stage_schedule import FEWEST_LANES, attempt
from vdla.compiler.operators.cpu.tile_sums import dot_of_sums, order_sums, prefetch_weights
from vdla.compiler.operators.roles import DATA, GROUP, RESCALED, RESULT
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import Target

_PLAIN_LOOPS = 4  # of a result in NCHW
_TRANSPOSED_COLUMNS = 4  # results transposed by few shuffles from as many vectors
_TRANSPOSED_CHOICES = (2, 4, 8)
_TRANSPOSED_BYTES = 64  # transposed at once from lanes of channels into rows
_SHORTEST_ROW, _LONGEST_ROW = 4, 16  # results of one channel stored at once
_MOST_CHANNELS = 8  # of a tile of a transposed convolution
_CHANNELS, _ROWS, _PIXELS = "channels", "rows", "pixels"  # the outermost loop over tiles
_FUSED = {OUTER: 1, MIDDLE: 2, INNER: 3}  # tile loops fused to one parallel loop


def schedule_conv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of sums of floats, or of 8-bit integers into blocks; sum a tile inside."""
    sums = block_nest(schedule.fn, block)
    annotations = sums.leaf.block.annotations
    blocks, rows, columns, lanes = sums.extents[1:5]
    group, is_quantised = int(annotations.get(GROUP, 0)), DATA in annotations
    extents = rows, columns, -(-group // lanes) if group else blocks
    consumer = consumer_of(schedule, block, (5,) if is_quantised else (4, 5))
    is_plain = len(schedule.loops(consumer)) == _PLAIN_LOOPS
    best = best_register_tile(target, extents, lambda t: not is_plain or _transposes(target, t, columns), is_quantised)
    tile = choices.tile(best, legal_tiles(target, extents), extents)
    place = _tile_consumer(schedule, consumer, tile, lanes, group, choices)
    schedule.compute_at(block, place)
    vectors, lane, steps = order_sums(schedule, block, place, tile, target, choices)
    prefetch_weights(schedule, block, vectors, lane, steps, target, choices)
    if not is_quantised:
        schedule.vectorize(lane)
        return
    schedule.tensorize(lane, dot_of_sums(schedule, block, target))
    data = sums.stage(DATA)
    if any(nest.name == data for nest in block_nests(schedule.fn)):
        _schedule_data(schedule, data, sums.extents[-1], 3)


def _tile_consumer(
    schedule: Schedule, consumer: str, tile: RegisterTile, lanes: int, group: int, choices: Choices
) -> str:
    """Tile the consumer, with no tile across two groups; the loop that contains a tile."""
    n, channel, row, column, *lane = schedule.loops(consumer)
    if group:
        groups, channel = schedule.split(channel, factor=-(-group // lanes) if lane else group)
        n = schedule.fuse(n, groups)
    outer, inner = schedule.split(channel, factor=tile.vectors if lane else tile.vectors * lanes)
    columns = tile.rows // tile.depth
    column_outer, column_inner = schedule.split(column, factor=columns)
    row_outer, row_inner = schedule.split(row, factor=tile.depth)
    order = choices.value("order", _CHANNELS, (_CHANNELS, _ROWS, _PIXELS))
    tiles = {
        _CHANNELS: (outer, row_outer, column_outer),
        _ROWS: (row_outer, outer, column_outer),
        _PIXELS: (row_outer, column_outer, outer),
    }[order]
    schedule.reorder(n, *tiles, inner, row_inner, column_inner, *lane)
    for loop in (inner, row_inner):
        schedule.unroll(loop)
    if lane:
        schedule.unroll(column_inner)
        schedule.vectorize(*lane)
    else:
        most = choices.value("transposed_columns", _TRANSPOSED_COLUMNS, _TRANSPOSED_CHOICES)
        _transpose_channels(schedule, inner, row_inner, column_inner, columns if columns % most else most)
    plan = thread_plan(choices, MIDDLE, OUTER, INNER)
    fused = _FUSED[plan.loops]
    threads, tile_loop = plan.in_parts(schedule, schedule.fuse(n, *tiles[:fused]))
    if plan.is_parallel:  # padding of a block looks like an access to the next group
        attempt(schedule, lambda: schedule.parallel(threads))
    return tiles[2] if fused < len(tiles) else tile_loop


def _transposes(target: Target, tile: RegisterTile, columns: int) -> bool:
    """Whether few shuffles transpose the sums of a tile into rows.

    LLVM keeps sums that are read as one vector of another length than a power of two as scalars,
    except on x86.
    """
    in_row = tile.rows // tile.depth
    return target.architecture == "x86_64" or in_row % min(columns, _TRANSPOSED_COLUMNS) == 0


def _transpose_channels(schedule: Schedule, channel: str, row: str, column: str, columns: int) -> None:
    """Store some columns of a channel at a time: lanes of channels become columns."""
    part, lane = schedule.split(column, factor=columns)
    schedule.reorder(row, part, channel, lane)
    schedule.unroll(part)
    schedule.vectorize(lane)


def _schedule_data(schedule: Schedule, data: str, group: int, outer: int) -> None:
    """Pad blocks in parallel along the `outer` loops; of a plain image, groups of a dot product.

    LLVM turns groups of neighbours along a row into shuffles.
    """
    *loops, column, lane = schedule.loops(data)
    if nominal_extent(schedule.fn.buffers[data].shape[4]) == group:
        schedule.unroll(lane)
        schedule.annotate(column, ROLLED, True)
    else:
        schedule.vectorize(lane)
    schedule.parallel(schedule.fuse(*loops[:outer]))


# --- rows of quantised results --------------------------------------------------------------------


def schedule_qconv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Compute sums, rescaling and transposition inside of each row of some blocks of channels.

    A row of results is rescaled with channels innermost, then transposed.
    """
    sums = block_nest(schedule.fn, block)
    data, rescaled, result = map(sums.stage, (DATA, RESCALED, RESULT))
    _, blocks, _, columns, lanes = sums.extents[:5]
    extents = 1, columns, blocks
    best = best_register_tile(target, extents, lambda t: t.depth == 1 and blocks % t.vectors == 0, True)
    tile = choices.tile(best, (t for t in legal_tiles(target, extents) if blocks % t.vectors == 0), extents)
    if nominal_extent(schedule.fn.buffers[result].shape[1]) >= lanes:
        row = _transpose(schedule, result, tile.vectors, columns, lanes, choices)
        schedule.compute_at(rescaled, row)  # fewer channels do not fill a vector
    place = _tile_rescaled(schedule, rescaled, tile.rows)
    schedule.compute_at(block, place)
    _, lane, _ = order_sums(schedule, block, place, tile, target, choices)
    schedule.tensorize(lane, dot_of_sums(schedule, block, target))
    _schedule_data(schedule, data, sums.extents[-1], 2)


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
    """The number of results of a row to store at once.

    A power of two if one divides the row, for full-width stores; else a divisor; else the maximum,
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


# --- transposed convolutions ----------------------------------------------------------------------


def schedule_conv_transpose(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the results into channels by a vector, and store a tile once its sums are complete.

    Each phase of the stride is a convolution: the weight is the same in all lanes, and an input
    vector is loaded once for all channels of a tile.
    """
    nest = block_nest(schedule.fn, block)
    lanes, steps = target.lanes(nest.element_bytes), nominal_extent(nest.loops_of("spatial")[-1].extent)
    if steps < FEWEST_LANES:
        raise ScheduleError(f"lanes of {block}: the steps must be at least {FEWEST_LANES}, got {steps}")
    copy = schedule.cache_write(block, "stack")
    n, channel, *outer, phase, step = schedule.loops(copy)
    outputs = nominal_extent(nest.loops[1].extent)
    legal = (n for n in range(1, min(outputs, target.vector_registers // 2) + 1) if outputs % n == 0)
    channels = choices.value("tile_channels", largest_divisor(outputs, _MOST_CHANNELS), legal)
    channel_outer, channel_inner = schedule.split(channel, factor=channels)
    step_outer, lane = schedule.split(step, factor=min(lanes, steps))
    schedule.reorder(n, channel_outer, *outer, phase, step_outer, channel_inner, lane)
    schedule.unroll(channel_inner)
    schedule.vectorize(lane)
    schedule.compute_at(block, step_outer)
    nest = block_nest(schedule.fn, block)
    spatial, terms = ([loop.var for loop in nest.loops_of(role)] for role in ("spatial", "reduce"))
    _, channel, *pixels, lane = spatial
    schedule.reorder(*pixels, *terms, channel, lane)
    schedule.unroll(channel)
    schedule.vectorize(lane)
    thread_plan(choices).run(schedule, schedule.fuse(n, channel_outer))
