# SPDX-License-Identifier: Apache-2.0
"""The CPU schedule of a transposition in tiles: elements are regrouped, then read in lanes.

Lanes run along a dimension of the result that is not contiguous in the source. A tile is copied by
groups of GROUP contiguous elements, next to each other for all lanes; lanes at this distance are
one load and a shuffle.
"""

from __future__ import annotations

from vdla.compiler.operators.cpu.block_nest import block_nest, consumers, loops_inside, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices, thread_plan
from vdla.compiler.operators.roles import GROUPED
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_TILE = 128  # contiguous elements of a row of a tile


def schedule_tiled_transpose(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the only reader of the groups, and group the elements of a tile inside."""
    nest = block_nest(schedule.fn, block)
    dimension, group = nest.leaf.block.annotations[GROUPED], nest.extents[-1]
    (reader,) = consumers(nest)
    *outer, lane = schedule.loops(reader.name)
    row = outer.pop(dimension)
    tile = min(_TILE, -(-nominal_extent(reader.loops[dimension].extent) // group) * group)
    rows, inner = schedule.split(row, factor=tile)
    groups, element = schedule.split(inner, factor=group)
    lanes, lane = schedule.split(lane, factor=target.lanes(nest.element_bytes))
    schedule.reorder(*outer, rows, lanes, groups, element, lane)
    schedule.unroll(element)
    schedule.vectorize(lane)
    schedule.compute_at(block, lanes)
    *_, groups, column, element = loops_inside(schedule, block, lanes)
    schedule.reorder(column, groups, element)
    schedule.vectorize(element)
    thread_plan(choices).run(schedule, schedule.fuse(*outer, rows) if outer else rows)
