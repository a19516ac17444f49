"""The primitive that inlines an element-wise consumer into its producer."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import Indices, LeafBlock, leaf_at, leaves, read_indices, readers_of, writers_of
from vdla.compiler.analysis.dataflow import check_flow
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.tree import block_path, remove_at, replace_at
from vdla.compiler.ir import index_text
from vdla.compiler.schedule.place import movable_leaf, single_store


def reverse_inline(fn: ir.Function, block: str) -> ir.Function:
    """Let the producer of an element-wise block compute that block's value, and drop the block.

    block b(vi=i):
        b[vi] = a[vi] + 1        ->  block b(vi=i):
    block c(vi=i):                       c[vi] = (a[vi] + 1) * 2
        c[vi] = b[vi] * 2

    The block must be the operand's only reader and read it at its own axes, in any order.
    """
    where = f"reverse_inline of {block}"
    consumer = movable_leaf(fn, block, where)
    if consumer.block.init is not None or consumer.values_of(ir.AxisKind.REDUCE):
        raise ScheduleError(f"{where}: the block must not reduce, got a reduction")
    producer, indices = _only_producer(fn, consumer, where)
    _check_producer(fn, producer, consumer, where)
    gone = single_store(producer, where).buffer
    without = remove_at(fn, consumer.path)
    path = block_path(without, producer.name, where)
    merged = _merged_block(leaf_at(path), consumer, indices, where)
    result = replace_at(without, path, merged)
    result = replace(result, buffers={name: buffer for name, buffer in fn.buffers.items() if name != gone})
    check_flow(result, producer.name, where)
    return result


def _only_producer(fn: ir.Function, consumer: LeafBlock, where: str) -> tuple[LeafBlock, Indices]:
    """The producer of the consumer's operand, and the indices of the consumer's read."""
    axes = {axis.var for axis in consumer.block.axes}
    found: list[str] = []
    for buffer, domain in fn.buffers.items():
        accesses, order = read_indices(consumer.block, buffer), leaves(fn)
        for writer in writers_of(order, buffer):
            same = len(accesses) == 1 and len(accesses[0]) == len(axes)
            if same and {i.name for i in accesses[0] if isinstance(i, ir.Var)} == axes:
                extents = tuple(consumer.axis_of(i.name).extent for i in accesses[0] if isinstance(i, ir.Var))
                if extents == domain.shape and [r.name for r in readers_of(order, buffer)] == [consumer.name]:
                    return writer, accesses[0]
            found += [f"{buffer}[{index_text(indices)}]" for indices in accesses]
    rule = "one computed buffer must be read by this block alone, all of it, at its own axes"
    raise ScheduleError(f"{where}: {rule}, got {', '.join(found) or 'none'}")


def _check_producer(fn: ir.Function, producer: LeafBlock, consumer: LeafBlock, where: str) -> None:
    """Refuse a producer that reduces, computes an output, or reads its own results."""
    movable_leaf(fn, producer.name, where)
    if producer.block.init is not None or producer.values_of(ir.AxisKind.REDUCE):
        rule = f"the producer {producer.name} must not reduce"
        raise ScheduleError(f"{where}: {rule}, got a reduction; reverse_compute_at moves {consumer.name} behind it")
    buffer = single_store(producer, where).buffer
    if buffer in fn.params:
        raise ScheduleError(f"{where}: the producer must not compute an output, got {buffer}")
    if read_indices(producer.block, buffer):
        raise ScheduleError(f"{where}: the producer {producer.name} must not read its own results, got a recurrence")


def _merged_block(producer: LeafBlock, consumer: LeafBlock, indices: Indices, where: str) -> ir.Block:
    """The producer with the consumer's value and buffer, its axes in the order of that buffer."""
    old, store = single_store(producer, where), single_store(consumer, where)
    places = {axis.name: here for axis, here in zip(indices, old.indices, strict=True) if isinstance(axis, ir.Var)}

    def merged(expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Load) and expr.buffer == old.buffer:
            return old.value
        if isinstance(expr, ir.Var):
            return places.get(expr.name, expr)  # a symbol stays
        return ir.with_operands(expr, tuple(merged(operand) for operand in ir.operands(expr)))

    target = tuple(merged(index) for index in store.indices)
    values = dict(zip((axis.var for axis in producer.block.axes), producer.block.values, strict=True))
    names = [index.name for index in target if isinstance(index, ir.Var)]
    axes = tuple(producer.axis_of(name) for name in names)
    bound = tuple(values[name] for name in names)
    body = ir.Store(store.buffer, target, merged(store.value))
    notes = {**consumer.block.annotations, **producer.block.annotations}
    return replace(producer.block, axes=axes, values=bound, body=body, annotations=notes)
