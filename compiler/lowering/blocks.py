# SPDX-License-Identifier: Apache-2.0
"""Passes over blocks: `decompose` gives each init a nest, `remove_blocks` leaves loops alone.

Decomposition flattens nested blocks first, so that every block is a leaf whose bindings use loop
variables alone. An init that cannot move (its binding, predicate or value depends on the reduction
loops) stays in the block, under the condition that every reduce axis is 0. Without blocks, axes are
values, predicates are If, tensorized nests are IntrinsicCall. Loops of virtual threads, which only
the accelerator has, become serial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from vdla.compiler import ir
from vdla.compiler.analysis import is_leaf, used_names
from vdla.compiler.arith import (
    FALSE,
    Linear,
    Ranges,
    ambiguous_vars,
    conjunction,
    conjuncts,
    function_ranges,
    linear,
    predicate_of,
    simplify,
    var_names,
)
from vdla.compiler.ir import ATOMIC, THREAD, Match, Names, Substitution, map_children, map_match, substitute_in
from vdla.compiler.lowering.check import PassError

_Loops = tuple[ir.For, ...]
_ZERO = ir.Const(0)


@dataclass(frozen=True, slots=True)
class _InitNest:
    """An init nest, and the loop it is placed before (None: the block itself)."""

    nest: ir.Stmt
    before: str | None


def decompose(fn: ir.Function) -> ir.Function:
    """`fn` without an `init` in any block.

    for i in range(4):                         for i in range(4):
        for k in range(8):                         block c_init(vi=i): c[vi] = 0
            block c(vi=i, vk=reduce k):   ->       for k in range(8):
                init: c[vi] = 0                        block c(vi=i, vk=reduce k):
                c[vi] = c[vi] + a[vi, vk]                  c[vi] = c[vi] + a[vi, vk]
    """
    flat = replace(fn, body=_flatten(fn.body, {}, []))
    builder = _InitBuilder(used_names(flat), function_ranges(flat))
    body, _ = _decompose_stmt(flat.body, (), builder)
    return replace(flat, body=body)


def _flatten(stmt: ir.Stmt, values: Substitution, conditions: list[ir.Expr]) -> ir.Stmt:
    """`stmt` with leaf blocks only, whose bindings and predicates use loop variables."""
    if not isinstance(stmt, ir.Block):
        return map_children(stmt, lambda child: _flatten(child, values, conditions))
    bound = tuple(ir.substitute(value, values) for value in stmt.values)
    where = [*conditions, *(ir.substitute(c, values) for c in conjuncts(stmt.predicate))]
    if is_leaf(stmt):
        return replace(stmt, values=bound, predicate=predicate_of(where))
    if stmt.init is not None:
        raise PassError(f"decompose: a block around other blocks must have no init, got {stmt.name}")
    axes = {axis.var: value for axis, value in zip(stmt.axes, bound, strict=True)}
    return _flatten(stmt.body, {**values, **axes}, where)


def _decompose_stmt(stmt: ir.Stmt, loops: _Loops, builder: _InitBuilder) -> tuple[ir.Stmt, list[_InitNest]]:
    """`stmt` without inits, and the init nests to place before an enclosing loop."""
    if isinstance(stmt, ir.Block):
        return builder.of_block(stmt, loops)
    inside = (*loops, stmt) if isinstance(stmt, ir.For) else loops
    parts = [_decompose_stmt(child, inside, builder) for child in ir.children(stmt)]
    new = ir.with_children(stmt, tuple(part for part, _ in parts)) if parts else stmt
    pending = [init for _, inits in parts for init in inits]
    if not isinstance(stmt, ir.For):
        return new, pending
    here = [init.nest for init in pending if init.before == stmt.var]
    return ir.seq(*here, new), [init for init in pending if init.before != stmt.var]


@dataclass(frozen=True, slots=True)
class _InitBuilder:
    """Builds init nests; `names` and `ranges` are those of the function."""

    names: Names
    ranges: Ranges

    def of_block(self, block: ir.Block, loops: _Loops) -> tuple[ir.Stmt, list[_InitNest]]:
        """A block without its init, and its init nest if that moves."""
        if block.init is None:
            return block, []
        init = self.nest(block, loops)
        if init is None:
            return replace(block, body=ir.seq(ir.If(_first_iteration(block), block.init), block.body), init=None), []
        rest = replace(block, init=None)
        return (ir.seq(init.nest, rest), []) if init.before is None else (rest, [init])

    def nest(self, block: ir.Block, loops: _Loops) -> _InitNest | None:
        """The init nest of a block; None if it cannot move out of the reduction loops."""
        driven = {kind: self.driving(block, kind is ir.AxisKind.REDUCE) for kind in ir.AxisKind}
        reducing, spatial = driven[ir.AxisKind.REDUCE], driven[ir.AxisKind.SPATIAL]
        running = [loop for loop in loops if loop.extent != 1 or _is_tensorized(loop)]
        first = next(
            (n for n, loop in enumerate(running) if loop.var in reducing or _is_tensorized(loop)), len(running)
        )
        inner = running[first:]
        if not self.movable(block, inner, reducing, spatial) or _reads_from(block.init, inner):
            return None
        kept = [loop for loop in inner if loop.var in spatial]
        fresh = {loop.var: self.names.fresh(f"{loop.var}_init", block.name) for loop in kept}
        values: Substitution = {loop.var: _ZERO for loop in loops if loop.var in reducing or loop.extent == 1}
        values = {**values, **{old: ir.Var(new) for old, new in fresh.items()}}
        outside = {loop.var for loop in (loops[: loops.index(inner[0])] if inner else loops)}
        ranges = {**self.ranges, **{new: self.ranges[old] for old, new in fresh.items()}}
        body = self.init_block(block, values, outside, ranges)
        for loop in reversed(kept):
            kind, bound = (
                _init_kind(loop, inner, kept),
                {THREAD: axis} if (axis := loop.annotations.get(THREAD)) else {},
            )
            body = None if body is None else ir.For(fresh[loop.var], loop.extent, body, kind, bound)
        return None if body is None else _InitNest(body, inner[0].var if inner else None)

    def driving(self, block: ir.Block, reduces: bool) -> set[str]:
        """The loops in the bindings of the reduce axes, or of all other axes."""
        pairs = block.bindings
        return {name for axis, v in pairs if (axis.kind is ir.AxisKind.REDUCE) == reduces for name in var_names(v)}

    def movable(self, block: ir.Block, inner: list[ir.For], reducing: set[str], spatial: set[str]) -> bool:
        """Whether the loops `inner` initialise each element exactly once."""
        loop_vars = {loop.var for loop in inner}
        forms = [linear(v) for a, v in block.bindings if a.kind is not ir.AxisKind.REDUCE]
        inner_forms = [form.only(lambda t: bool(var_names(t) & loop_vars)) for form in forms]
        if any(ambiguous_vars(form, self.ranges) for form in inner_forms) or not _has_partners(inner_forms):
            return False
        return loop_vars <= reducing | spatial and not loop_vars & reducing & spatial

    def init_block(self, block: ir.Block, values: Substitution, outside: set[str], ranges: Ranges) -> ir.Stmt | None:
        """The init block, at the first iteration of every reduction loop not in `outside`.

        None if the predicate excludes that iteration.
        """
        pairs = [(axis, simplify(ir.substitute(value, values), ranges)) for axis, value in block.bindings]
        inside = {name: value for name, value in values.items() if name not in outside}
        conditions = [_at_first_term(c, inside, ranges) for c in conjuncts(block.predicate)]
        reduces = [value for axis, value in pairs if axis.kind is ir.AxisKind.REDUCE]
        if FALSE in conditions or any(value != _ZERO for value in reduces) or block.init is None:
            return None
        kept = [(axis, value) for axis, value in pairs if axis.kind is not ir.AxisKind.REDUCE]
        name = self.names.fresh(f"{block.name}_init", block.name)
        axes, bound = tuple(axis for axis, _ in kept), tuple(value for _, value in kept)
        return ir.Block(name=name, axes=axes, values=bound, body=block.init, predicate=predicate_of(conditions))


def _reads_from(init: ir.Stmt | None, inner: Sequence[ir.For]) -> bool:
    """Whether an init reads buffers that the reduction loops compute."""
    if init is None or not inner:
        return False
    computed = {stmt.buffer for stmt in ir.find(inner[0], ir.Store)}
    values = (stmt.value for stmt in ir.find(init, ir.Store))
    return any(isinstance(e, ir.Load) and e.buffer in computed for value in values for e in ir.walk_expr(value))


def _at_first_term(condition: ir.Expr, values: Substitution, ranges: Ranges) -> ir.Expr:
    """A condition at the first iteration; unchanged if independent of the reduction loops."""
    new = ir.substitute(condition, values)
    return condition if new == condition else simplify(new, ranges)


def _has_partners(forms: list[Linear]) -> bool:
    """Whether each quotient comes with its remainder, so that together they determine the loop."""
    terms = {term for form in forms for term in form.terms}
    partners = {"floordiv": "mod", "mod": "floordiv"}
    return all(
        isinstance(term, ir.Var)
        or (isinstance(term, ir.Binary) and ir.Binary(partners.get(term.op, ""), term.a, term.b) in terms)
        for term in terms
    )


def _is_tensorized(loop: ir.For) -> bool:
    """Whether `loop` is the root of a tensorized nest, which cannot contain an init."""
    return "tensorize" in loop.annotations


def _init_kind(loop: ir.For, inner: list[ir.For], kept: list[ir.For]) -> ir.LoopKind:
    """The kind of a loop of an init nest: that of the reduction's loop outside tensorized nests.

    Inside, the innermost loop is vectorized and the others are unrolled, so that the sums can stay
    in registers.
    """
    entry = next((n for n, other in enumerate(inner) if _is_tensorized(other)), len(inner))
    if not any(loop is other for other in inner[entry:]):
        return loop.kind
    return ir.LoopKind.VECTORIZE if loop is kept[-1] else ir.LoopKind.UNROLL


def _first_iteration(block: ir.Block) -> ir.Expr:
    """The condition that every reduce axis is 0."""
    reduces = [axis.var for axis in block.axes if axis.kind is ir.AxisKind.REDUCE]
    return conjunction([ir.binary("eq", var, _ZERO) for var in reduces])


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
    loops = list(ir.find(nest, ir.For))
    inside = [c for c in conjuncts(block.predicate) if var_names(c) & {loop.var for loop in loops}]
    if not isinstance(match, Match) or inside or prod(loop.size for loop in loops) != _entry_size(match):
        return _remove_blocks(replace(nest, annotations={}))
    first: Substitution = {loop.var: ir.Const(0) for loop in loops}  # an entry begins where its loops do
    values = {axis: ir.substitute(value, first) for axis, value in _axis_values(block).items()}
    body = _remove_blocks(_drop_predicates(replace(nest, annotations={})))
    result = ir.IntrinsicCall(map_match(match, lambda expr: ir.substitute(expr, values)), body)
    predicate = predicate_of(conjuncts(block.predicate))
    return result if predicate is None else ir.If(predicate, result)


def _entry_size(match: Match) -> int:
    """The number of iterations that cover one entry."""
    block = next(ir.find(match.intrinsic.behaviour.body, ir.Block))
    return prod(axis.size for axis in block.axes)


def _drop_predicates(stmt: ir.Stmt) -> ir.Stmt:
    """`stmt` without the predicate of its block."""
    return ir.transform(stmt, lambda new: replace(new, predicate=None) if isinstance(new, ir.Block) else new)
