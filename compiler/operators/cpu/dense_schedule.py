# SPDX-License-Identifier: Apache-2.0
"""The CPU schedule of dense layers with packed weights: tiles of rows by blocks of outputs.

A tile of sums stays in registers over the whole depth; the weight of its blocks is read once for
all of its rows.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.intrinsics import bitserial
from vdla.compiler.operators.bitserial_dense import Coding
from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices, thread_plan
from vdla.compiler.operators.cpu.register_tile import best_register_tile, legal_tiles
from vdla.compiler.operators.cpu.tile_sums import dot_of_sums, unroll_steps
from vdla.compiler.operators.roles import CODING, DATA, RESULT
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target
from vdla.compiler.tensorize import Intrinsic

_MOST_STREAMS = 4  # blocks read in parallel: the distances of their weights tend to alias in the cache


def schedule_qdense(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tensorise with the dot product that the weight is packed for; unroll groups of the data."""
    _schedule_tiles(schedule, block, target, dot_of_sums(schedule, block, target), choices)
    schedule.unroll(schedule.loops(block_nest(schedule.fn, block).stage(DATA))[-1])


def schedule_bitserial_dense(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tensorise with bit-serial products, and split the data into bit planes a word at a time."""
    sums = block_nest(schedule.fn, block)
    leaf, data, lanes = sums.leaf.block, sums.stage(DATA), sums.extents[2]
    data_bits = nominal_extent(schedule.fn.buffers[data].shape[2])
    coding = Coding(leaf.annotations[CODING])
    if coding is Coding.BIPOLAR:
        intrinsic = bitserial.bipolar(lanes)
    else:
        weight_bits = nominal_extent(next(axis.extent for axis in leaf.axes if axis.var == "vp"))
        intrinsic = bitserial.unipolar(lanes, weight_bits, data_bits, coding is Coding.SIGNED)
    _schedule_tiles(schedule, block, target, intrinsic, choices)
    *_, plane, _ = schedule.loops(data)
    schedule.tensorize(plane, bitserial.planes(data_bits))


def _schedule_tiles(schedule: Schedule, block: str, target: Target, intrinsic: Intrinsic, choices: Choices) -> None:
    """Tile the result and compute the sums of a tile inside, with `intrinsic`."""
    sums = block_nest(schedule.fn, block)
    rows, blocks, lanes = sums.extents[:3]
    best = best_register_tile(target, (1, rows, blocks), lambda t: t.depth == 1 and t.vectors <= _MOST_STREAMS, True)
    result = sums.stage(RESULT)
    whole = nominal_extent(schedule.fn.buffers[result].shape[1]) >= lanes  # fewer outputs do not fill a vector
    if whole:
        tile = choices.tile(best, legal_tiles(target, (1, rows, blocks)), (1, rows, blocks))
        schedule.compute_at(block, _tile_result(schedule, result, tile.rows, tile.vectors, lanes, choices))
    m, n, lane, depth, *entry = schedule.loops(block)[-len(sums.extents) :]
    steps = unroll_steps(schedule, block, [depth], target, choices)
    schedule.reorder(*steps, m, n, lane, *entry)
    for loop in (m, n) if whole else ():
        schedule.unroll(loop)
    schedule.tensorize(lane, intrinsic)


def _tile_result(schedule: Schedule, result: str, rows: int, vectors: int, lanes: int, choices: Choices) -> str:
    """Tile the result into `rows` by `vectors` vectors; the loop that contains a tile."""
    m, n = schedule.loops(result)
    row, row_inside = schedule.split(m, factor=rows)
    column, within = schedule.split(n, factor=vectors * lanes)
    vector, lane = schedule.split(within, factor=lanes)
    schedule.reorder(column, row, row_inside, vector, lane)
    thread_plan(choices).run(schedule, column)
    for loop in (row_inside, vector):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    return row
