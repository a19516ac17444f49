# SPDX-License-Identifier: Apache-2.0
"""A tensorized nest: one tensorized block with the loops around it, at concrete addresses.

An intrinsic's `lower` turns a `TensorizedNest` into instructions. Positions are counted in entries
of the operand (its declared shape), from the start of an on-chip tile or of a tensor in DRAM; they
are affine in the loops except for `rest`. A nest stands for all iterations of the loops around it
in which only the bases differ: a base is an int64[n] with one position for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.arith import Values, evaluate, var_names
from vdla.compiler.codegen.vdla.macro_op import BufferTile, Offset
from vdla.compiler.ir import Match
from vdla.hardware.config import Config


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a nest; the iterations of a `reduce` loop add to the same result."""

    var: str
    extent: int
    reduce: bool = False


@dataclass(frozen=True, slots=True)
class EntryAccess:
    """The position of an operand's entry: `base` + sum of step * loop + sum of scale * expression.

    `place` is an on-chip tile or the name of a tensor in DRAM. `base` is an integer, or int64[n]
    for the n iterations that the nest stands for.
    """

    place: BufferTile | str
    base: Offset
    steps: Mapping[str, int]
    rest: tuple[tuple[ir.Expr, int], ...] = ()

    def step(self, var: str) -> int:
        """The distance between two iterations of the loop."""
        return self.steps.get(var, 0)

    def irregular(self, var: str) -> bool:
        """Whether the position is not affine in the loop."""
        return bool(self.rest) and any(var in var_names(expr) for expr, _ in self.rest)

    def at(self, point: Values) -> npt.NDArray[np.int64]:
        """The positions at loop values (numbers or arrays); a loop missing from `point` is 0."""
        return self.base + self.relative(point)

    def relative(self, point: Values) -> npt.NDArray[np.int64]:
        """The positions at loop values, from `base`."""
        total = np.asarray(0, np.int64)
        for var, step in self.steps.items():
            total = total + step * np.asarray(point.get(var, 0), np.int64)
        for expr, scale in self.rest:
            total = total + scale * np.asarray(evaluate(expr, point, default=0), np.int64)
        return total

    def fix(self, var: str, value: int) -> EntryAccess:
        """The access with one loop at `value`."""
        steps = {v: s for v, s in self.steps.items() if v != var}
        base, rest = self.base + self.step(var) * value, list[tuple[ir.Expr, int]]()
        for expr, scale in self.rest:
            known = ir.substitute(expr, {var: ir.Const(value)})
            if any(isinstance(e, ir.Var) for e in ir.walk_expr(known)):
                rest.append((known, scale))
            else:
                base += scale * int(evaluate(known, {}))
        return EntryAccess(self.place, base, steps, tuple(rest))

    def at_zero(self, names: Collection[str]) -> EntryAccess:
        """The access with loops at 0."""
        if self.rest and any(self.irregular(var) for var in names):
            return reduce(lambda access, var: access.fix(var, 0), names, self)
        return EntryAccess(self.place, self.base, {v: s for v, s in self.steps.items() if v not in names}, self.rest)

    def offsets_along(self, var: str, extent: int) -> npt.NDArray[np.int64] | None:
        """The sum of `rest` in each iteration of the loop, None if other loops change it too."""
        total = np.zeros(extent, np.int64)
        for expr, scale in self.rest:
            names = var_names(expr)
            if var in names and names != {var}:
                return None
            if var in names:
                total = total + scale * evaluate(expr, {var: np.arange(extent)})
        return total

    def piece(self, var: str, first: int, extent: int) -> EntryAccess:
        """The access over iterations first to first + extent of a loop, where it is affine."""
        offsets = self.offsets_along(var, first + extent)
        assert offsets is not None
        step = int(offsets[first + 1] - offsets[first]) if extent > 1 else 0
        rest = tuple((e, scale) for e, scale in self.rest if ir.Var(var) not in ir.walk_expr(e))
        base = self.base + self.step(var) * first + int(offsets[first])
        return EntryAccess(self.place, base, {**self.steps, var: self.step(var) + step}, rest)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """An intrinsic that consumes each finished result in the same pass."""

    match: Match
    access: Mapping[str, EntryAccess]


@dataclass(frozen=True, slots=True)
class TensorizedNest:
    """Steps of one intrinsic.

    `init`: sums start here instead of continuing from the output's contents. `valid[var]` = (first,
    end) is the range of iterations in which the intrinsic's condition holds; the others are
    padding. With `all_padding`, all of them are. `source` is a line of the schedule.
    """

    config: Config
    match: Match
    loops: tuple[Loop, ...]
    access: Mapping[str, EntryAccess]
    init: bool = True
    epilogue: Epilogue | None = None
    valid: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    all_padding: bool = False
    source: int = -1

    def fix(self, loop: Loop, value: int) -> TensorizedNest:
        """The nest with one loop at `value`.

        A reduction starts in its first iteration and ends in its last.
        """
        ends = not loop.reduce or value == loop.extent - 1
        start, end = self.valid.get(loop.var, (0, loop.extent))
        return replace(
            self.mapped(lambda access: access.fix(loop.var, value), epilogue=ends),
            loops=tuple(other for other in self.loops if other is not loop),
            init=self.init and (not loop.reduce or value == 0),
            valid={var: bounds for var, bounds in self.valid.items() if var != loop.var},
            all_padding=self.all_padding or not start <= value < end,
        )

    def piece(self, loop: Loop, first: int, extent: int) -> TensorizedNest:
        """The nest over some iterations of a spatial loop, in which every position is affine."""
        part = replace(loop, extent=extent)
        return replace(
            self.mapped(lambda access: access.piece(loop.var, first, extent)),
            loops=tuple(part if other is loop else other for other in self.loops),
        )

    def mapped(self, change: Callable[[EntryAccess], EntryAccess], *, epilogue: bool = True) -> TensorizedNest:
        """The nest with all its accesses changed; without an epilogue, if so asked."""
        after = self.epilogue if epilogue else None
        if after is not None:
            after = replace(after, access={operand: change(access) for operand, access in after.access.items()})
        access = {operand: change(access) for operand, access in self.access.items()}
        return replace(self, access=access, epilogue=after)

    def all_accesses(self) -> list[EntryAccess]:
        """The accesses of the intrinsic and of its epilogue."""
        return [*self.access.values(), *(self.epilogue.access.values() if self.epilogue else ())]


def affine_pieces(nest: TensorizedNest, loop: Loop) -> list[tuple[int, int]]:
    """(first, extent) of the maximal runs of iterations with affine positions, in order."""
    offsets = [a.offsets_along(loop.var, loop.extent) for a in nest.all_accesses() if a.irregular(loop.var)]
    if loop.reduce or any(values is None for values in offsets):
        return [(value, 1) for value in range(loop.extent)]
    steps = np.stack([np.diff(values) for values in offsets if values is not None])
    pieces, first = [], 0
    while first < loop.extent:
        same = (steps[:, first:] == steps[:, first : first + 1]).all(axis=0)
        extent = int(np.argmin(same)) if not same.all() else len(same)
        pieces.append((first, extent + 1))
        first += extent + 1
    return pieces


def simplify_loops(nest: TensorizedNest) -> TensorizedNest:
    """The nest without loops of one iteration, with adjacent loops merged where possible."""
    nest = _without_single(nest)
    position = len(nest.loops) - 2
    while position >= 0:
        outer, inner = nest.loops[position : position + 2]
        if _mergeable(nest, outer, inner):
            nest = _merge(nest, outer, inner)
        position -= 1
    return nest


def _without_single(nest: TensorizedNest) -> TensorizedNest:
    """The nest without loops of one iteration."""
    single = [loop.var for loop in nest.loops if loop.extent == 1]
    if not single:
        return nest
    padding = any(var in nest.valid and not nest.valid[var][0] <= 0 < nest.valid[var][1] for var in single)
    return replace(
        nest.mapped(lambda access: access.at_zero(single)),
        loops=tuple(loop for loop in nest.loops if loop.extent != 1),
        valid={var: bounds for var, bounds in nest.valid.items() if var not in single},
        all_padding=nest.all_padding or padding,
    )


def _mergeable(nest: TensorizedNest, outer: Loop, inner: Loop) -> bool:
    if outer.reduce != inner.reduce or outer.var in nest.valid or inner.var in nest.valid:
        return False
    return all(
        access.step(outer.var) == access.step(inner.var) * inner.extent
        and not access.irregular(outer.var)
        and not access.irregular(inner.var)
        for access in nest.all_accesses()
    )


def _merge(nest: TensorizedNest, outer: Loop, inner: Loop) -> TensorizedNest:
    loop = Loop(inner.var, outer.extent * inner.extent, inner.reduce)
    loops = tuple(loop if other is inner else other for other in nest.loops if other is not outer)
    return replace(nest.mapped(lambda access: access.at_zero([outer.var])), loops=loops)
