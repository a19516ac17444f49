"""Choose steps: tensorized nests whose intrinsic the CPU lacks become loops again, of lanes where they can be.

This comes before the passes, as the only choice that depends on the CPU. A nest is matched anew: rewrites since it was
tensorized may have given it other buffers, or moved its loops.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import var_names
from vdla.compiler.ir import Match, map_children
from vdla.compiler.target import Target
from vdla.compiler.tensorize.apply import TensorizeError, match_block, perfect_nest

_MAX_UNROLLED = 16  # the longest outer dimension of an entry that is unrolled, so that its sums can stay in registers


def select_intrinsics(fn: ir.Function, target: Target) -> ir.Function:
    """`fn` with only such tensorized nests as `target` has the features for.

    for o in range(16):  # tensorize=dot         for o in vectorize(16):
        for i in range(4):                 ->        for i in range(4):
            block c(...):  # intrinsic=dot               block c(...):
    """
    return replace(fn, body=_select(fn.body, fn, target))


def _select(stmt: ir.Stmt, fn: ir.Function, target: Target) -> ir.Stmt:
    """`stmt` with the nests that `target` has."""
    if not (isinstance(stmt, ir.For) and "tensorize" in stmt.annotations):
        return map_children(stmt, lambda child: _select(child, fn, target))
    block = next(inner for inner in ir.walk(stmt) if isinstance(inner, ir.Block))
    match = block.annotations.get("intrinsic")
    if not isinstance(match, Match) or (now := _match_again(stmt, fn, match.intrinsic)) is None:
        return _unmark(stmt)
    if match.intrinsic.target == "cpu" and target.has(*match.intrinsic.requires):
        return _set_match(stmt, now)
    return _to_loops(stmt, _spatial_loops(stmt, block))


def _match_again(nest: ir.For, fn: ir.Function, intrinsic: ir.DeclaredIntrinsic) -> Match | None:
    """How a nest is a step of `intrinsic` now; None if rewrites since have moved its loops or blocks."""
    try:
        block, loops = perfect_nest(nest, intrinsic)
        return match_block(fn, block, loops, intrinsic)
    except TensorizeError:
        return None


def _set_match(stmt: ir.Stmt, match: Match) -> ir.Stmt:
    """A nest whose block is a step as `match` says, of the buffers that it reads and writes now."""
    if isinstance(stmt, ir.Block):
        return replace(stmt, annotations={**stmt.annotations, "intrinsic": match})
    return map_children(stmt, lambda child: _set_match(child, match))


def _spatial_loops(nest: ir.For, block: ir.Block) -> list[str]:
    """The loops of an entry that choose the element, outermost first."""
    pairs = zip(block.axes, block.values, strict=True)
    names = {name for axis, v in pairs if axis.kind is not ir.AxisKind.REDUCE for name in var_names(v)}
    return [inner.var for inner in ir.walk(nest) if isinstance(inner, ir.For) and inner.var in names]


def _unmark(stmt: ir.Stmt) -> ir.Stmt:
    """A nest without its marks, and as it is otherwise."""
    new = map_children(stmt, _unmark)
    if not isinstance(new, ir.Block | ir.For):
        return new
    return replace(new, annotations={k: v for k, v in new.annotations.items() if k not in ("tensorize", "intrinsic")})


def _to_loops(stmt: ir.Stmt, spatial: list[str]) -> ir.Stmt:
    """A nest without its mark: the last dimension of an entry are lanes, short ones outside of it are written out."""
    new = map_children(stmt, lambda child: _to_loops(child, spatial))
    if isinstance(new, ir.Block):
        return replace(new, annotations={k: v for k, v in new.annotations.items() if k != "intrinsic"})
    if not isinstance(new, ir.For):
        return new
    kind = ir.LoopKind.SERIAL
    if new.var in spatial:
        short = isinstance(new.extent, int) and new.extent <= _MAX_UNROLLED
        kind = ir.LoopKind.VECTORIZE if new.var == spatial[-1] else ir.LoopKind.UNROLL if short else kind
    return replace(new, kind=kind, annotations={k: v for k, v in new.annotations.items() if k != "tensorize"})
