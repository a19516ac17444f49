"""A nest of steps: one tensorized block with the loops around it, at concrete addresses, ready to become instructions.

An intrinsic's `lower` receives a `Nest`. Positions are counted in entries of the intrinsic's operand (the product of
its declared shape), relative to an on-chip tile or a tensor in DRAM; they are affine in the loops, apart from `rest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.arith import Values, evaluate
from vdla.compiler.codegen.vdla.macro_op import Tile
from vdla.compiler.ir import Match
from vdla.hardware.config import Config


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a nest; `reduce` when its iterations add to the same result."""

    var: str
    extent: int
    reduce: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """Where an operand's entry lies: `base` + sum of step * loop + sum of scale * expression."""

    place: Tile | str
    base: int
    steps: Mapping[str, int]
    rest: tuple[tuple[ir.Expr, int], ...] = ()

    def step(self, var: str) -> int:
        """The distance between two iterations of the loop."""
        return self.steps.get(var, 0)

    def irregular(self, var: str) -> bool:
        """Whether the position is not affine in the loop."""
        return any(e == ir.Var(var) for expr, _ in self.rest for e in ir.walk_expr(expr))

    def at(self, point: Values) -> npt.NDArray[np.int64]:
        """The positions at loop values, numbers or arrays; a loop that `point` leaves out is 0."""
        total = np.asarray(self.base, np.int64)
        for var, step in self.steps.items():
            total = total + step * np.asarray(point.get(var, 0), np.int64)
        for expr, scale in self.rest:
            total = total + scale * np.asarray(evaluate(expr, point, default=0), np.int64)
        return total

    def fixed(self, var: str, value: int) -> Access:
        """The access with one loop at `value`."""
        steps = {v: s for v, s in self.steps.items() if v != var}
        base, rest = self.base + self.step(var) * value, list[tuple[ir.Expr, int]]()
        for expr, scale in self.rest:
            known = ir.substitute(expr, {var: ir.Const(value)})
            if any(isinstance(e, ir.Var) for e in ir.walk_expr(known)):
                rest.append((known, scale))
            else:
                base += scale * int(evaluate(known, {}))
        return replace(self, base=base, steps=steps, rest=tuple(rest))

    def along(self, var: str, extent: int) -> npt.NDArray[np.int64] | None:
        """What the terms that are not affine add at each iteration of a loop; None if it depends on other loops too."""
        total = np.zeros(extent, np.int64)
        for expr, scale in self.rest:
            names = {e.name for e in ir.walk_expr(expr) if isinstance(e, ir.Var)}
            if var in names and names != {var}:
                return None
            if var in names:
                total = total + scale * evaluate(expr, {var: np.arange(extent)})
        return total

    def piece(self, var: str, first: int, extent: int) -> Access:
        """The access over iterations first to first + extent of a loop, where it is affine."""
        added = self.along(var, first + extent)
        assert added is not None
        step = int(added[first + 1] - added[first]) if extent > 1 else 0
        rest = tuple((e, scale) for e, scale in self.rest if ir.Var(var) not in ir.walk_expr(e))
        base = self.base + self.step(var) * first + int(added[first])
        return replace(self, base=base, steps={**self.steps, var: self.step(var) + step}, rest=rest)

    def merged(self, outer: Loop, inner: Loop) -> Access:
        """The access after the two loops have become one, named as the inner one."""
        return replace(self, steps={v: s for v, s in self.steps.items() if v != outer.var})


@dataclass(frozen=True, slots=True)
class Epilogue:
    """An intrinsic that consumes each finished result in the same pass."""

    match: Match
    access: Mapping[str, Access]


@dataclass(frozen=True, slots=True)
class Nest:
    """Steps of one intrinsic.

    `init`: sums start here, rather than continue what is in the output. `valid[var]` = (first, end) bounds a loop to
    the iterations in which the intrinsic's condition holds; the others are padding, and with `nowhere` all of them are.
    `source`: a line of the schedule.
    """

    config: Config
    match: Match
    loops: tuple[Loop, ...]
    access: Mapping[str, Access]
    init: bool = True
    epilogue: Epilogue | None = None
    valid: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    nowhere: bool = False
    source: int = -1

    def fixed(self, loop: Loop, value: int) -> Nest:
        """The nest with one of its loops at `value`; a reduction starts in its first and ends in its last iteration."""
        epilogue = self.epilogue
        if epilogue is not None:
            last = not loop.reduce or value == loop.extent - 1
            epilogue = Epilogue(epilogue.match, _fixed(epilogue.access, loop.var, value)) if last else None
        start, end = self.valid.get(loop.var, (0, loop.extent))
        return replace(
            self,
            loops=tuple(other for other in self.loops if other is not loop),
            access=_fixed(self.access, loop.var, value),
            init=self.init and (not loop.reduce or value == 0),
            epilogue=epilogue,
            valid={var: bounds for var, bounds in self.valid.items() if var != loop.var},
            nowhere=self.nowhere or not start <= value < end,
        )

    def piece(self, loop: Loop, first: int, extent: int) -> Nest:
        """The nest with only some iterations of a loop that is no reduction, over which every position is affine."""
        epilogue = self.epilogue
        if epilogue is not None:
            epilogue = Epilogue(epilogue.match, _piece(epilogue.access, loop.var, first, extent))
        part = replace(loop, extent=extent)
        return replace(
            self,
            loops=tuple(part if other is loop else other for other in self.loops),
            access=_piece(self.access, loop.var, first, extent),
            epilogue=epilogue,
        )

    def all_accesses(self) -> list[Access]:
        """The accesses of the intrinsic and of its epilogue."""
        return [*self.access.values(), *(self.epilogue.access.values() if self.epilogue else ())]


def _fixed(access: Mapping[str, Access], var: str, value: int) -> dict[str, Access]:
    return {operand: a.fixed(var, value) for operand, a in access.items()}


def _piece(access: Mapping[str, Access], var: str, first: int, extent: int) -> dict[str, Access]:
    return {operand: a.piece(var, first, extent) for operand, a in access.items()}


def affine_pieces(nest: Nest, loop: Loop) -> list[tuple[int, int]]:
    """(first, extent) of the longest runs of iterations over which every position is affine in the loop, in order."""
    along = [access.along(loop.var, loop.extent) for access in nest.all_accesses() if access.irregular(loop.var)]
    if loop.reduce or any(values is None for values in along):
        return [(value, 1) for value in range(loop.extent)]
    steps = np.stack([np.diff(values) for values in along if values is not None])
    pieces, first = [], 0
    while first < loop.extent:
        same = (steps[:, first:] == steps[:, first : first + 1]).all(axis=0)
        extent = int(np.argmin(same)) if not same.all() else len(same)
        pieces.append((first, extent + 1))
        first += extent + 1
    return pieces


def simplified(nest: Nest) -> Nest:
    """The nest without loops of one iteration, adjacent loops merged where every operand steps evenly through both."""
    for loop in nest.loops:
        if loop.extent == 1:
            nest = nest.fixed(loop, 0)
    position = len(nest.loops) - 2
    while position >= 0:
        outer, inner = nest.loops[position : position + 2]
        if _mergeable(nest, outer, inner):
            nest = _merge(nest, outer, inner)
        position -= 1
    return nest


def _mergeable(nest: Nest, outer: Loop, inner: Loop) -> bool:
    if outer.reduce != inner.reduce or outer.var in nest.valid or inner.var in nest.valid:
        return False
    return all(
        access.step(outer.var) == access.step(inner.var) * inner.extent
        and not access.irregular(outer.var)
        and not access.irregular(inner.var)
        for access in nest.all_accesses()
    )


def _merge(nest: Nest, outer: Loop, inner: Loop) -> Nest:
    merged = Loop(inner.var, outer.extent * inner.extent, inner.reduce)
    loops = tuple(merged if loop is inner else loop for loop in nest.loops if loop is not outer)
    epilogue = nest.epilogue
    if epilogue is not None:
        epilogue = Epilogue(epilogue.match, {o: a.merged(outer, inner) for o, a in epilogue.access.items()})
    return replace(
        nest, loops=loops, access={o: a.merged(outer, inner) for o, a in nest.access.items()}, epilogue=epilogue
    )
