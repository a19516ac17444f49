"""The CPU schedule of a depthwise convolution: lanes along the rows of the image, several rows summed at once.

The padded image is made a channel at a time, just before it is read; rows that two results share are loaded once. With
masks there need not be one: each tap masks the edges of the image.
"""

from __future__ import annotations

from vdla.compiler.analysis.access import stores
from vdla.compiler.operators.cpu.fusion import cost
from vdla.compiler.operators.cpu.nest import nest_named, size_of
from vdla.compiler.operators.cpu.producers_consumers import padding_of, reader_of
from vdla.compiler.operators.cpu.tile import even_part, lanes_along
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

MOST_TAPS = 49  # of a window whose taps are written out: rows that results share are loaded once
FEW_TAPS = 9  # of a window whose masks may be those of several vectors a row, each with code of its own
PHASED_RANK = 5  # of a padded image with its columns in phases of the stride
SUMS = 4  # of so many registers, one is a sum


def schedule_depthwise_conv2d(schedule: Schedule, block: str, target: Target) -> None:
    """Tile the stage that reads the sums, and compute the padding and the sums inside of its tiles."""
    nest = nest_named(schedule.fn, block)
    rows, columns, *taps = (size_of(axis.extent) for axis in nest.leaf.block.axes[2:])
    lanes = lanes_along(columns, target, nest.element_bytes)
    most = target.vector_registers // SUMS
    depth = even_part(rows, most if columns <= lanes else max(1, most // 2))
    reader, padding = reader_of(schedule, block, (4,)), padding_of(schedule, block)
    whole = columns == lanes or (columns % lanes == 0 and taps[0] * taps[1] <= FEW_TAPS)
    if padding is not None and whole and lanes > 1 and is_copy(schedule, padding) and target.has("avx512vl"):
        schedule.inline(padding)  # loads from rows just stored would wait until these are in the cache
        padding = None
    n, channel, row, column = schedule.loops(reader)
    row_outer, row_inner = schedule.split(row, factor=depth)
    column_outer, column_inner = schedule.split(column, factor=lanes)
    schedule.reorder(n, channel, row_outer, column_outer, row_inner, column_inner)
    image = schedule.fuse(n, channel)
    schedule.compute_at(block, column_outer)
    loops = schedule.loops(block)
    n, channel, row, column, *reduce = loops[loops.index(column_outer) + 1 :]
    schedule.reorder(n, channel, *reduce, row, column)
    for loop in (row, row_inner, *(reduce if taps[0] * taps[1] <= MOST_TAPS else ())):
        schedule.unroll(loop)
    for loop in (column, column_inner):
        schedule.vectorize(loop)
    if padding is not None:
        schedule.compute_at(padding, image)
        *_, phase, column = schedule.loops(padding)
        if len(nest_named(schedule.fn, padding).leaf.block.axes) == PHASED_RANK:
            schedule.reorder(column, phase)  # so that the edges of a row are cut off for all phases at once
            schedule.unroll(phase)
        schedule.vectorize(column)
    schedule.parallel(image)


def is_copy(schedule: Schedule, padding: str) -> bool:
    """Whether a padded image only copies the image, with its columns in order."""
    block = nest_named(schedule.fn, padding).leaf.block
    return len(block.axes) < PHASED_RANK and all(cost(store.value) == 0 for store in stores(block))
