"""Simplify: indices and conditions by the bounds of the loops, and the statements that follow from them.

What never runs is gone, and so are loops of one iteration; a condition stands outside of the loops that it does not
depend on.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import FALSE, TRUE, conjunction, conjuncts, scalar_ranges, var_names
from vdla.compiler.ir import map_match, map_prefetch, map_store, reads_memory
from vdla.compiler.lowering.scope import Scope

NOTHING = ir.Seq(())  # never left inside of anything but a function that does nothing


def simplify(fn: ir.Function) -> ir.Function:
    """`fn` with simpler indices and conditions.

    for i in range(4):                         for i in range(4):
        for j in range(1):               ->        c[i * 2] = a[i * 2]
            if i * 2 + j < 8:
                c[i * 2 + j] = a[j + i * 2]
    """
    return replace(fn, body=simplified(fn.body, Scope(scalar_ranges(fn))))


def simplified(stmt: ir.Stmt, scope: Scope) -> ir.Stmt:
    """`stmt` simplified at its place; NOTHING if it never does anything."""
    match stmt:
        case ir.For():
            return loop(stmt, scope)
        case ir.If(cond=cond, body=body):
            return conditional(scope.condition(cond), body, scope)
        case ir.Seq(stmts=stmts):
            return ir.seq(*(simplified(inner, scope) for inner in stmts))
        case ir.Store():
            return map_store(stmt, scope.index, scope.value)
        case ir.Prefetch():
            return map_prefetch(stmt, scope.index)
        case ir.MultiStore(stores=stores):
            return ir.MultiStore(tuple(map_store(store, scope.index, scope.value) for store in stores))
        case ir.Alloc(buffers=buffers, body=body):
            inside = simplified(body, scope)
            return inside if inside == NOTHING else ir.Alloc(buffers, inside)
        case ir.IntrinsicCall(match=match, body=body):
            return ir.IntrinsicCall(map_match(match, scope.condition), simplified(body, scope))
    return stmt


def loop(stmt: ir.For, scope: Scope) -> ir.Stmt:
    """A loop, or its body if that runs once."""
    extent = stmt.extent if isinstance(stmt.extent, int) else as_extent(scope.index(stmt.extent))
    if extent == 1:
        return simplified(stmt.body, scope.bound(stmt.var, ir.Const(0)))
    if isinstance(extent, int) and extent <= 0:
        return NOTHING
    new = replace(stmt, extent=extent)
    return closed(new, simplified(stmt.body, scope.inside(new)))


def closed(loop: ir.For, body: ir.Stmt) -> ir.Stmt:
    """A loop around a simplified body, with conditions on other variables outside."""
    if body == NOTHING or ("prefetch" in loop.annotations and is_idle(body)):
        return NOTHING
    outer, body = hoisted(loop.var, body)
    new = replace(loop, body=body)
    return new if outer == TRUE else ir.If(outer, new)


def is_idle(stmt: ir.Stmt) -> bool:
    """Whether a statement only requests what nobody will read."""
    match stmt:
        case ir.Seq(stmts=stmts):
            return all(is_idle(inner) for inner in stmts)
        case ir.For(body=body) | ir.If(body=body):
            return is_idle(body)
    return isinstance(stmt, ir.Prefetch)


def as_extent(expr: ir.Expr) -> ir.Extent:
    """An extent, a number where it is one."""
    return int(expr.value) if isinstance(expr, ir.Const) else expr


def hoisted(var: str, body: ir.Stmt) -> tuple[ir.Expr, ir.Stmt]:
    """The part of a body's condition that does not depend on the loop, and the body with the rest."""
    if not isinstance(body, ir.If):
        return TRUE, body
    parts = conjuncts(body.cond)
    outer = [part for part in parts if var not in var_names(part) and not reads_memory(part)]
    inner = conjunction(part for part in parts if part not in outer)
    return conjunction(outer), body.body if inner == TRUE else ir.If(inner, body.body)


def conditional(cond: ir.Expr, body: ir.Stmt, scope: Scope) -> ir.Stmt:
    """A conditional statement whose condition is simplified."""
    if cond == FALSE:
        return NOTHING
    if cond == TRUE:
        return simplified(body, scope)
    inner = simplified(body, scope.where(cond))
    if inner == NOTHING:
        return NOTHING
    if isinstance(inner, ir.If):
        return ir.If(conjunction([cond, inner.cond]), inner.body)
    return ir.If(cond, inner)
