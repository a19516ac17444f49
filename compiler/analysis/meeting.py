# SPDX-License-Identifier: Apache-2.0
"""Whether accesses of two different threads, or of two blocks, meet in one element.

A proof by the sizes of the terms comes first: of two equal indices, terms that outweigh all smaller
ones are equal. Where it fails, the elements are listed and compared, so that the answer is exact
while the lists are short and the indices do not depend on data; else it is "they may".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.analysis.access import Indices
from vdla.compiler.arith import Linear, evaluate, is_evaluable, linear, linear_bounds, open_grid, var_names

_MOST_POINTS = 1 << 22
_Array = npt.NDArray[np.int64]
_Rows = list[tuple[Linear, Linear]]  # an index of one side, and the same of the other


@dataclass(frozen=True, slots=True)
class MeetingSide:
    """One access: its indices, its conditions, and the extents of the variables in both."""

    indices: Indices
    conditions: tuple[ir.Expr, ...]
    extents: Mapping[str, ir.Extent]

    @property
    def key(self) -> tuple[object, ...]:
        """The side as a key of a table."""
        return self.indices, self.conditions, tuple(self.extents.items())

    def ranges(self) -> dict[str, tuple[int, int]]:
        """The bounds of the variables whose extents are numbers."""
        return {name: (0, extent - 1) for name, extent in self.extents.items() if isinstance(extent, int)}


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two accesses whose variables `equal` have one value on both sides.

    `agents` are the axes that tell threads, or blocks, apart; each `group` consecutive agents, the
    first axis counting fastest, count as one. The value of `carried` on the second side is one more
    than on the first.
    """

    first: MeetingSide
    second: MeetingSide
    agents: tuple[str, ...]
    equal: frozenset[str]
    carried: str | None = None
    group: int = 1

    @property
    def key(self) -> tuple[object, ...]:
        """The question as a key of a table."""
        return self.first.key, self.second.key, self.agents, self.equal, self.carried, self.group

    def possible(self) -> bool:
        """Whether two different agents may access one element."""
        if not self.agents:
            return False
        rows = [self.without_equal(linear(a), linear(b)) for a, b in zip(self.indices(0), self.indices(1), strict=True)]
        if any(self.always_differ(a, b) for a, b in rows):
            return False
        return not self.is_apart(rows) and self.meets(rows)

    def indices(self, side: int) -> Indices:
        """The indices of one side."""
        return (self.first, self.second)[side].indices

    def without_equal(self, a: Linear, b: Linear) -> tuple[Linear, Linear]:
        """An index of both sides without the terms that cancel in their difference."""
        gone, shift = set[ir.Expr](), 0
        for term, factor in a.terms.items():
            if b.terms.get(term) == factor:
                if term == ir.Var(self.carried or ""):
                    gone.add(term)
                    shift = factor
                elif var_names(term) <= self.equal:
                    gone.add(term)
        left, right = (Linear({t: f for t, f in x.terms.items() if t not in gone}, x.const) for x in (a, b))
        return left, right + shift

    # --- proof by the iteration alone

    def always_differ(self, a: Linear, b: Linear) -> bool:
        """Whether an index of both sides that no thread changes differs, as the half of a tile that
        two iterations use in turn."""
        names = sorted(var_names(a.expr()) | var_names(b.expr()))
        extents = [self.first.extents.get(name) for name in names]
        sizes = [
            extent - (name == self.carried)
            for name, extent in zip(names, extents, strict=True)
            if isinstance(extent, int)
        ]
        known = len(sizes) == len(names) and {*names} <= self.equal | {self.carried}
        if not known or prod(sizes) > _MOST_POINTS or not (is_evaluable(a.expr()) and is_evaluable(b.expr())):
            return False
        grid = open_grid(names, sizes)
        one = np.asarray(evaluate(a.expr(), grid))
        if self.carried in grid:
            grid[self.carried] = grid[self.carried] + 1
        return bool(np.all(one != np.asarray(evaluate(b.expr(), grid))))

    # --- proof by size

    def is_apart(self, rows: _Rows) -> bool:
        """Whether equal elements imply one agent, by the sizes of terms."""
        known: set[ir.Expr] = set()
        rows = list(rows)
        while True:
            new_terms = {term for row in rows for term in self.equal_terms(row, known)} - known
            known |= new_terms
            if all(ir.Var(axis) in known for axis in self.agents):
                return True
            if not new_terms:
                return False
            quotients = [t for t in new_terms if isinstance(t, ir.Binary) and t.op in ("floordiv", "mod")]
            for t in quotients:
                other = ir.Binary("mod" if t.op == "floordiv" else "floordiv", t.a, t.b)
                if other in known:
                    rows.append((linear(t.a), linear(t.a)))

    def equal_terms(self, row: tuple[Linear, Linear], known: Collection[ir.Expr]) -> list[ir.Expr]:
        """The terms that are equal if both indices of a row are."""
        ranges = self.first.ranges(), self.second.ranges()
        both = {t for t in known if row[0].terms.get(t, 0) == row[1].terms.get(t)}
        a, b = (Linear({t: f for t, f in form.terms.items() if t not in both}, form.const) for form in row)
        result: list[ir.Expr] = []
        while a.terms and b.terms:
            (one, factor), (two, other) = (max(form.terms.items(), key=lambda item: abs(item[1])) for form in (a, b))
            a, b = a + Linear({one: -factor}), b + Linear({two: -other})
            (low, high), (least, most) = linear_bounds(a, ranges[0]), linear_bounds(b, ranges[1])
            if factor != other or max(high - least, most - low) >= abs(factor):
                break
            if one == two:
                result.append(one)
        return result

    # --- comparison of elements

    def meets(self, rows: _Rows) -> bool:
        """Whether two agents have an element in common; true where the lists would be too long."""
        rows = [row for row in rows if all(is_evaluable(form.expr()) for form in row)]
        conditions = [tuple(c for c in side.conditions if is_evaluable(c)) for side in (self.first, self.second)]
        for kept in (conditions, [(), ()]):
            used = [
                set().union(*(var_names(form.expr()) for form in forms), *(var_names(c) for c in kept[side]))
                for side, forms in enumerate(zip(*rows, strict=True) if rows else ((), ()))
            ]
            shared = sorted((used[0] | used[1]) & (self.equal | {self.carried or ""}))
            lists = [self.elements(n, [row[n] for row in rows], kept[n], shared, used[n]) for n in (0, 1)]
            if lists[0] is not None and lists[1] is not None:
                return _differ(lists[0], lists[1])
        return True

    def elements(
        self, side: int, forms: list[Linear], conditions: Iterable[ir.Expr], shared: list[str], used: set[str]
    ) -> tuple[list[_Array], _Array] | None:
        """The elements that a side accesses, as columns, and the agent of each; None if there are
        too many."""
        extents = (self.first, self.second)[side].extents
        names = [*shared, *self.agents, *sorted(used - {*shared, *self.agents})]
        sizes: list[int] = []
        for name in names:
            extent = extents.get(name)
            if not isinstance(extent, int):
                return None
            sizes.append(extent - (name == self.carried))
        if prod(sizes) > _MOST_POINTS:
            return None
        grid = open_grid(names, sizes)
        agent = np.zeros((1,) * len(names), np.int64)
        for axis in reversed(self.agents):
            agent = agent * sizes[names.index(axis)] + grid[axis]
        agent = agent // self.group
        columns = [grid[name] for name in shared]
        if side and self.carried in grid:
            grid[self.carried] = grid[self.carried] + 1
        held = np.ones((1,) * len(names), np.bool_)
        for condition in conditions:
            held = held & np.asarray(evaluate(condition, grid), np.bool_)
        columns += [np.asarray(evaluate(form.expr(), grid), np.int64) for form in forms]
        mask = np.broadcast_to(held, sizes)
        return [np.broadcast_to(column, sizes)[mask] for column in columns], np.broadcast_to(agent, sizes)[mask]


def _differ(one: tuple[list[_Array], _Array], two: tuple[list[_Array], _Array]) -> bool:
    """Whether some element is accessed by one agent in one list and by another in the other."""
    if not one[1].size or not two[1].size:
        return False
    keys = [np.zeros(side[1].shape, np.int64) for side in (one, two)]
    for a, b in zip(one[0], two[0], strict=True):
        low, high = min(a.min(), b.min()), max(a.max(), b.max())
        keys = [key * (high - low + 1) + (column - low) for key, column in zip(keys, (a, b), strict=True)]
    (left, least, most), (right, low, high) = _agents(keys[0], one[1]), _agents(keys[1], two[1])
    _, i, j = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    return bool(((least[i] != high[j]) | (most[i] != low[j])).any())


def _agents(keys: _Array, agents: _Array) -> tuple[_Array, _Array, _Array]:
    """The distinct keys, and the least and the greatest agent of each."""
    order = np.argsort(keys, kind="stable")
    keys, agents = keys[order], agents[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], np.minimum.reduceat(agents, starts), np.maximum.reduceat(agents, starts)
