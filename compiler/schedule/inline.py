# SPDX-License-Identifier: Apache-2.0
"""The primitive that inlines a block into its readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import (
    Indices,
    LeafBlock,
    init_stores,
    leaf_at,
    leaves,
    read_indices,
    readers_of,
    readers_of_any,
    stores,
    writers_of,
    written_buffers,
)
from vdla.compiler.analysis.dataflow import check_flow
from vdla.compiler.analysis.tree import ScheduleError, block_at, block_path, remove_at, replace_at, rewrite_blocks
from vdla.compiler.ir import index_text, size_violation
from vdla.compiler.schedule.place import movable_leaf, single_store

Change = Callable[[ir.Expr], ir.Expr]


def inline(fn: ir.Function, block: str) -> ir.Function:
    """Replace each read of a block's buffer by the block's value, and drop block and buffer.

    block b(vi=i):
        b[vi] = a[vi] + 1        ->  block c(vi=i):
    block c(vi=i):                       c[vi] = (a[vi] + 1) * 2
        c[vi] = b[vi] * 2
    """
    where = f"inline of {block}"
    leaf = movable_leaf(fn, block, where)
    _check_inlinable(fn, leaf, where)
    buffers = written_buffers(leaf.block)
    readers = {reader.name for reader in readers_of_any(leaves(fn), buffers)}
    if not readers:
        raise ScheduleError(f"{where}: the block must have a reader, got none")
    without = remove_at(fn, leaf.path)

    def change(reader: ir.Block) -> ir.Block:
        return _with_value(reader, leaf) if reader.name in readers else reader

    body = rewrite_blocks(without.body, change)
    rest = {name: buffer for name, buffer in fn.buffers.items() if name not in buffers}
    result = replace(without, body=body, buffers=rest)
    for reader in sorted(readers):
        _check_size(result, reader, where)
        check_flow(result, reader, where)
    return result


def _check_size(fn: ir.Function, reader: str, where: str) -> None:
    """Refuse a reader whose expression becomes too large."""
    block = block_at(block_path(fn, reader, where))
    all_stores = [*stores(block), *init_stores(block)]
    for broken in filter(
        None, (size_violation(expr) for store in all_stores for expr in (store.value, *store.indices))
    ):
        raise ScheduleError(f"{where}: the value of {reader} {broken}")


def _check_inlinable(fn: ir.Function, leaf: LeafBlock, where: str) -> None:
    """Refuse a reduction, a recurrence or an output."""
    if leaf.block.init is not None or leaf.values_of(ir.AxisKind.REDUCE):
        raise ScheduleError(f"{where}: the block must not reduce, got a reduction")
    for buffer in sorted(written_buffers(leaf.block)):
        if read_indices(leaf.block, buffer):
            raise ScheduleError(f"{where}: the block must not read what it computes, got a read of {buffer}")
        if buffer in fn.params:
            raise ScheduleError(f"{where}: the block must not compute an output, got {buffer}")


def _with_value(reader: ir.Block, leaf: LeafBlock) -> ir.Block:
    """A reader with the values of `leaf` substituted for its loads."""
    values = {store.buffer: store.value for store in stores(leaf.block)}
    axes = [index.name for index in stores(leaf.block)[0].indices if isinstance(index, ir.Var)]

    def inlined(part: ir.Expr) -> ir.Expr:
        if isinstance(part, ir.Load) and part.buffer in values:
            return ir.substitute(values[part.buffer], dict(zip(axes, part.indices, strict=True)))
        return part

    return with_values(reader, lambda expr: ir.transform(expr, inlined))


def with_values(block: ir.Block, change: Change) -> ir.Block:
    """A block with `change` applied to the values and indices of its stores, its init included."""
    init = None if block.init is None else map_values(block.init, change)
    return replace(block, body=map_values(block.body, change), init=init)


def map_values(stmt: ir.Stmt, change: Change) -> ir.Stmt:
    """`stmt` with `change` applied to the values and indices of its stores."""
    match stmt:
        case ir.Store():
            return replace(stmt, indices=tuple(change(i) for i in stmt.indices), value=change(stmt.value))
        case ir.Block():
            return stmt
    return ir.with_children(stmt, tuple(map_values(inner, change) for inner in ir.children(stmt)))


# --- reverse_inline -------------------------------------------------------------------------------


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
    result: list[str] = []
    for buffer, domain in fn.buffers.items():
        accesses, order = read_indices(consumer.block, buffer), leaves(fn)
        for writer in writers_of(order, buffer):
            same = len(accesses) == 1 and len(accesses[0]) == len(axes)
            if same and {i.name for i in accesses[0] if isinstance(i, ir.Var)} == axes:
                extents = tuple(consumer.axis_of(i.name).extent for i in accesses[0] if isinstance(i, ir.Var))
                if extents == domain.shape and [r.name for r in readers_of(order, buffer)] == [consumer.name]:
                    return writer, accesses[0]
            result += [f"{buffer}[{index_text(indices)}]" for indices in accesses]
    rule = "one computed buffer must be read by this block alone, all of it, at its own axes"
    raise ScheduleError(f"{where}: {rule}, got {', '.join(result) or 'none'}")


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
        return ir.map_operands(expr, merged)

    target = tuple(merged(index) for index in store.indices)
    values = dict(zip((axis.var for axis in producer.block.axes), producer.block.values, strict=True))
    names = [index.name for index in target if isinstance(index, ir.Var)]
    axes = tuple(producer.axis_of(name) for name in names)
    bound = tuple(values[name] for name in names)
    body = ir.Store(store.buffer, target, merged(store.value))
    notes = {**consumer.block.annotations, **producer.block.annotations}
    return replace(producer.block, axes=axes, values=bound, body=body, annotations=notes)
