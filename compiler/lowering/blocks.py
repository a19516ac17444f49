"""Remove blocks: axes become values, predicates become If, tensorized nests become IntrinsicCall.

Loops of virtual threads, which only the accelerator has, become serial.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from vdla.compiler import ir
from vdla.compiler.arith import conjuncts, predicate_of, var_names
from vdla.compiler.ir import ATOMIC, Match, Substitution, map_children, map_match, substitute_in
from vdla.compiler.lowering.check import PassError


def remove_blocks(fn: ir.Function) -> ir.Function:
    """`fn` without blocks.

    for i in range(4):                                       for i in range(4):
        block c(vi=i * 2) where i < 3: c[vi] = a[vi]   ->        if i < 3:
                                                                     c[i * 2] = a[i * 2]
    """
    return replace(fn, body=_remove_blocks(fn.body))


def _remove_blocks(stmt: ir.Stmt) -> ir.Stmt:
    """`stmt` without blocks."""
    match stmt:
        case ir.Block(predicate=predicate):
            body = substitute_in(stmt.body, _axis_values(stmt))
            body = _atomic(stmt.name, body) if ATOMIC in stmt.annotations else body
            return body if predicate is None else ir.If(predicate, body)
        case ir.For(annotations=annotations) if "tensorize" in annotations:
            return _intrinsic_call(stmt)
    new = map_children(stmt, _remove_blocks)
    return replace(new, kind=ir.LoopKind.SERIAL) if _is_vthread(new) and isinstance(new, ir.For) else new


def _atomic(block: str, body: ir.Stmt) -> ir.Stmt:
    """The body of an atomic block."""
    if not isinstance(body, ir.Store):
        rule = f"the start of {block}, which is atomic, must be in a nest before its reduce loops"
        raise PassError(f"remove blocks: {rule}, got one inside")
    return ir.Atomic(body)


def _is_vthread(stmt: ir.Stmt) -> bool:
    """Whether `stmt` is a loop of virtual threads."""
    return isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.VTHREAD


def _axis_values(block: ir.Block) -> Substitution:
    """The values that the axes are bound to."""
    return {axis.var: value for axis, value in block.bindings}


def _intrinsic_call(nest: ir.For) -> ir.Stmt:
    """The intrinsic call of a tensorized nest.

    The loops remain if the predicate varies within an entry, or if the nest no longer covers
    exactly one entry because a later primitive moved its loops.
    """
    block = next(ir.find(nest, ir.Block))
    match = block.annotations.get("intrinsic")
    own = list(ir.find(nest, ir.For))
    inside = [c for c in conjuncts(block.predicate) if var_names(c) & {loop.var for loop in own}]
    if not isinstance(match, Match) or inside or prod(loop.size for loop in own) != _entry_size(match):
        return _remove_blocks(replace(nest, annotations={}))
    first: Substitution = {loop.var: ir.Const(0) for loop in own}  # an entry begins where its loops do
    values = {axis: ir.substitute(value, first) for axis, value in _axis_values(block).items()}
    body = _remove_blocks(_drop_predicates(replace(nest, annotations={})))
    found = ir.IntrinsicCall(map_match(match, lambda expr: ir.substitute(expr, values)), body)
    predicate = predicate_of(conjuncts(block.predicate))
    return found if predicate is None else ir.If(predicate, found)


def _entry_size(match: Match) -> int:
    """The number of iterations that cover one entry."""
    block = next(ir.find(match.intrinsic.behaviour.body, ir.Block))
    return prod(axis.size for axis in block.axes)


def _drop_predicates(stmt: ir.Stmt) -> ir.Stmt:
    """`stmt` without the predicate of its block."""
    return ir.transform(stmt, lambda new: replace(new, predicate=None) if isinstance(new, ir.Block) else new)
