"""Partition: loops are cut where their conditions change, so that the main part is free of them.

Conditions are those of split tails, of padding, of the last iteration of a sum. A loop is cut where a condition is
decided for all iterations of the loops inside; these are cut in turn in each part, as far as the growth of the code
allows. Unrolled loops are not cut: writing them out decides their conditions. The parts of a parallel loop become
branches of its body, so that all iterations still run at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from vdla.compiler import ir
from vdla.compiler.arith import TRUE, conjunction, last_value, loop_ranges, scalar_ranges
from vdla.compiler.ir import map_children, size_of
from vdla.compiler.lowering.scope import Scope
from vdla.compiler.lowering.simplify import EMPTY, close_loop, simplify_stmt, to_extent
from vdla.compiler.lowering.split_points import UndecidedRange, comparisons, undecided_range
from vdla.compiler.lowering.symbolic_parts import LoopPart, assume, symbolic_parts

_MAX_GROWTH = 5  # times as many stores as before, at most: two loops cut, in two places one of them,
MIN_STORES = 256  # or as many as that;
MAX_OPERATIONS = 1 << 15  # but no more operations than these in all
_MAX_PEELED = 3  # iterations in which a condition depends on inner loops that are taken one by one


class CodeSize(NamedTuple):
    """How much code a statement is: its stores, and the operations in their values."""

    stores: int
    operations: int


@dataclass(slots=True)
class _Budget:
    """How many stores and operations may be added, and which variables are symbolic extents."""

    stores: int
    operations: int
    scalars: frozenset[str]

    def pays(self, added: CodeSize, times: int) -> bool:
        """Whether there is enough left, which is then taken."""
        stores, operations = added.stores * times, added.operations * times
        if stores > self.stores or operations > self.operations:
            return False
        self.stores -= stores
        self.operations -= operations
        return True


def partition(fn: ir.Function) -> ir.Function:
    """`fn` with loops cut where their conditions change.

    for i in range(3):                         for i in range(2):
        for j in vectorize(4):                     for j in vectorize(4):
            if i * 4 + j < 10:         ->              c[i * 4 + j] = 0
                c[i * 4 + j] = 0               for j in vectorize(2):
                                                   c[j + 8] = 0
    """
    before = code_size(fn.body)
    stores = max((_MAX_GROWTH - 1) * before.stores, MIN_STORES - before.stores)
    cutter = _Budget(stores, MAX_OPERATIONS - before.operations, frozenset(fn.scalars))
    return replace(fn, body=_partition_stmt(fn.body, Scope(scalar_ranges(fn)), cutter))


def code_size(stmt: ir.Stmt) -> CodeSize:
    """How much code `stmt` is when its UNROLL loops are written out."""
    if isinstance(stmt, ir.Store):
        return CodeSize(1, size_of(stmt.value).nodes)
    times = 1
    if isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.UNROLL and isinstance(stmt.extent, int):
        times = stmt.extent
    inside = [code_size(child) for child in ir.children(stmt)]
    return CodeSize(times * sum(w.stores for w in inside), times * sum(w.operations for w in inside))


def _partition_stmt(stmt: ir.Stmt, scope: Scope, cutter: _Budget) -> ir.Stmt:
    """`stmt` with its loops cut."""
    match stmt:
        case ir.For():
            return _partition_loop(stmt, scope, cutter)
        case ir.If(cond=cond, body=body):
            return ir.If(cond, _partition_stmt(body, scope.where(cond), cutter))
        case ir.IntrinsicCall():
            return stmt
    return map_children(stmt, lambda child: _partition_stmt(child, scope, cutter))


def _partition_loop(stmt: ir.For, scope: Scope, cutter: _Budget) -> ir.Stmt:
    """A loop cut, and the loops inside each part."""
    parts = _loop_parts(stmt, cutter.scalars)
    if not parts or not cutter.pays(code_size(stmt.body), len(parts) - 1):
        return replace(stmt, body=_partition_stmt(stmt.body, scope.inside(stmt), cutter))
    if stmt.kind is ir.LoopKind.PARALLEL:
        return replace(stmt, body=ir.seq(*(_branch(stmt, part, scope, cutter) for part in parts)))
    pieces = [_piece(stmt, part, scope) for part in parts]
    order = sorted(
        range(len(parts)), key=lambda n: -_iterations(pieces[n], stmt.var)
    )  # the longest part is paid for first
    inner = {n: _partition_within(pieces[n], stmt.var, scope, cutter) for n in order}
    return ir.seq(*(inner[n] for n in range(len(parts))))


def _branch(stmt: ir.For, part: LoopPart, scope: Scope, cutter: _Budget) -> ir.Stmt:
    """A part of a parallel loop, whose iterations stay together so that all of them run at once: a condition."""
    var, inside = ir.Var(stmt.var), scope.inside(stmt)
    first, end = inside.index(part.first), inside.index(part.end)
    cond = conjunction([ir.Binary("ge", var, first), ir.Binary("lt", var, end)])
    if scope.index(ir.Binary("sub", part.end, part.first)) == ir.Const(1):
        cond, inside = ir.Binary("eq", var, first), inside.bound(stmt.var, first)
    else:
        cond = inside.condition(cond)
        inside = inside.where(cond)
    body = _partition_stmt(simplify_stmt(assume(stmt.body, part.holding), inside), inside, cutter)
    return EMPTY if body == EMPTY else body if cond == TRUE else ir.If(cond, body)


def _iterations(stmt: ir.Stmt, var: str) -> int:
    """How many iterations of the loop over `var` a part has."""
    if isinstance(stmt, ir.For) and stmt.var == var:
        return last_value(stmt.extent, {}) + 1
    return 1


def _loop_parts(stmt: ir.For, scalars: Collection[str]) -> list[LoopPart]:
    """The parts in which a loop is cut; none if it is not."""
    if stmt.kind is ir.LoopKind.UNROLL:
        return []
    inner, found = loop_ranges(stmt.body), set(comparisons(stmt.body))
    symbolic = symbolic_parts(stmt, found, inner, scalars) if scalars else []
    if symbolic or not isinstance(stmt.extent, int):
        return symbolic
    edges = {edge for c in found if (z := undecided_range(c, stmt.var, inner)) is not None for edge in _edges(z)}
    ends = [0, *sorted(edge for edge in edges if 0 < edge < stmt.extent), stmt.extent]
    parts = [LoopPart(ir.Const(first), ir.Const(end), frozenset()) for first, end in pairwise(ends)]
    return parts if len(parts) > 1 else []


def _piece(stmt: ir.For, part: LoopPart, scope: Scope) -> ir.Stmt:
    """A part of a loop, counted from 0 and simplified."""
    body = assume(stmt.body, part.holding)
    extent = to_extent(scope.index(ir.Binary("sub", part.end, part.first)))
    first = scope.index(part.first)
    if isinstance(extent, int) and extent <= 1:
        return EMPTY if extent < 1 else simplify_stmt(body, scope.bound(stmt.var, first))
    new = replace(stmt, extent=extent)
    inside = scope.inside(new)
    if first != ir.Const(0):
        inside = inside.bound(stmt.var, ir.Binary("add", ir.Var(stmt.var), first))
    return close_loop(new, simplify_stmt(body, inside))


def _partition_within(part: ir.Stmt, var: str, scope: Scope, cutter: _Budget) -> ir.Stmt:
    """A part with the loops inside cut; that over `var` itself has no more conditions that could cut it."""
    if isinstance(part, ir.For) and part.var == var:
        return replace(part, body=_partition_stmt(part.body, scope.inside(part), cutter))
    return _partition_stmt(part, scope, cutter)


def _edges(z: UndecidedRange) -> range:
    """Where a zone cuts: at its ends, and at each iteration of a short one."""
    length = max(z.end - z.first, 1)
    return range(z.first, z.end + 1, 1 if length <= _MAX_PEELED else length)
