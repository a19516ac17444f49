# SPDX-License-Identifier: Apache-2.0
"""Partition: loops are split where their conditions change; the main part has no conditions.

Such conditions come from split tails, padding and the last iteration of a reduction. A loop is
split where a condition becomes constant over all iterations of the inner loops; these are split in
turn, up to a limit on code growth. Unrolled loops are not split, since unrolling resolves their
conditions. The parts of a parallel loop become branches of its body, so that all its iterations
stay parallel.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from vdla.compiler import ir
from vdla.compiler.arith import TRUE, conjunction, last_value, loop_ranges, scalar_ranges
from vdla.compiler.ir import map_children, size_of
from vdla.compiler.lowering.simplify import EMPTY, Scope, close_loop, simplify_stmt, to_extent
from vdla.compiler.lowering.symbolic_parts import (
    LoopPart,
    UndecidedRange,
    assume,
    comparisons,
    symbolic_parts,
    undecided_range,
)

_MAX_GROWTH = 5  # in stores: enough to split one loop at two points and another at one
MIN_STORES = 256  # code may always grow to this many stores
MAX_OPERATIONS = 1 << 15  # of all stores, after growth
_MAX_PEELED = 3  # undecided iterations up to this many are peeled one by one


class CodeSize(NamedTuple):
    """The size of code: its stores, and the operations in their values."""

    stores: int
    operations: int


@dataclass(slots=True)
class _Budget:
    """The code growth still allowed, and the names of the symbolic extents."""

    stores: int
    operations: int
    scalars: frozenset[str]

    def charge(self, added: CodeSize, times: int) -> bool:
        """Whether `times` copies fit the budget, which is then charged."""
        stores, operations = added.stores * times, added.operations * times
        if stores > self.stores or operations > self.operations:
            return False
        self.stores -= stores
        self.operations -= operations
        return True


def partition(fn: ir.Function) -> ir.Function:
    """`fn` with loops split where their conditions change.

    for i in range(3):                         for i in range(2):
        for j in vectorize(4):                     for j in vectorize(4):
            if i * 4 + j < 10:         ->              c[i * 4 + j] = 0
                c[i * 4 + j] = 0               for j in vectorize(2):
                                                   c[j + 8] = 0
    """
    before = code_size(fn.body)
    stores = max((_MAX_GROWTH - 1) * before.stores, MIN_STORES - before.stores)
    budget = _Budget(stores, MAX_OPERATIONS - before.operations, frozenset(fn.scalars))
    return replace(fn, body=_partition_stmt(fn.body, Scope(scalar_ranges(fn)), budget))


def code_size(stmt: ir.Stmt) -> CodeSize:
    """The size of `stmt` after unrolling."""
    if isinstance(stmt, ir.Store):
        return CodeSize(1, size_of(stmt.value).nodes)
    times = 1
    if isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.UNROLL and isinstance(stmt.extent, int):
        times = stmt.extent
    inside = [code_size(child) for child in ir.children(stmt)]
    return CodeSize(times * sum(w.stores for w in inside), times * sum(w.operations for w in inside))


def _partition_stmt(stmt: ir.Stmt, scope: Scope, budget: _Budget) -> ir.Stmt:
    """`stmt` with its loops split."""
    match stmt:
        case ir.For():
            return _partition_loop(stmt, scope, budget)
        case ir.If(cond=cond, body=body):
            return ir.If(cond, _partition_stmt(body, scope.where(cond), budget))
        case ir.IntrinsicCall():
            return stmt
    return map_children(stmt, lambda child: _partition_stmt(child, scope, budget))


def _partition_loop(stmt: ir.For, scope: Scope, budget: _Budget) -> ir.Stmt:
    """The parts of a loop, with the loops inside split in turn."""
    parts = _loop_parts(stmt, budget.scalars)
    if not parts or not budget.charge(code_size(stmt.body), len(parts) - 1):
        return replace(stmt, body=_partition_stmt(stmt.body, scope.inside(stmt), budget))
    if stmt.kind is ir.LoopKind.PARALLEL:
        return replace(stmt, body=ir.seq(*(_branch(stmt, part, scope, budget) for part in parts)))
    pieces = [_piece(stmt, part, scope) for part in parts]
    # The longest part comes first, while there is budget left.
    order = sorted(range(len(parts)), key=lambda n: -_iterations(pieces[n], stmt.var))
    inner = {n: _partition_within(pieces[n], stmt.var, scope, budget) for n in order}
    return ir.seq(*(inner[n] for n in range(len(parts))))


def _branch(stmt: ir.For, part: LoopPart, scope: Scope, budget: _Budget) -> ir.Stmt:
    """A part of a parallel loop, as a branch of its body."""
    var, inside = ir.Var(stmt.var), scope.inside(stmt)
    first, end = inside.index(part.first), inside.index(part.end)
    cond = conjunction([ir.Binary("ge", var, first), ir.Binary("lt", var, end)])
    if scope.index(ir.Binary("sub", part.end, part.first)) == ir.Const(1):
        cond, inside = ir.Binary("eq", var, first), inside.bound(stmt.var, first)
    else:
        cond = inside.condition(cond)
        inside = inside.where(cond)
    body = _partition_stmt(simplify_stmt(assume(stmt.body, part.holding), inside), inside, budget)
    return EMPTY if body == EMPTY else body if cond == TRUE else ir.If(cond, body)


def _iterations(stmt: ir.Stmt, var: str) -> int:
    """The number of iterations of a part over `var`."""
    if isinstance(stmt, ir.For) and stmt.var == var:
        return last_value(stmt.extent, {}) + 1
    return 1


def _loop_parts(stmt: ir.For, scalars: Collection[str]) -> list[LoopPart]:
    """The parts that a loop is split into; none if it stays whole."""
    if stmt.kind is ir.LoopKind.UNROLL:
        return []
    inner, conditions = loop_ranges(stmt.body), set(comparisons(stmt.body))
    symbolic = symbolic_parts(stmt, conditions, inner, scalars) if scalars else []
    if symbolic or not isinstance(stmt.extent, int):
        return symbolic
    edges = {edge for c in conditions if (z := undecided_range(c, stmt.var, inner)) is not None for edge in _edges(z)}
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
        inside = inside.bound(stmt.var, ir.binary("add", stmt.var, first))
    return close_loop(new, simplify_stmt(body, inside))


def _partition_within(part: ir.Stmt, var: str, scope: Scope, budget: _Budget) -> ir.Stmt:
    """A part with its inner loops split; the loop over `var` itself is done."""
    if isinstance(part, ir.For) and part.var == var:
        return replace(part, body=_partition_stmt(part.body, scope.inside(part), budget))
    return _partition_stmt(part, scope, budget)


def _edges(undecided: UndecidedRange) -> range:
    """The split points of an undecided range: its ends, and each iteration if it is short."""
    length = max(undecided.end - undecided.first, 1)
    return range(undecided.first, undecided.end + 1, 1 if length <= _MAX_PEELED else length)
