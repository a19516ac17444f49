# SPDX-License-Identifier: Apache-2.0
"""The CPU schedule of a matrix product: tiles of rows by vectors over packed panels of columns.

A panel is the columns of a tile over the whole depth K. Packed, it is contiguous in the
second-level cache; packing pays if enough rows read the panel.
"""

from __future__ import annotations

from math import prod

from vdla.compiler.analysis import loads
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, consumer_of, loops_inside
from vdla.compiler.operators.cpu.choices import INNER, OUTER, Choices, thread_plan
from vdla.compiler.operators.cpu.register_tile import (
    RegisterTile,
    best_register_tile,
    legal_tiles,
    ordered_loops,
    row_lanes,
)
from vdla.compiler.operators.cpu.stage_schedule import PARALLEL_ITERATIONS
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_ALIASING_BYTES = 4096  # rows at this distance map to one set of the first-level cache
_WAYS = 8  # of the first-level cache
_PANEL_BYTES = 1 << 19  # half of a second-level cache
_REUSES = 4  # tiles of rows for which packing pays
_UNROLLED_STEPS = 4  # along K
_UNROLLED_CHOICES = (1, 2, 4, 8)
_PARALLEL_PANELS = 8  # the fewest panels to run in parallel


def schedule_matmul(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of the sums, and compute the sums of a tile inside."""
    nest = block_nest(schedule.fn, block)
    *batch, rows, columns, depth = nest.extents
    lanes = row_lanes(columns, target, nest.element_bytes)
    best = _tile(target, nest, (rows, columns, depth), lanes)
    extents = 1, rows, -(-columns // lanes)
    tile = choices.tile(best, legal_tiles(target, extents), extents)
    panel = _panel_operand(nest)
    pays = panel is not None and rows >= _REUSES * best.rows and columns > best.vectors * lanes
    is_packed = choices.value("packed_panels", pays, (pays,) if panel is None else (False, True))
    consumer = consumer_of(schedule, block, (2 + len(batch),))
    apart = prod(batch) > 1 and columns % (tile.vectors * lanes) > 0
    place, panels, outermost = _tile_consumer(schedule, consumer, tile, lanes, len(batch), apart)
    schedule.compute_at(block, place)
    _schedule_sums(schedule, block, place, lanes, tile, target, choices)
    if panel is not None and is_packed:
        _pack_panel(schedule, block, panel, panels, lanes)
    across = -(-columns // (tile.vectors * lanes)) * prod(batch)
    loops = (OUTER, INNER) if across >= _PARALLEL_PANELS else (INNER, OUTER)
    plan = thread_plan(choices, *loops, pays=rows * columns * depth >= PARALLEL_ITERATIONS)
    plan.run(schedule, outermost if plan.loops == OUTER else place)


def _tile(target: Target, nest: BlockNest, extents: tuple[int, int, int], lanes: int) -> RegisterTile:
    """The register tile: few rows or packed columns that alias in the cache, and a small panel."""
    rows, columns, depth = extents
    row_bytes = depth * nest.element_bytes
    most_rows = _WAYS if row_bytes % _ALIASING_BYTES == 0 else rows
    most_vectors = max(1, _PANEL_BYTES // (row_bytes * lanes))
    if _has_packed_columns(nest) and row_bytes * lanes % _ALIASING_BYTES == 0:
        most_vectors = min(most_vectors, _WAYS)
    vectors = -(-columns // lanes)
    return best_register_tile(target, (1, rows, vectors), lambda t: t.rows <= most_rows and t.vectors <= most_vectors)


def _has_packed_columns(nest: BlockNest) -> bool:
    """Whether an operand has its columns in blocks of lanes, each over the whole depth."""
    return None in nest.read_strides(nest.leaf.loops[-2].var)


def _tile_consumer(
    schedule: Schedule, consumer: str, tile: RegisterTile, lanes: int, batch: int, apart: bool
) -> tuple[str, str, str]:
    """Tile the consumer; the loops that contain a tile and a panel, and the outermost one.

    The last is over all panels, or over matrices if these are `apart`: the condition of a panel
    that is not full, in a loop over all, could not be moved out of the tile.
    """
    loops = schedule.loops(consumer)
    outer, row, column = loops[:batch], loops[batch], loops[batch + 1]
    row_outer, row_inner = schedule.split(row, factor=tile.rows)
    panel, inner = schedule.split(column, factor=tile.vectors * lanes)
    vector, lane = schedule.split(inner, factor=lanes)
    schedule.reorder(*outer, panel, row_outer, row_inner, vector, lane)
    schedule.unroll(row_inner)
    schedule.unroll(vector)
    schedule.vectorize(lane)
    if apart:
        return row_outer, panel, schedule.fuse(*outer) if len(outer) > 1 else outer[0]
    panels = schedule.fuse(*outer, panel) if outer else panel
    return row_outer, panels, panels


def _schedule_sums(
    schedule: Schedule, block: str, place: str, lanes: int, tile: RegisterTile, target: Target, choices: Choices
) -> None:
    """The loops of a tile: K outermost, rows and vectors unrolled, lanes innermost."""
    *batch, row, column, k = loops_inside(schedule, block, place)
    vector, lane = schedule.split(column, factor=lanes)
    outer, inner = schedule.split(k, factor=choices.value("unrolled_steps", _UNROLLED_STEPS, _UNROLLED_CHOICES))
    schedule.reorder(*batch, outer, inner, *ordered_loops(target, tile, [row], vector), lane)
    for loop in (inner, row, vector):
        schedule.unroll(loop)
    schedule.vectorize(lane)


def _panel_operand(nest: BlockNest) -> str | None:
    """The operand that is contiguous along columns and independent of the row, if any."""
    column = nest.leaf.loops[-2].var
    streams = [load.buffer for load in loads(nest.leaf.block) if nest.stride(load, column) == 1]
    row_operands = {
        load.buffer for load in loads(nest.leaf.block) if nest.stride(load, nest.leaf.loops[-3].var) not in (0, None)
    }
    return next((name for name in streams if name not in row_operands), None)


def _pack_panel(schedule: Schedule, block: str, operand: str, panels: str, lanes: int) -> None:
    """Copy the columns of a panel into contiguous memory before the rows read them."""
    copy = schedule.cache_read(block, operand, "heap")
    schedule.compute_at(copy, panels)
    _, lane = schedule.split(schedule.loops(copy)[-1], factor=lanes)
    schedule.vectorize(lane)
