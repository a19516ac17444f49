# SPDX-License-Identifier: Apache-2.0
"""Vectorize: VECTORIZE loops are distributed, each around a single store.

The iterations of a VECTORIZE loop are independent, as the schedule primitive ensures, so the loop
can be distributed and interchanged with inner loops. Statements independent of the lane run once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from vdla.compiler import ir
from vdla.compiler.analysis import used_names
from vdla.compiler.arith import var_names
from vdla.compiler.ir import map_children, substitute_in
from vdla.compiler.lowering.simplify import Scope, simplify_stmt

_MAX_LANES = 64  # a longer loop becomes a serial loop over vectors of this length


def vectorize(fn: ir.Function) -> ir.Function:
    """`fn` with every VECTORIZE loop directly around one store, possibly under a mask.

    for j in vectorize(8):                    for j in vectorize(8):
        c[j] = 0.0                                c[j] = 0.0
        for k in range(16):          ->       for k in range(16):
            c[j] = c[j] + a[k, j]                 for j in vectorize(8):
                                                      c[j] = c[j] + a[k, j]

    Loops with a symbolic extent or around intrinsic calls become serial, and so does the outer of
    two.
    """
    names = used_names(fn)
    outer = cache(lambda var: names.fresh(f"{var}_v", var))  # copies of a loop share one name
    return replace(fn, body=_vectorize_stmt(fn.body, outer))


def _vectorize_stmt(stmt: ir.Stmt, outer: Callable[[str], str]) -> ir.Stmt:
    """`stmt` with vector loops distributed, inner first; `outer` names loops over vectors."""
    new = map_children(stmt, lambda child: _vectorize_stmt(child, outer))
    if not isinstance(new, ir.For) or new.kind is not ir.LoopKind.VECTORIZE:
        return new
    if not isinstance(new.extent, int):
        return _serial(new, new.body)
    return _split_long(new, new.extent, outer(new.var)) if new.extent > _MAX_LANES else _distribute(new, new.body)


def _split_long(loop: ir.For, extent: int, outer: str) -> ir.Stmt:
    """A long loop as a serial loop over vectors, and a shorter vector for the remainder."""
    var, whole = ir.Var(loop.var), extent // _MAX_LANES
    start = ir.binary("mul", outer, _MAX_LANES)
    inner = _distribute(replace(loop, extent=_MAX_LANES), _at_index(loop, ir.Binary("add", start, var)))
    main = ir.For(outer, whole, inner)
    if extent % _MAX_LANES == 0:
        return main
    rest = replace(loop, extent=extent % _MAX_LANES)
    return ir.seq(main, _distribute(rest, _at_index(loop, ir.binary("add", var, whole * _MAX_LANES))))


def _at_index(loop: ir.For, index: ir.Expr) -> ir.Stmt:
    """The body of a loop at `index`."""
    return substitute_in(loop.body, {loop.var: index})


def _distribute(loop: ir.For, stmt: ir.Stmt) -> ir.Stmt:
    """`stmt`, a part of the body of `loop`, for all lanes."""
    if not _depends(stmt, loop.var):
        return stmt
    match stmt:
        case ir.Seq(stmts=stmts):
            return ir.seq(*(_distribute(loop, inner) for inner in stmts))
        case ir.For(kind=ir.LoopKind.VECTORIZE):
            return _serial(loop, stmt)
        case ir.For(body=body):
            return replace(stmt, body=_distribute(loop, body))
        case ir.If(cond=cond, body=body) if loop.var not in var_names(cond):
            return ir.If(cond, _distribute(loop, body))
        case ir.If(cond=cond, body=body):
            return _distribute_if(loop, cond, body)
        case ir.Store() | ir.MultiStore():
            return replace(loop, body=stmt) if _stores_differ(stmt, loop.var) else _serial(loop, stmt)
        case ir.Prefetch():
            return _first_lane(loop, stmt)
    return _serial(loop, stmt)


def _distribute_if(loop: ir.For, cond: ir.Expr, body: ir.Stmt) -> ir.Stmt:
    """`body` under a condition that depends on the lane, for all lanes."""
    if _reads(cond) & _writes(body):
        return _serial(loop, ir.If(cond, body))
    match body:
        case ir.Seq(stmts=stmts):
            return ir.seq(*(_distribute_if(loop, cond, inner) for inner in stmts))
        case ir.For(kind=ir.LoopKind.SERIAL | ir.LoopKind.PARALLEL, body=inner):
            return replace(body, body=_distribute_if(loop, cond, inner))
        case ir.If(cond=other, body=inner) if loop.var not in var_names(other):
            return ir.If(other, _distribute_if(loop, cond, inner))
        case ir.If(cond=other, body=inner):
            return _distribute_if(loop, ir.Binary("and", cond, other), inner)
        case ir.Store() | ir.MultiStore() if _stores_differ(body, loop.var):
            return _narrow_lanes(loop, cond, body)
        case ir.Prefetch():
            return _first_lane(loop, ir.If(cond, body))
    return _serial(loop, ir.If(cond, body))


def _first_lane(loop: ir.For, stmt: ir.Stmt) -> ir.Stmt:
    """The prefetch of the first lane, which stands for all lanes."""
    return simplify_stmt(substitute_in(stmt, {loop.var: ir.Const(0)}), Scope({}))


def _narrow_lanes(loop: ir.For, cond: ir.Expr, body: ir.Stmt) -> ir.Stmt:
    """A store in the lanes where `cond` holds: a shorter vector for a range, else a mask."""
    assert isinstance(loop.extent, int)
    ranges = {loop.var: (0, loop.extent - 1)}
    scope = Scope(ranges).where(cond)
    low, high = scope.ranges[loop.var]
    if (low, high) == ranges[loop.var]:
        return replace(loop, body=ir.If(cond, body))
    if low > high:
        return ir.Seq(())
    part = replace(loop, extent=high - low + 1)
    index = ir.binary("add", loop.var, low)
    return simplify_stmt(replace(part, body=substitute_in(ir.If(cond, body), {loop.var: index})), Scope({}))


def _serial(loop: ir.For, body: ir.Stmt) -> ir.Stmt:
    """The loop over lanes, serial."""
    return replace(loop, kind=ir.LoopKind.SERIAL, body=body)


def _stores_differ(stmt: ir.Store | ir.MultiStore, var: str) -> bool:
    """Whether each lane stores to a different element."""
    stores = stmt.stores if isinstance(stmt, ir.MultiStore) else (stmt,)
    return all(any(var in var_names(index) for index in store.indices) for store in stores)


def _depends(stmt: ir.Stmt, var: str) -> bool:
    """Whether `stmt` depends on a variable."""
    match stmt:
        case ir.Store(indices=indices, value=value):
            return any(var in var_names(expr) for expr in (*indices, value))
        case ir.Prefetch(indices=indices):
            return any(var in var_names(index) for index in indices)
        case ir.If(cond=cond) if var in var_names(cond):
            return True
        case ir.IntrinsicCall(match=match):
            indices = tuple(index for entry in match.entries.values() for index in entry)
            if any(var in var_names(expr) for expr in (*indices, *match.conditions.values())):
                return True
    return any(_depends(child, var) for child in ir.children(stmt))


def _reads(expr: ir.Expr) -> set[str]:
    """The buffers that an expression loads."""
    return {inner.buffer for inner in ir.find(expr, ir.Load)}


def _writes(stmt: ir.Stmt) -> set[str]:
    """The buffers that a statement writes."""
    return {inner.buffer for inner in ir.find(stmt, ir.Store)}
