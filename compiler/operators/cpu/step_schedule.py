# SPDX-License-Identifier: Apache-2.0
"""The CPU schedule of a product in a recurrence, of the states of a step and a matrix.

The recurrence keeps the product in its step. Tiles of rows by vectors of columns are summed in
registers over the whole depth.
"""

from __future__ import annotations

from vdla.compiler.operators.cpu.block_nest import block_nest
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.register_tile import best_register_tile, legal_tiles, ordered_loops, row_lanes
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target


def schedule_step_product(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile rows and columns, with the depth outside of a tile."""
    nest = block_nest(schedule.fn, block)
    rows, columns, _ = nest.extents[-3:]
    lanes = row_lanes(columns, target, nest.element_bytes)
    extents = 1, rows, -(-columns // lanes)
    tile = choices.tile(best_register_tile(target, extents), legal_tiles(target, extents), extents)
    *_, row, column, depth = schedule.loops(block)
    row_outer, row_inner = schedule.split(row, factor=tile.rows)
    panel, inner = schedule.split(column, factor=tile.vectors * lanes)
    vector, lane = schedule.split(inner, factor=lanes)
    schedule.reorder(panel, row_outer, depth, *ordered_loops(target, tile, [row_inner], vector), lane)
    schedule.unroll(row_inner)
    schedule.unroll(vector)
    schedule.vectorize(lane)
