"""The CPU schedule of dense layers whose weights are packed for an intrinsic: rows of data by blocks of outputs.

A tile of sums stays in registers while the whole depth is summed; the weights of its blocks are read once for all of
its rows.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.intrinsics import bitserial
from vdla.compiler.codegen.llvm.intrinsics.dot import dot_for_layout
from vdla.compiler.operators.bitserial_dense import Coding
from vdla.compiler.operators.cpu.nest import nest_named, size_of
from vdla.compiler.operators.cpu.tile import register_tile
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target
from vdla.compiler.tensorize import Intrinsic

MOST_STREAMS = 4  # blocks whose weights are read side by side: their distances tend to be multiples of a cache way


def schedule_qdense(schedule: Schedule, block: str, target: Target) -> None:
    """Steps of the dot product that the weights are packed for; the groups written out."""
    data = stage_of(schedule, block, "data")
    leaf = nest_named(schedule.fn, block).leaf.block
    lanes, group = size_of(leaf.axes[2].extent), size_of(leaf.axes[-1].extent)
    schedule_rows(schedule, block, target, dot_for_layout(target, lanes, group, schedule.fn.buffers[data].dtype))
    schedule.unroll(schedule.loops(data)[-1])


def schedule_bitserial_dense(schedule: Schedule, block: str, target: Target) -> None:
    """Steps of bit-serial products, of data taken apart into planes a word at a time."""
    data = stage_of(schedule, block, "data")
    leaf = nest_named(schedule.fn, block).leaf.block
    lanes, data_bits = size_of(leaf.axes[2].extent), size_of(schedule.fn.buffers[data].shape[2])
    coding = Coding(leaf.annotations["coding"])
    if coding is Coding.BIPOLAR:
        intrinsic = bitserial.bipolar(lanes)
    else:
        weight_bits = size_of(next(axis.extent for axis in leaf.axes if axis.var == "vp"))
        intrinsic = bitserial.unipolar(lanes, weight_bits, data_bits, coding is Coding.SIGNED)
    schedule_rows(schedule, block, target, intrinsic)
    *_, plane, _ = schedule.loops(data)
    schedule.tensorize(plane, bitserial.planes(data_bits))


def stage_of(schedule: Schedule, block: str, stage: str) -> str:
    """The name of a stage around the sums."""
    return str(nest_named(schedule.fn, block).leaf.block.annotations[stage])


def schedule_rows(schedule: Schedule, block: str, target: Target, intrinsic: Intrinsic) -> None:
    """Tile the result and compute the sums of a tile inside; steps of `intrinsic` written out."""
    leaf = nest_named(schedule.fn, block).leaf.block
    rows, blocks, lanes = (size_of(axis.extent) for axis in leaf.axes[:3])
    tile = register_tile(target, (1, rows, blocks), lambda t: t.depth == 1 and t.vectors <= MOST_STREAMS)
    result = stage_of(schedule, block, "result")
    whole = size_of(schedule.fn.buffers[result].shape[1]) >= lanes  # of fewer outputs a tile would be no whole vector
    if whole:
        schedule.compute_at(block, tiled_result(schedule, result, tile.rows, tile.vectors, lanes))
    m, n, lane, depth, *entry = schedule.loops(block)[-len(leaf.axes) :]
    schedule.reorder(depth, m, n, lane, *entry)
    for loop in (m, n) if whole else ():
        schedule.unroll(loop)
    schedule.tensorize(lane, intrinsic)


def tiled_result(schedule: Schedule, result: str, rows: int, vectors: int, lanes: int) -> str:
    """Cut the result into tiles of `rows` by `vectors` vectors; the loop in which a tile is."""
    m, n = schedule.loops(result)
    row, row_inside = schedule.split(m, factor=rows)
    column, within = schedule.split(n, factor=vectors * lanes)
    vector, lane = schedule.split(within, factor=lanes)
    schedule.reorder(column, row, row_inside, vector, lane)
    schedule.parallel(column)
    for loop in (row_inside, vector):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    return row
