"""The primitive that inlines a block into its readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import (
    LeafBlock,
    init_stores,
    leaves,
    read_indices,
    readers_of_any,
    stores,
    written_buffers,
)
from vdla.compiler.analysis.dataflow import check_flow
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.tree import block_at, block_path, remove_at, rewrite_blocks
from vdla.compiler.ir import size_violation
from vdla.compiler.schedule.place import movable_leaf

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
    found = [*stores(block), *init_stores(block)]
    for broken in filter(None, (size_violation(expr) for store in found for expr in (store.value, *store.indices))):
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

    def inlined(expr: ir.Expr) -> ir.Expr:
        new = ir.with_operands(expr, tuple(inlined(operand) for operand in ir.operands(expr)))
        if isinstance(new, ir.Load) and new.buffer in values:
            return ir.substitute(values[new.buffer], dict(zip(axes, new.indices, strict=True)))
        return new

    return with_values(reader, inlined)


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
