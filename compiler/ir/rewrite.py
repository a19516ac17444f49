"""Rebuilding statements: every expression of a tree mapped, what does not change is shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith.affine import Range, Ranges, bounds
from vdla.compiler.tensorize.intrinsic import Match

Change = Callable[[ir.Expr], ir.Expr]
Values = Mapping[str, ir.Expr]


def each(old: tuple[ir.Expr, ...], change: Change) -> tuple[ir.Expr, ...]:
    """The expressions changed; `old` itself if none is."""
    new = tuple(change(expr) for expr in old)
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new


def rebuilt(expr: ir.Expr, change: Change) -> ir.Expr:
    """`expr` with its operands changed."""
    old = ir.operands(expr)
    new = each(old, change)
    return expr if new is old else ir.with_operands(expr, new)


def reads(expr: ir.Expr) -> bool:
    """Whether an expression reads a buffer, so that its value may change."""
    return any(isinstance(inner, ir.Load) for inner in ir.walk_expr(expr))


def with_bodies(stmt: ir.Stmt, change: Callable[[ir.Stmt], ir.Stmt]) -> ir.Stmt:
    """`stmt` with the statements directly inside changed."""
    old = ir.children(stmt)
    new = tuple(change(child) for child in old)
    return stmt if all(a is b for a, b in zip(old, new, strict=True)) else ir.with_children(stmt, new)


def stored(store: ir.Store, index: Change, value: Change) -> ir.Store:
    """A store with its indices and its value changed."""
    indices, new = each(store.indices, index), value(store.value)
    return store if indices is store.indices and new is store.value else ir.Store(store.buffer, indices, new)


def fetched(request: ir.Prefetch, index: Change) -> ir.Prefetch:
    """A request with its indices changed."""
    return ir.Prefetch(request.buffer, each(request.indices, index))


def matched(match: Match, change: Change) -> Match:
    """A match with its entries and conditions changed."""
    entries = {name: each(indices, change) for name, indices in match.entries.items()}
    conditions = {name: change(condition) for name, condition in match.conditions.items()}
    return replace(match, entries=entries, conditions=conditions)


def mapped(stmt: ir.Stmt, change: Change) -> ir.Stmt:
    """`stmt` with its conditions, the expressions of its stores and the operands of its steps changed."""
    match stmt:
        case ir.Store():
            return stored(stmt, change, change)
        case ir.Prefetch():
            return fetched(stmt, change)
        case ir.If(cond=cond, body=body):
            return ir.If(change(cond), mapped(body, change))
        case ir.IntrinsicCall(match=match, body=body):
            return ir.IntrinsicCall(matched(match, change), mapped(body, change))
    return with_bodies(stmt, lambda child: mapped(child, change))


def substituted(stmt: ir.Stmt, values: Values) -> ir.Stmt:
    """`stmt` with variables replaced in every expression."""
    return mapped(stmt, lambda expr: ir.substitute(expr, values)) if values else stmt


def loop_ranges(stmt: ir.Stmt, scalars: Ranges) -> dict[str, Range]:
    """The bounds of every loop variable of a tree whose nested loops have names of their own, and of the scalars."""
    found = dict(scalars)
    for inner in ir.walk(stmt):
        if isinstance(inner, ir.For):
            low, high = found.get(inner.var, (0, 0))
            found[inner.var] = (low, max(high, last(inner, scalars)))
    return found


def last(loop: ir.For, ranges: Ranges) -> int:
    """The greatest value that the variable of a loop can have (0 of a loop that never runs)."""
    extent = loop.extent if isinstance(loop.extent, int) else bounds(loop.extent, ranges)[1]
    return max(extent - 1, 0)


def scalar_ranges(fn: ir.Function) -> dict[str, Range]:
    """The bounds of the symbolic extents."""
    return {name: (1, (1 << 31) - 1) for name in fn.scalars}
