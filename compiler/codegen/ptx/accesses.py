"""The elements that a thread reads and writes, statement by statement."""

from __future__ import annotations

from collections.abc import Iterator

from vdla.compiler import ir


def reads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    """The loads in a statement and inside of it."""
    for inner in ir.walk(stmt):
        for expr in _expressions(inner):
            yield from (part for part in ir.walk_expr(expr) if isinstance(part, ir.Load))


def writes(stmt: ir.Stmt) -> Iterator[ir.Store]:
    """The stores in a statement."""
    return (inner for inner in ir.walk(stmt) if isinstance(inner, ir.Store))


def _expressions(stmt: ir.Stmt) -> Iterator[ir.Expr]:
    match stmt:
        case ir.Store(indices=indices, value=value):
            yield from (*indices, value)
        case ir.If(cond=cond):
            yield cond
        case ir.For(extent=extent) if not isinstance(extent, int):
            yield extent
