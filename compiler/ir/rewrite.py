"""Rebuilding trees with expressions or children mapped; unchanged parts are shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vdla.compiler.ir import nodes as ir
from vdla.compiler.ir.traversal import children, operands, substitute, walk_expr, with_children, with_operands

ExprMap = Callable[[ir.Expr], ir.Expr]
Substitution = Mapping[str, ir.Expr]


def _map_each(old: tuple[ir.Expr, ...], change: ExprMap) -> tuple[ir.Expr, ...]:
    """The expressions mapped; `old` itself if none changes."""
    new = tuple(change(expr) for expr in old)
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new


def map_operands(expr: ir.Expr, change: ExprMap) -> ir.Expr:
    """`expr` with its operands mapped."""
    old = operands(expr)
    new = _map_each(old, change)
    return expr if new is old else with_operands(expr, new)


def reads_memory(expr: ir.Expr) -> bool:
    """Whether an expression loads from a buffer, so that stores can change its value."""
    return any(isinstance(inner, ir.Load) for inner in walk_expr(expr))


def map_children(stmt: ir.Stmt, change: Callable[[ir.Stmt], ir.Stmt]) -> ir.Stmt:
    """`stmt` with the statements directly inside it mapped."""
    old = children(stmt)
    new = tuple(change(child) for child in old)
    return stmt if all(a is b for a, b in zip(old, new, strict=True)) else with_children(stmt, new)


def map_store(store: ir.Store, index: ExprMap, value: ExprMap) -> ir.Store:
    """A store with its indices and its value mapped."""
    indices, new = _map_each(store.indices, index), value(store.value)
    return store if indices is store.indices and new is store.value else ir.Store(store.buffer, indices, new)


def map_prefetch(prefetch: ir.Prefetch, index: ExprMap) -> ir.Prefetch:
    """A prefetch with its indices mapped."""
    return ir.Prefetch(prefetch.buffer, _map_each(prefetch.indices, index))


def map_match(match: ir.Match, change: ExprMap) -> ir.Match:
    """A match with its entries and conditions mapped."""
    entries = {name: _map_each(indices, change) for name, indices in match.entries.items()}
    conditions = {name: change(condition) for name, condition in match.conditions.items()}
    return replace(match, entries=entries, conditions=conditions)


def map_exprs(stmt: ir.Stmt, change: ExprMap) -> ir.Stmt:
    """`stmt` with all its expressions mapped, the operands of intrinsic calls included."""
    match stmt:
        case ir.Store():
            return map_store(stmt, change, change)
        case ir.Prefetch():
            return map_prefetch(stmt, change)
        case ir.If(cond=cond, body=body):
            return ir.If(change(cond), map_exprs(body, change))
        case ir.IntrinsicCall(match=match, body=body):
            return ir.IntrinsicCall(map_match(match, change), map_exprs(body, change))
    return map_children(stmt, lambda child: map_exprs(child, change))


def substitute_in(stmt: ir.Stmt, values: Substitution) -> ir.Stmt:
    """`stmt` with the variables named in `values` replaced in every expression."""
    return map_exprs(stmt, lambda expr: substitute(expr, values)) if values else stmt
