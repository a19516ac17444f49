# SPDX-License-Identifier: Apache-2.0
"""Intrinsic selection: tensorized nests whose intrinsic the target lacks become loops again.

This runs before the pipeline, as the only pass that depends on the CPU. Nests are matched again,
since primitives applied after tensorize may have changed their buffers or moved their loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import var_names
from vdla.compiler.ir import Match, map_children
from vdla.compiler.target import Target
from vdla.compiler.tensorize import TensorizeError, match_block, perfect_nest

_MAX_UNROLLED = 16  # extent of an outer loop of an entry; its sums then stay in registers


def select_intrinsics(fn: ir.Function, target: Target) -> ir.Function:
    """`fn` with only those tensorized nests whose CPU features `target` has.

    for o in range(16):  # tensorize=dot         for o in vectorize(16):
        for i in range(4):                 ->        for i in range(4):
            block c(...):  # intrinsic=dot               block c(...):
    """

    def runs(intrinsic: ir.DeclaredIntrinsic) -> bool:
        return intrinsic.target == "cpu" and target.has(*intrinsic.requires)

    return replace(fn, body=_select(fn.body, fn, runs))


def select_grid_intrinsics(fn: ir.Function) -> ir.Function:
    """`fn` with only those tensorized nests that are steps of warps."""
    return replace(fn, body=_select(fn.body, fn, lambda intrinsic: intrinsic.target == "gpu"))


def _select(stmt: ir.Stmt, fn: ir.Function, runs: Callable[[ir.DeclaredIntrinsic], bool]) -> ir.Stmt:
    """`stmt` with the tensorized nests of intrinsics that the target `runs`."""
    if not (isinstance(stmt, ir.For) and "tensorize" in stmt.annotations):
        return map_children(stmt, lambda child: _select(child, fn, runs))
    block = next(ir.find(stmt, ir.Block))
    match = block.annotations.get("intrinsic")
    if not isinstance(match, Match) or (now := _match_again(stmt, fn, match.intrinsic)) is None:
        return _unmark(stmt)
    if runs(match.intrinsic):
        return _set_match(stmt, now)
    return _to_loops(stmt, _spatial_loops(stmt, block))


def _match_again(nest: ir.For, fn: ir.Function, intrinsic: ir.DeclaredIntrinsic) -> Match | None:
    """The match of a nest as it is now; None if it no longer matches."""
    try:
        block, loops = perfect_nest(nest, intrinsic)
        return match_block(fn, block, loops, intrinsic)
    except TensorizeError:
        return None


def _set_match(stmt: ir.Stmt, match: Match) -> ir.Stmt:
    """A nest with `match` as the annotation of its block."""

    def marked(inner: ir.Stmt) -> ir.Stmt:
        if isinstance(inner, ir.Block):
            return replace(inner, annotations={**inner.annotations, "intrinsic": match})
        return inner

    return ir.transform(stmt, marked)


def _spatial_loops(nest: ir.For, block: ir.Block) -> list[str]:
    """The spatial loops of an entry, outermost first."""
    pairs = block.bindings
    names = {name for axis, v in pairs if axis.kind is not ir.AxisKind.REDUCE for name in var_names(v)}
    return [inner.var for inner in ir.find(nest, ir.For) if inner.var in names]


def _unmark(stmt: ir.Stmt) -> ir.Stmt:
    """A nest without the annotations of tensorize."""
    return ir.transform(stmt, _without_marks)


def _without_marks(stmt: ir.Stmt) -> ir.Stmt:
    """A statement without its own annotations of tensorize."""
    if not isinstance(stmt, ir.Block | ir.For):
        return stmt
    return replace(stmt, annotations={k: v for k, v in stmt.annotations.items() if k not in ("tensorize", "intrinsic")})


def _to_loops(stmt: ir.Stmt, spatial: list[str]) -> ir.Stmt:
    """A nest as plain loops: the last spatial loop vectorized, short outer ones unrolled."""

    def plain(new: ir.Stmt) -> ir.Stmt:
        new = _without_marks(new)
        if not isinstance(new, ir.For):
            return new
        kind = ir.LoopKind.SERIAL
        if new.var in spatial:
            short = isinstance(new.extent, int) and new.extent <= _MAX_UNROLLED
            kind = ir.LoopKind.VECTORIZE if new.var == spatial[-1] else ir.LoopKind.UNROLL if short else kind
        return replace(new, kind=kind)

    return ir.transform(stmt, plain)
