"""Check parallel: a PARALLEL loop inside of another becomes serial, as one level of threads is all there is.

So does one inside of a VECTORIZE loop: the lanes have a place each in whatever it computes, so that its buffers lie
outside of both and would be those of all its iterations. This comes before buffers are placed.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.passes.walk import with_bodies


def one_level(fn: ir.Function) -> ir.Function:
    """`fn` with no PARALLEL loop inside of a PARALLEL or a VECTORIZE loop.

    for i in parallel(4):                 for i in parallel(4):
        for j in parallel(8): ...   ->        for j in range(8): ...
    """
    return replace(fn, body=outermost(fn.body, inside=False))


def outermost(stmt: ir.Stmt, *, inside: bool) -> ir.Stmt:
    """`stmt` with its outermost parallel loops alone."""
    if not isinstance(stmt, ir.For):
        return with_bodies(stmt, lambda child: outermost(child, inside=inside))
    within = inside or stmt.kind in (ir.LoopKind.PARALLEL, ir.LoopKind.VECTORIZE)
    body = outermost(stmt.body, inside=within)
    kind = ir.LoopKind.SERIAL if inside and stmt.kind is ir.LoopKind.PARALLEL else stmt.kind
    return stmt if body is stmt.body and kind is stmt.kind else replace(stmt, kind=kind, body=body)
