"""Simplify: indices and conditions from the bounds of the loops, dead code, loops of one iteration.

Conditions move out of the loops on which they do not depend.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import FALSE, TRUE, conjunction, conjuncts, scalar_ranges, var_names
from vdla.compiler.ir import map_match, map_prefetch, map_store, reads_memory
from vdla.compiler.lowering.scope import Scope

EMPTY = ir.Seq(())  # occurs only as the body of a function that does nothing


def simplify_function(fn: ir.Function) -> ir.Function:
    """`fn` with simpler indices and conditions.

    for i in range(4):                         for i in range(4):
        for j in range(1):               ->        c[i * 2] = a[i * 2]
            if i * 2 + j < 8:
                c[i * 2 + j] = a[j + i * 2]
    """
    return replace(fn, body=simplify_stmt(fn.body, Scope(scalar_ranges(fn))))


def simplify_stmt(stmt: ir.Stmt, scope: Scope) -> ir.Stmt:
    """`stmt` simplified in `scope`; EMPTY if it has no effect."""
    match stmt:
        case ir.For():
            return _simplify_loop(stmt, scope)
        case ir.If(cond=cond, body=body):
            return _simplify_if(scope.condition(cond), body, scope)
        case ir.Seq(stmts=stmts):
            return ir.seq(*(simplify_stmt(inner, scope) for inner in stmts))
        case ir.Store():
            return map_store(stmt, scope.index, scope.value)
        case ir.Prefetch():
            return map_prefetch(stmt, scope.index)
        case ir.MultiStore(stores=stores):
            return ir.MultiStore(tuple(map_store(store, scope.index, scope.value) for store in stores))
        case ir.Alloc(buffers=buffers, body=body):
            inside = simplify_stmt(body, scope)
            return inside if inside == EMPTY else ir.Alloc(buffers, inside)
        case ir.Atomic(body=body):
            return ir.Atomic(simplify_stmt(body, scope))
        case ir.Shuffle(body=body):
            return replace(stmt, body=simplify_stmt(body, scope))
        case ir.IntrinsicCall(match=match, body=body):
            return ir.IntrinsicCall(map_match(match, scope.condition), simplify_stmt(body, scope))
    return stmt


def _simplify_loop(stmt: ir.For, scope: Scope) -> ir.Stmt:
    """A loop, or its body if it has one iteration."""
    extent = stmt.extent if isinstance(stmt.extent, int) else to_extent(scope.index(stmt.extent))
    if extent == 1:
        return simplify_stmt(stmt.body, scope.bound(stmt.var, ir.Const(0)))
    if isinstance(extent, int) and extent <= 0:
        return EMPTY
    new = replace(stmt, extent=extent)
    return close_loop(new, simplify_stmt(stmt.body, scope.inside(new)))


def close_loop(loop: ir.For, body: ir.Stmt) -> ir.Stmt:
    """A loop around a simplified body, invariant conditions hoisted out of it."""
    if body == EMPTY or ("prefetch" in loop.annotations and _only_prefetches(body)):
        return EMPTY
    outer, body = _hoist(loop.var, body)
    new = replace(loop, body=body)
    return new if outer == TRUE else ir.If(outer, new)


def _only_prefetches(stmt: ir.Stmt) -> bool:
    """Whether a statement consists of prefetches alone."""
    match stmt:
        case ir.Seq(stmts=stmts):
            return all(_only_prefetches(inner) for inner in stmts)
        case ir.For(body=body) | ir.If(body=body):
            return _only_prefetches(body)
    return isinstance(stmt, ir.Prefetch)


def to_extent(expr: ir.Expr) -> ir.Extent:
    """`expr` as an extent, an int if constant."""
    return int(expr.value) if isinstance(expr, ir.Const) else expr


def _hoist(var: str, body: ir.Stmt) -> tuple[ir.Expr, ir.Stmt]:
    """The loop-invariant part of a body's condition, and the body under the rest of it."""
    if not isinstance(body, ir.If):
        return TRUE, body
    parts = conjuncts(body.cond)
    outer = [part for part in parts if var not in var_names(part) and not reads_memory(part)]
    inner = conjunction(part for part in parts if part not in outer)
    return conjunction(outer), body.body if inner == TRUE else ir.If(inner, body.body)


def _simplify_if(cond: ir.Expr, body: ir.Stmt, scope: Scope) -> ir.Stmt:
    """`body` under the simplified condition `cond`."""
    if cond == FALSE:
        return EMPTY
    if cond == TRUE:
        return simplify_stmt(body, scope)
    inner = simplify_stmt(body, scope.where(cond))
    if inner == EMPTY:
        return EMPTY
    if isinstance(inner, ir.If):
        return ir.If(conjunction([cond, inner.cond]), inner.body)
    return ir.If(cond, inner)
