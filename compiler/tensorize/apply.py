"""Tensorize: a loop nest that computes what an intrinsic declares becomes steps of that intrinsic.

The nest stays as it is and keeps its meaning; the block is annotated with the `Match`, and lowering emits instructions
for it. A nest that does not match is refused with the first axis, stride, dtype or scope that differs and its remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.ir.printer import expr_text, extent_text
from vdla.compiler.tensorize.intrinsic import Intrinsic, Match
from vdla.compiler.tensorize.matcher import Matcher, TensorizeError

__all__ = ["TensorizeError", "match_block", "tensorize"]


def tensorize(fn: ir.Function, loop: str, intrinsic: Intrinsic) -> ir.Function:
    """Run the nest from `loop` inwards as one step of `intrinsic`.

    before: for b in range(1): for o in range(16): for i in range(16): acc[..., b, o] += cast(inp[..., b, i]) * ...
    after:  the same nest, marked: its block is a step of the intrinsic

    Raises:
        TensorizeError: names what differs and how to schedule the nest so that it matches.
    """
    if not isinstance(intrinsic, Intrinsic):
        raise TensorizeError(f"tensorize of {loop}: intrinsic must be an Intrinsic, got {intrinsic!r}")
    nest = find_loop(fn, loop)
    block, loops = perfect_nest(nest, intrinsic)
    match = match_block(fn, block, loops, intrinsic)
    marked = replace(block, annotations={**block.annotations, "intrinsic": match})
    return replace(fn, body=_mark(fn.body, loop, block, marked, intrinsic))


def find_loop(fn: ir.Function, loop: str) -> ir.For:
    """The loop of that name."""
    for stmt in ir.walk(fn.body):
        if isinstance(stmt, ir.For) and stmt.var == loop:
            return stmt
    names = [s.var for s in ir.walk(fn.body) if isinstance(s, ir.For)]
    raise TensorizeError(f"tensorize: loop must be one of {', '.join(names)}, got {loop!r}")


def perfect_nest(nest: ir.For, intrinsic: Intrinsic) -> tuple[ir.Block, dict[str, int]]:
    """The one block inside and the extents of the loops around it, from `nest` inwards."""
    loops: dict[str, int] = {}
    stmt: ir.Stmt = nest
    while isinstance(stmt, ir.For):
        if not isinstance(stmt.extent, int):
            raise TensorizeError(
                f"tensorize {intrinsic.name} at loop {nest.var}: every extent inside must be a number, got "
                f"{extent_text(stmt.extent)} of loop {stmt.var}; split it and tensorize the inner loop"
            )
        loops[stmt.var] = stmt.extent
        stmt = stmt.body
    if not isinstance(stmt, ir.Block):
        raise TensorizeError(
            f"tensorize {intrinsic.name} at loop {nest.var}: the loops inside must hold a single block, got "
            f"{len(ir.children(stmt))} statements; move the others out with compute_at or reverse_compute_at"
        )
    return stmt, loops


def match_block(fn: ir.Function, block: ir.Block, loops: Mapping[str, int], intrinsic: Intrinsic) -> Match:
    """How `block`, over the given inner loops, is one step of `intrinsic`."""
    where = f"tensorize {intrinsic.name} at block {block.name}"
    return Matcher(fn, block, intrinsic, where, _inner_axes(block, loops, where)).match()


def _inner_axes(block: ir.Block, loops: Mapping[str, int], where: str) -> dict[str, int]:
    """The block axes that the inner loops run through, each by one whole loop."""
    inner: dict[str, int] = {}
    for axis, value in zip(block.axes, block.values, strict=True):
        used = [e.name for e in ir.walk_expr(value) if isinstance(e, ir.Var) and e.name in loops]
        if not used:
            continue
        if value != ir.Var(used[0]) or loops[used[0]] != axis.extent:
            raise TensorizeError(
                f"{where}: axis {axis.var} must be one whole loop of extent {axis.extent} inside the tensorized loop, "
                f"got {expr_text(value)} with {', '.join(f'{v} of {loops[v]}' for v in used)}; undo its split, "
                "or tensorize further in"
            )
        inner[axis.var] = axis.extent
    bound = {v.name for v in block.values if isinstance(v, ir.Var)}
    for loop, extent in loops.items():
        if loop not in bound and extent > 1:
            raise TensorizeError(
                f"{where}: loop {loop} of extent {extent} must drive an axis of the block, got none; "
                "reorder it outwards"
            )
    return inner


def _mark(stmt: ir.Stmt, loop: str, old: ir.Block, new: ir.Block, intrinsic: Intrinsic) -> ir.Stmt:
    """The tree with the loop marked as tensorized and its block replaced; what does not change is shared."""
    match stmt:
        case ir.For():
            body = _mark(stmt.body, loop, old, new, intrinsic)
            if body is stmt.body:
                return stmt
            extra = {"tensorize": intrinsic.name} if stmt.var == loop else {}
            return replace(stmt, body=body, annotations={**stmt.annotations, **extra})
        case ir.Seq(stmts=stmts):
            changed = tuple(_mark(s, loop, old, new, intrinsic) for s in stmts)
            return stmt if all(a is b for a, b in zip(changed, stmts, strict=True)) else ir.Seq(changed)
        case ir.Block():
            return new if stmt is old else stmt
        case _:
            return stmt
