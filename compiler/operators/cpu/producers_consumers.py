"""The stages around the sums: the producer of the padded image, the consumer of the results."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis import Indices, loads, read_buffers, written_buffers
from vdla.compiler.arith import var_names
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, block_nests
from vdla.compiler.schedule import Schedule

_BLOCKED_RANK = 5  # of sums [N, C / lanes, H, W, lanes]


def consumer_of(schedule: Schedule, block: str, ranks: tuple[int, ...], scope: str = "stack") -> str:
    """The only consumer of a block if it reads in place with a rank in `ranks`, else a copy from a
    buffer in `scope`."""
    (buffer,) = written_buffers(block_nest(schedule.fn, block).leaf.block)
    consumers = [
        nest for nest in block_nests(schedule.fn) if buffer in read_buffers(nest.leaf.block) and nest.leaf.name != block
    ]
    if len(consumers) == 1 and _reads_in_place(consumers[0], buffer, ranks):
        return consumers[0].leaf.name
    return schedule.cache_write(block, scope)


def _reads_in_place(consumer: BlockNest, buffer: str, ranks: tuple[int, ...]) -> bool:
    """Whether a stage without reduction, of a rank in `ranks`, reads a buffer in place."""
    axes = consumer.leaf.block.axes
    plain = consumer.is_alone and len(axes) in ranks and all(axis.kind is ir.AxisKind.SPATIAL for axis in axes)
    reads = [load.indices for load in loads(consumer.leaf.block) if load.buffer == buffer]
    return plain and all(_is_in_place(indices, axes) for indices in reads)


def _is_in_place(indices: Indices, axes: tuple[ir.Axis, ...]) -> bool:
    """Whether each index is the axis of its dimension; channels may be in blocks and lanes."""
    if len(indices) == _BLOCKED_RANK and len(axes) < _BLOCKED_RANK:
        channel = axes[1].var
        if any(var_names(index) - {channel} for index in (indices[1], indices[4])):
            return False
        indices = (indices[0], ir.Var(channel), *indices[2:4])
    return all(axis.extent == 1 or index == ir.Var(axis.var) for index, axis in zip(indices, axes, strict=True))


def padding_producer(schedule: Schedule, block: str) -> str | None:
    """The producer of the padded image, if `block` is its only consumer."""
    read = read_buffers(block_nest(schedule.fn, block).leaf.block)
    producers = [
        nest for nest in block_nests(schedule.fn) if written_buffers(nest.leaf.block) & read and nest.leaf.name != block
    ]
    if len(producers) != 1 or not producers[0].is_alone or _consumer_count(schedule, producers[0]) > 1:
        return None
    return producers[0].leaf.name


def _consumer_count(schedule: Schedule, producer: BlockNest) -> int:
    """The number of stages that read the results of a stage."""
    results = written_buffers(producer.leaf.block)
    return sum(bool(results & read_buffers(nest.leaf.block)) for nest in block_nests(schedule.fn))
