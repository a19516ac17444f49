# SPDX-License-Identifier: Apache-2.0
"""Defects planted into race-free kernels: each is a race, or a barrier at which threads part.

A defect may do no harm in some kernel, as where a tile is read by the thread that wrote it; the
interpreter of threads decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import linear
from vdla.compiler.ir import GridKernel, map_children, map_exprs, map_operands

_HALVES = 2  # of a double buffer
_Change = Callable[[ir.Stmt], ir.Stmt | None]
_Access = tuple[str, tuple[ir.Expr, ...]]  # a buffer and indices
_Indices = tuple[ir.Expr, ...]


def defects(kernel: GridKernel) -> Iterator[tuple[str, GridKernel]]:
    """The kernels that one planted defect makes of `kernel`, with the kind of the defect."""
    for kind, change in (
        ("barrier removed", _remove_barrier),
        ("barrier of a warp", _weaken_barrier),
        ("barrier under a condition", _condition_barrier(kernel)),
        ("barrier in some iterations", _skip_barrier),
        ("condition removed", _remove_condition),
        ("update not atomic", _plain_update),
    ):
        yield from ((kind, replace(kernel, body=body)) for body in _changed(kernel.body, change))
    yield from (("strides overlapped", replace(kernel, body=body)) for body in _changed(kernel.body, _shorten(kernel)))
    for buffer in kernel.shared:
        if (body := _in_one_half(kernel.body, buffer)) != kernel.body:
            yield "halves overlapped", replace(kernel, body=body)
        yield "tile overlapped", replace(kernel, body=_folded(kernel.body, buffer.name))
        for other in kernel.shared:
            if other is not buffer and len(other.shape) == len(buffer.shape) and other.dtype == buffer.dtype:
                yield "tiles overlapped", replace(kernel, body=_moved(kernel.body, other.name, buffer))
    written = {stmt.buffer for stmt in ir.walk(kernel.body) if isinstance(stmt, ir.Store)}
    for name in sorted(written & set(kernel.params)):
        yield "blocks overlapped", replace(kernel, body=_in_one_block(kernel.body, name))


def _changed(stmt: ir.Stmt, change: _Change) -> Iterator[ir.Stmt]:
    """`stmt` with `change` applied to one of its statements, for each one that it changes."""
    new = change(stmt)
    if new is not None:
        yield new
    children = ir.children(stmt)
    for n, child in enumerate(children):
        for inner in _changed(child, change):
            yield ir.with_children(stmt, (*children[:n], inner, *children[n + 1 :]))


def _remove_barrier(stmt: ir.Stmt) -> ir.Stmt | None:
    """Nothing in place of a barrier."""
    return ir.Seq(()) if isinstance(stmt, ir.Barrier) else None


def _weaken_barrier(stmt: ir.Stmt) -> ir.Stmt | None:
    """A barrier that stops a warp in place of the block."""
    return ir.Barrier(ir.BarrierScope.WARP) if stmt == ir.Barrier() else None


def _condition_barrier(kernel: GridKernel) -> _Change:
    """A barrier that the last thread of an axis passes by."""
    axis = max(ir.THREAD_AXES, key=lambda name: ir.number(kernel.extents[name], name))
    last = ir.number(kernel.extents[axis], axis) - 1

    def change(stmt: ir.Stmt) -> ir.Stmt | None:
        below = ir.Binary("lt", ir.Var(axis), ir.Const(last))
        return ir.If(below, stmt) if stmt == ir.Barrier() else None  # those of other warps may stay

    return change


def _skip_barrier(stmt: ir.Stmt) -> ir.Stmt | None:
    """A loop whose barriers only its first iteration has."""
    if not isinstance(stmt, ir.For) or not any(isinstance(inner, ir.Barrier) for inner in ir.walk(stmt.body)):
        return None
    first = ir.Binary("eq", ir.Var(stmt.var), ir.Const(0))

    def visit(inner: ir.Stmt) -> ir.Stmt:
        return ir.If(first, inner) if isinstance(inner, ir.Barrier) else map_children(inner, visit)

    return replace(stmt, body=visit(stmt.body))


def _remove_condition(stmt: ir.Stmt) -> ir.Stmt | None:
    """What one thread alone does, done by all."""
    alone = isinstance(stmt, ir.If) and isinstance(stmt.cond, ir.Binary) and stmt.cond.op == "eq"
    return stmt.body if alone and isinstance(stmt, ir.If) else None


def _plain_update(stmt: ir.Stmt) -> ir.Stmt | None:
    """An update that other threads interrupt."""
    return stmt.body if isinstance(stmt, ir.Atomic) else None


def _shorten(kernel: GridKernel) -> _Change:
    """A loop over strides of a thread, the threads along x apart, whose stores are one less
    apart."""
    threads = kernel.block[0]

    def change(stmt: ir.Stmt) -> ir.Stmt | None:
        if not isinstance(stmt, ir.For) or stmt.extent == 1 or threads == 1:
            return None
        x, stride = ir.Var("threadIdx.x"), ir.Var(stmt.var)
        nearer: dict[str, ir.Expr] = {x.name: ir.Binary("sub", x, stride)}

        def is_strided(index: ir.Expr) -> bool:
            terms = linear(index).terms
            return x in terms and terms.get(stride) == threads * terms[x]

        def visit(inner: ir.Stmt) -> ir.Stmt:
            if not isinstance(inner, ir.Store):
                return map_children(inner, visit)
            return replace(
                inner, indices=tuple(ir.substitute(i, nearer) if is_strided(i) else i for i in inner.indices)
            )

        body = visit(stmt.body)
        return None if body == stmt.body else replace(stmt, body=body)

    return change


def _in_one_half(stmt: ir.Stmt, buffer: ir.Buffer) -> ir.Stmt:
    """`stmt` in which the steps of a loop no longer take turns with the halves of a tile."""

    def change(name: str, indices: _Indices) -> _Access:
        turns = name == buffer.name and isinstance(indices[0], ir.Binary) and indices[0].op == "mod"
        return name, (ir.Const(0), *indices[1:]) if turns and buffer.dims[0] == _HALVES else indices

    return _accesses(stmt, change)


def _accesses(stmt: ir.Stmt, change: Callable[[str, _Indices], _Access]) -> ir.Stmt:
    """`stmt` with buffer and indices of each access changed."""

    def visit(expr: ir.Expr) -> ir.Expr:
        new = map_operands(expr, visit)
        return ir.Load(*change(new.buffer, new.indices)) if isinstance(new, ir.Load) else new

    def moved(inner: ir.Stmt) -> ir.Stmt:
        if not isinstance(inner, ir.Store):
            return map_children(inner, moved)
        return ir.Store(*change(inner.buffer, inner.indices), inner.value)

    return moved(map_exprs(stmt, visit))


def _reindexed(stmt: ir.Stmt, buffer: str, change: Callable[[ir.Expr], ir.Expr]) -> ir.Stmt:
    """`stmt` with every index of a buffer changed."""
    return _accesses(stmt, lambda name, indices: (name, tuple(map(change, indices)) if name == buffer else indices))


def _folded(stmt: ir.Stmt, buffer: str) -> ir.Stmt:
    """`stmt` in which two elements of a buffer beside each other are one."""

    return _reindexed(stmt, buffer, lambda index: ir.Binary("floordiv", index, ir.Const(2)))


def _moved(stmt: ir.Stmt, old: str, new: ir.Buffer) -> ir.Stmt:
    """`stmt` in which the buffer `old` lies in the memory of `new`."""

    def change(name: str, indices: _Indices) -> _Access:
        if name != old:
            return name, indices
        return new.name, tuple(ir.Binary("mod", i, ir.Const(n)) for i, n in zip(indices, new.dims, strict=True))

    return _accesses(stmt, change)


def _in_one_block(stmt: ir.Stmt, buffer: str) -> ir.Stmt:
    """`stmt` in which all blocks access the part of a buffer that is the first one's."""
    first: dict[str, ir.Expr] = dict.fromkeys(ir.BLOCK_AXES, ir.Const(0))

    return _reindexed(stmt, buffer, lambda index: ir.substitute(index, first))
