# SPDX-License-Identifier: Apache-2.0
"""Primitives that copy a buffer to another memory: cache_read, reindex and cache_write."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import Indices, LeafBlock, is_leaf, leaf_at, read_indices, written_buffers
from vdla.compiler.analysis.dataflow import check_flow
from vdla.compiler.analysis.symbols import at_least, domains_of, extent_form, form_bounds
from vdla.compiler.analysis.tree import ScheduleError, block_path, replace_at, used_names
from vdla.compiler.arith import Linear, linear, var_names
from vdla.compiler.ir import Names, expr_text
from vdla.compiler.schedule.compute_at import compute_for_readers
from vdla.compiler.schedule.inline import Change, map_values, with_values
from vdla.compiler.schedule.loop_kinds import check_scope
from vdla.compiler.schedule.place import build_nest, contains_block, insert_nest, movable_leaf, single_store


def cache_read(fn: ir.Function, block: str, buffer: str, scope: str) -> tuple[ir.Function, str]:
    """Let a block read `buffer` from a copy in `scope`; the name of the copy and of its block.

        for i in range(8):                        for a_i in range(8):
            block c(vi=i):              ->            block a_inp(vi=a_i):
                c[vi] = a[vi] * 2                         a_inp[vi] = a[vi]
                                                  for i in range(8):
                                                      block c(vi=i): c[vi] = a_inp[vi] * 2

    The copy holds the region that the block reads; `compute_at` moves it next to the reader.
    """
    where = f"cache_read of {buffer} for {block}"
    check_scope(scope, where)
    path = block_path(fn, block, where)
    leaf = leaf_at(path)
    accesses = _accesses(fn, leaf, buffer, where)
    name = used_names(fn).fresh(f"{buffer}_{scope}", block)
    copy = _copy_block(name, _axis_names(fn, accesses[0]), fn.buffers[buffer], source=buffer, target=name)
    result = replace_at(fn, path, with_values(leaf.block, _reading(buffer, name)))
    result = replace(result, buffers=_with_buffer(fn, replace(fn.buffers[buffer], name=name, scope=scope)))
    result = compute_for_readers(result, copy, None, where)
    check_flow(result, name, where)
    return result, name


def reindex(fn: ir.Function, block: str, buffer: str, scope: str) -> tuple[ir.Function, str]:
    """Let a block read `buffer` from a copy in `scope` that its own axes index; the name of copy
    and block.

        for i in range(4):                        for a_k in range(3):
            for k in range(3):                        for a_i in range(4):
                block c(vi=i, vk=reduce k):  ->           block a_s(vk=a_k, vi=a_i):
                    c[vi] += a[vi * 2 + vk]                   a_s[vk, vi] = a[vi * 2 + vk]
                                                  for i in range(4):
                                                      for k in range(3):
                                                          block c(...): c[vi] += a_s[vk, vi]

    The copy has an element for each value of the axes that the index depends on, reduce axes first:
    of the windows of a convolution, the matrix whose product with the weights is the result. It may
    hold an element several times. `compute_at` moves it next to the reader, as a tile.
    """
    where = f"reindex of {buffer} for {block}"
    check_scope(scope, where)
    path = block_path(fn, block, where)
    leaf = leaf_at(path)
    first, *others = _accesses(fn, leaf, buffer, where)
    if others:
        raise ScheduleError(f"{where}: the block must read the buffer at one index, got {len(others) + 1}")
    axes = _index_axes(leaf.block, first)
    _check_inside(fn, fn.buffers[buffer], axes, first, where)
    name = used_names(fn).fresh(f"{buffer}_{scope}", block)
    here = tuple(ir.Var(axis.var) for axis in axes)
    bound = tuple(ir.Axis(axis.var, axis.extent) for axis in axes)
    copy = ir.Block(name=name, axes=bound, values=here, body=ir.Store(name, here, ir.Load(buffer, first)))
    shape = tuple(axis.extent for axis in axes)
    result = replace_at(fn, path, with_values(leaf.block, _reading(buffer, name, here)))
    new = replace(fn.buffers[buffer], name=name, scope=scope, shape=shape)
    result = compute_for_readers(replace(result, buffers=_with_buffer(fn, new)), copy, None, where)
    check_flow(result, name, where)
    return result, name


def _index_axes(block: ir.Block, indices: Indices) -> list[ir.Axis]:
    """The axes that an index depends on, reduce axes first."""
    used = set().union(*(var_names(index) for index in indices))
    axes = [axis for axis in block.axes if axis.var in used]
    return sorted(axes or list(block.axes[:1]), key=lambda axis: axis.kind is not ir.AxisKind.REDUCE)


def _check_inside(fn: ir.Function, buffer: ir.Buffer, axes: list[ir.Axis], indices: Indices, where: str) -> None:
    """Refuse an index that leaves the buffer for some values of the axes, as behind a condition."""
    ranges = domains_of(fn).only_symbols().with_extents({axis.var: axis.extent for axis in axes})
    for index, extent in zip(indices, buffer.shape, strict=True):
        low, high = form_bounds(linear(index), ranges)
        last = extent_form(extent) - 1
        if not (at_least(low, Linear({}), ranges) and at_least(last, high, ranges)):
            raise ScheduleError(f"{where}: the index must stay inside of the buffer, got {expr_text(index)}")


def _accesses(fn: ir.Function, leaf: LeafBlock, buffer: str, where: str) -> list[Indices]:
    """The indices at which a block reads a buffer that a copy can stand for."""
    if not is_leaf(leaf.block):
        raise ScheduleError(f"{where}: the block must be the innermost one, got {leaf.name}, which holds others")
    known = list(fn.buffers)
    if buffer not in known:
        raise ScheduleError(f"{where}: the buffer must be one of {', '.join(known)}, got {buffer!r}")
    accesses = read_indices(leaf.block, buffer)
    if buffer in written_buffers(leaf.block):
        raise ScheduleError(f"{where}: the block must not write the buffer, got {buffer}; use cache_write")
    if not accesses:
        raise ScheduleError(f"{where}: the block must read the buffer, got none of its elements read")
    return accesses


def cache_write(fn: ir.Function, block: str, scope: str) -> tuple[ir.Function, str]:
    """Let a block compute into `<buffer>_<scope>`; the name of the new block `<buffer>_copy` that
    copies it back.

    block c(vi=i):                  block c(vi=i):
        c[vi] = a[vi] * 2    ->         c_acc[vi] = a[vi] * 2
                                    block c_copy(vi=c_i):
                                        c[vi] = c_acc[vi]
    """
    where = f"cache_write of {block}"
    check_scope(scope, where)
    leaf = movable_leaf(fn, block, where)
    buffer = single_store(leaf, where).buffer
    names = used_names(fn)
    cached, name = names.fresh(f"{buffer}_{scope}", block), names.fresh(f"{buffer}_copy", block)
    axes = [axis.var for axis in leaf.block.axes if axis.kind is not ir.AxisKind.REDUCE]
    copy = _copy_block(name, axes, fn.buffers[buffer], source=cached, target=buffer)
    result = replace_at(fn, leaf.path, _writing(leaf.block, buffer, cached))
    result = replace(result, buffers=_with_buffer(fn, replace(fn.buffers[buffer], name=cached, scope=scope)))
    result = insert_nest(result, None, build_nest(result, copy, {}, []), contains_block({block}), after=True)
    check_flow(result, name, where)
    return result, name


def _copy_block(name: str, axes: list[str], buffer: ir.Buffer, source: str, target: str) -> ir.Block:
    """The block that copies an element."""
    here: Indices = tuple(ir.Var(axis) for axis in axes)
    bound = tuple(ir.Axis(axis, extent) for axis, extent in zip(axes, buffer.shape, strict=True))
    return ir.Block(name=name, axes=bound, values=here, body=ir.Store(target, here, ir.Load(source, here)))


def _axis_names(fn: ir.Function, indices: Indices) -> list[str]:
    """Names for the axes of a copy: those of the buffer's index axes, never a symbol's."""
    names, symbols = Names(fn.scalars), set(fn.scalars)
    result: list[str] = []
    for dimension, index in enumerate(indices):
        axis_names = [
            name for term in linear(index).terms if isinstance(term, ir.Var) and (name := term.name) not in symbols
        ]
        name = axis_names[0] if axis_names else f"vi{dimension}"
        result.append(names.fresh(name if name not in names else f"{name}{dimension}", "v"))
    return result


def _reading(old: str, new: str, at: Indices | None = None) -> Change:
    """A rewrite of loads from `old` to loads from `new`, at other indices if any are given."""

    def change(part: ir.Expr) -> ir.Expr:
        if not isinstance(part, ir.Load) or part.buffer != old:
            return part
        return ir.Load(new, part.indices if at is None else at)

    return lambda expr: ir.transform(expr, change)


def _writing(block: ir.Block, old: str, new: str) -> ir.Block:
    """The block with its stores to `old` redirected to `new`."""

    def moved(stmt: ir.Stmt) -> ir.Stmt:
        stmt = map_values(stmt, _reading(old, new))
        return replace(stmt, buffer=new) if isinstance(stmt, ir.Store) else stmt

    return replace(block, body=moved(block.body), init=None if block.init is None else moved(block.init))


def _with_buffer(fn: ir.Function, buffer: ir.Buffer) -> dict[str, ir.Buffer]:
    """The buffers of `fn` and `buffer`."""
    return {**fn.buffers, buffer.name: buffer}
