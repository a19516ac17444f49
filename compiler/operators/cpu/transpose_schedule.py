# SPDX-License-Identifier: Apache-2.0
"""The CPU schedule of a transposition in tiles: elements are regrouped, then read in lanes.

Lanes run along the last dimensions of the result, which are not contiguous in the source.
Dimensions that move together are one loop. A tile is copied by groups of contiguous elements, next
to each other for all lanes: the lanes of all elements of the groups are one load and shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, consumers, iteration_count, loops_inside
from vdla.compiler.operators.cpu.choices import Choices, thread_plan
from vdla.compiler.operators.roles import GROUPED, RUNS
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import Target

_TILE = 64  # contiguous elements of a row of a tile


def schedule_tiled_transpose(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the only reader of the groups, and group the elements of a tile inside."""
    nest = block_nest(schedule.fn, block)
    runs, moved = nest.leaf.block.annotations[RUNS], nest.leaf.block.annotations[GROUPED]
    group = nest.extents[-1]
    reader = _reader(nest, runs)
    loops = schedule.loops(reader.name)
    single = [loop for d, loop in enumerate(loops) if not any(d in run for run in runs)]
    schedule.reorder(*single, *(loops[d] for run in runs for d in run))
    *outer, lane = (schedule.fuse(*(loops[d] for d in run)) if run[1:] else loops[run[0]] for run in runs)
    row = outer.pop(moved)
    outer = [*single, *outer]
    length = iteration_count([reader.loops[d] for d in runs[moved]])
    rows, inner = schedule.split(row, factor=min(_TILE, -(-length // group) * group))
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


def _reader(nest: BlockNest, runs: Sequence[Sequence[int]]) -> BlockNest:
    """The only reader of the groups, which must have the dimensions of the result."""
    readers = consumers(nest)
    last = max(d for run in runs for d in run)
    if len(readers) != 1 or not readers[0].is_alone or len(readers[0].loops_of("spatial")) <= last:
        names = ", ".join(reader.name for reader in readers)
        raise ScheduleError(f"tiles of {nest.name}: the reader must be one stage like the result, got {names}")
    return readers[0]
