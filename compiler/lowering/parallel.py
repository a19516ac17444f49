"""Nested parallelism: PARALLEL loops inside others become serial; only one level is threaded."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.ir import map_children


def serialise_nested(fn: ir.Function) -> ir.Function:
    """`fn` without PARALLEL loops inside PARALLEL loops.

    for i in parallel(4):                 for i in parallel(4):
        for j in parallel(8): ...   ->        for j in range(8): ...
    """
    return replace(fn, body=_serialise(fn.body, inside=False))


def _serialise(stmt: ir.Stmt, *, inside: bool) -> ir.Stmt:
    """`stmt` with only its outermost parallel loops; none if it is `inside` one."""
    found = isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.PARALLEL
    new = map_children(stmt, lambda child: _serialise(child, inside=inside or found))
    return replace(new, kind=ir.LoopKind.SERIAL) if inside and found and isinstance(new, ir.For) else new
