"""The stages around the sums of an operator: the one that makes its padded image, the one that takes its results."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.access import Indices, loads, read_buffers, written
from vdla.compiler.arith import var_names
from vdla.compiler.operators.conv2d import BLOCKED_RANK
from vdla.compiler.operators.cpu.nest import Nest, nest_named, nests
from vdla.compiler.schedule import Schedule


def reader_of(schedule: Schedule, block: str, ranks: tuple[int, ...]) -> str:
    """The one stage of as many dimensions as one of `ranks` that takes each result in its place; else a copy of
    them."""
    (buffer,) = written(nest_named(schedule.fn, block).leaf.block)
    readers = [
        nest for nest in nests(schedule.fn) if buffer in read_buffers(nest.leaf.block) and nest.leaf.name != block
    ]
    if len(readers) == 1 and takes_each(readers[0], buffer, ranks):
        return readers[0].leaf.name
    return schedule.cache_write(block, "stack")


def takes_each(reader: Nest, buffer: str, ranks: tuple[int, ...]) -> bool:
    """Whether a stage has loops of its own over so many dimensions, combines nothing, and reads results in place."""
    axes = reader.leaf.block.axes
    plain = reader.alone and len(axes) in ranks and all(axis.kind is ir.AxisKind.SPATIAL for axis in axes)
    taken = [load.indices for load in loads(reader.leaf.block) if load.buffer == buffer]
    return plain and all(in_place(indices, axes) for indices in taken)


def in_place(indices: Indices, axes: tuple[ir.Axis, ...]) -> bool:
    """Whether each index is the axis of its dimension; that of the channels may be cut into blocks and lanes."""
    if len(indices) == BLOCKED_RANK and len(axes) < BLOCKED_RANK:
        channel = axes[1].var
        if any(var_names(index) - {channel} for index in (indices[1], indices[4])):
            return False
        indices = (indices[0], ir.Var(channel), *indices[2:4])
    return all(axis.extent == 1 or index == ir.Var(axis.var) for index, axis in zip(indices, axes, strict=True))


def padding_of(schedule: Schedule, block: str) -> str | None:
    """The stage that makes the padded image, which only `block` reads."""
    read = read_buffers(nest_named(schedule.fn, block).leaf.block)
    makers = [nest for nest in nests(schedule.fn) if written(nest.leaf.block) & read and nest.leaf.name != block]
    if len(makers) != 1 or not makers[0].alone or is_read_twice(schedule, makers[0]):
        return None
    return makers[0].leaf.name


def is_read_twice(schedule: Schedule, maker: Nest) -> bool:
    """Whether more than one stage reads what a stage makes."""
    made = written(maker.leaf.block)
    return sum(bool(made & read_buffers(nest.leaf.block)) for nest in nests(schedule.fn)) > 1
