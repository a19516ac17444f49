"""Partition: loops are cut where their conditions change, so that the main part is free of them.

Conditions are those of split tails, of padding, of the last iteration of a sum. A loop is cut where a condition is
decided for all iterations of the loops inside; these are cut in turn in each part, as far as the growth of the code
allows. Unrolled loops are not cut: writing them out decides their conditions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from vdla.compiler import ir
from vdla.compiler.affine import Range
from vdla.compiler.passes.scope import Scope
from vdla.compiler.passes.simplify import closed, simplified
from vdla.compiler.passes.walk import last, scalar_ranges, with_bodies
from vdla.compiler.passes.zones import Zone, comparisons, zone

GROWTH = 3  # times as many stores as before, at most,
SMALL = 256  # or as many as that
PEELED = 3  # iterations in which a condition depends on inner loops that are taken one by one


@dataclass(slots=True)
class Budget:
    """How many stores may be added."""

    stores: int

    def pays(self, stores: int) -> bool:
        """Whether there is enough left, which is then taken."""
        if stores > self.stores:
            return False
        self.stores -= stores
        return True


def partition(fn: ir.Function) -> ir.Function:
    """`fn` with loops cut where their conditions change.

    for i in range(3):                         for i in range(2):
        for j in vectorize(4):                     for j in vectorize(4):
            if i * 4 + j < 10:         ->              c[i * 4 + j] = 0
                c[i * 4 + j] = 0               for j in vectorize(2):
                                                   c[j + 8] = 0
    """
    before = weight(fn.body)
    budget = Budget(max((GROWTH - 1) * before, SMALL - before))
    return replace(fn, body=partitioned(fn.body, Scope(scalar_ranges(fn)), budget))


def weight(stmt: ir.Stmt) -> int:
    """How many stores `stmt` is when its UNROLL loops are written out."""
    if isinstance(stmt, ir.Store):
        return 1
    times = stmt.extent if isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.UNROLL else 1
    inside = sum(weight(child) for child in ir.children(stmt))
    return inside * times if isinstance(times, int) else inside


def partitioned(stmt: ir.Stmt, scope: Scope, budget: Budget) -> ir.Stmt:
    """`stmt` with its loops cut."""
    match stmt:
        case ir.For():
            return loop(stmt, scope, budget)
        case ir.If(cond=cond, body=body):
            return ir.If(cond, partitioned(body, scope.where(cond), budget))
        case ir.Step():
            return stmt
    return with_bodies(stmt, lambda child: partitioned(child, scope, budget))


def loop(stmt: ir.For, scope: Scope, budget: Budget) -> ir.Stmt:
    """A loop cut, and the loops inside each part."""
    edges = cuts(stmt)
    pieces = len(edges) + 1
    if not edges or not budget.pays((pieces - 1) * weight(stmt.body)):
        return replace(stmt, body=partitioned(stmt.body, scope.inside(stmt), budget))
    ends = [0, *edges, stmt.size]
    parts = [piece(stmt, first, end, scope) for first, end in pairwise(ends)]
    order = sorted(range(pieces), key=lambda n: ends[n] - ends[n + 1])  # the longest takes of the budget first
    inner = {n: within(parts[n], stmt.var, scope, budget) for n in order}
    return ir.seq(*(inner[n] for n in range(pieces)))


def piece(stmt: ir.For, first: int, end: int, scope: Scope) -> ir.Stmt:
    """The iterations [first, end) of a loop, counted from 0 and simplified."""
    if end - first == 1:
        return simplified(stmt.body, scope.bound(stmt.var, ir.Const(first)))
    part = replace(stmt, extent=end - first)
    index = ir.Binary("add", ir.Var(stmt.var), ir.Const(first))
    return closed(part, simplified(stmt.body, scope.inside(part).bound(stmt.var, index)))


def within(part: ir.Stmt, var: str, scope: Scope, budget: Budget) -> ir.Stmt:
    """A part with the loops inside cut; that over `var` itself has no more conditions that could cut it."""
    if isinstance(part, ir.For) and part.var == var:
        return replace(part, body=partitioned(part.body, scope.inside(part), budget))
    return partitioned(part, scope, budget)


def cuts(stmt: ir.For) -> list[int]:
    """The iterations, other than the first, at which a part begins."""
    if stmt.kind is ir.LoopKind.UNROLL or not isinstance(stmt.extent, int):
        return []
    inner = inner_ranges(stmt.body)
    found = {zone(comparison, stmt.var, inner) for comparison in comparisons(stmt.body)}
    edges = {edge for z in found if z is not None for edge in edges_of(z)}
    return sorted(edge for edge in edges if 0 < edge < stmt.extent)


def edges_of(z: Zone) -> range:
    """Where a zone cuts: at its ends, and at each iteration of a short one."""
    length = max(z.end - z.first, 1)
    return range(z.first, z.end + 1, 1 if length <= PEELED else length)


def inner_ranges(stmt: ir.Stmt) -> dict[str, Range]:
    """The bounds of the loops in a statement."""
    found: dict[str, Range] = {}
    for inner in ir.walk(stmt):
        if isinstance(inner, ir.For) and isinstance(inner.extent, int):
            high = found.get(inner.var, (0, 0))[1]
            found[inner.var] = (0, max(high, last(inner, {})))
    return found
