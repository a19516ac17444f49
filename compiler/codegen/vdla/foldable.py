"""Leaves: the loop nests that fold into instructions, and what holds of them in every iteration of the loops outside.

A nest folds when it holds nothing but one tensorized block under serial loops, and perhaps an epilogue that consumes
each result where its sum is complete. Everything here is computed once for a nest; `lower` fills in the loop values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from vdla.compiler import ir
from vdla.compiler.arith import affine, var_names
from vdla.compiler.codegen.vdla.errors import LoweringError
from vdla.compiler.codegen.vdla.loop_bounds import Condition, conditions_of
from vdla.compiler.codegen.vdla.nest import Loop
from vdla.compiler.codegen.vdla.tiles import Site, TilePlan, row_major
from vdla.compiler.ir import line_numbers
from vdla.compiler.tensorize.intrinsic import GLOBAL, ON_CHIP


@dataclass(frozen=True, slots=True)
class Position:
    """Where an operand's entry lies before the outer loops have values: affine steps, and terms that are not affine."""

    buffer: str
    const: int
    steps: Mapping[str, int]
    rest: tuple[tuple[ir.Expr, int], ...]

    def moves(self, var: str) -> bool:
        """Whether the entry is another one in each iteration of a loop."""
        return var in self.steps or any(var in var_names(expr) for expr, _ in self.rest)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A nest that folds.

    `loops` become part of instructions; `predicate` says where the block runs, `conditions` where its intrinsic's
    condition holds; `starts` are the values of the reduce axes, all 0 where a sum begins.
    """

    site: Site
    loops: tuple[Loop, ...]
    positions: Mapping[str, Position]
    predicate: tuple[Condition, ...]
    conditions: tuple[Condition, ...]
    starts: tuple[ir.Expr, ...]
    epilogue: Leaf | None
    source: int


class Leaves:
    """The leaves of a function, found on demand."""

    def __init__(self, fn: ir.Function, sites: Mapping[str, Site], plans: Mapping[str, TilePlan]) -> None:
        self.fn, self.sites, self.plans = fn, sites, plans
        self._lines = line_numbers(fn)
        self._found: dict[int, Leaf | None] = {}

    def at(self, stmt: ir.Stmt) -> Leaf | None:
        """The statement as one leaf, if it is one."""
        if id(stmt) not in self._found:
            self._found[id(stmt)] = self._leaf(stmt)
        return self._found[id(stmt)]

    def _leaf(self, stmt: ir.Stmt) -> Leaf | None:
        loops, inner = _chain(stmt)
        if loops is None:
            return None
        match inner:
            case ir.Block(name=name):
                return self._analysed(self.sites[name], loops, None)
            case ir.Seq(stmts=(first, second)):
                return self._fused(loops, _chain(first), _chain(second))
            case _:
                return None

    def _fused(self, shared: list[ir.For], first: Chain, second: Chain) -> Leaf | None:
        """A nest whose results an epilogue consumes in the same pass: the loops inside must all be reductions."""
        (inner, block), (own, after_block) = first, second
        if not (isinstance(block, ir.Block) and isinstance(after_block, ir.Block)) or inner is None or own is None:
            return None
        main, after = self.sites[block.name], self.sites[after_block.name]
        consumes = _sums_of(after) == main.output and GLOBAL not in main.match.intrinsic.scopes.values()
        reductions = main.reduce_loops()
        steps = [loop for loop in _runs(inner) if loop.var not in reductions and not main.inside_entry(loop)]
        extra = [loop for loop in _runs(own) if not after.inside_entry(loop)]
        if not consumes or steps or extra:
            return None
        return self._analysed(main, [*shared, *inner], self._analysed(after, shared, None))

    def _analysed(self, site: Site, loops: list[ir.For], epilogue: Leaf | None) -> Leaf:
        reductions = site.reduce_loops()
        once = _once(site)
        predicate = [] if site.block.predicate is None else [ir.substitute(site.block.predicate, once)]
        axes = zip(site.block.axes, site.block.values, strict=True)
        positions = {name: self._position(site, name) for name in site.match.buffers if _in_memory(site, name)}
        self._check_in_place(site, positions)
        return Leaf(
            site=site,
            loops=tuple(Loop(f.var, f.size, f.var in reductions) for f in loops if not site.inside_entry(f)),
            positions=positions,
            predicate=conditions_of(predicate),
            conditions=conditions_of(ir.substitute(site.bound(c), once) for c in site.match.conditions.values()),
            starts=tuple(value for axis, value in axes if axis.kind is ir.AxisKind.REDUCE),
            epilogue=epilogue,
            source=self._lines.get(site.block.name, -1),
        )

    def _check_in_place(self, site: Site, positions: Mapping[str, Position]) -> None:
        """What is computed in place lies where its operand does."""
        intrinsic = site.match.intrinsic
        if intrinsic.in_place is None:
            return
        old, new = positions[intrinsic.in_place], positions[intrinsic.output.name]
        if replace(old, buffer=new.buffer) != new:
            raise LoweringError(
                f"{self.fn.name}: block {site.block.name} must write the entry of {old.buffer} that it overwrites in "
                f"place, got another entry of {new.buffer}; compute both at one loop"
            )

    def _position(self, site: Site, operand: str) -> Position:
        """The operand's entry, counted in its own entries from the start of its tile or tensor."""
        name = site.match.buffers[operand]
        unit = prod(site.match.intrinsic.behaviour.buffers[operand].dims)
        plan = self.plans.get(name)
        strides = plan.strides if plan else row_major(self.fn.buffers[name].dims)
        indices = site.match.entries[operand]
        if any(stride % unit for stride in strides[: len(indices)]):
            raise LoweringError(
                f"{self.fn.name}: the tile of {name} must consist of whole entries of {unit} elements, "
                f"got strides {list(strides)}; compute it over whole entries"
            )
        const, steps, rest, once = 0, dict[str, int](), list[tuple[ir.Expr, int]](), _once(site)
        for dimension, index in enumerate(indices):
            scale = strides[dimension] // unit
            const += _accumulate(ir.substitute(site.bound(index), once), scale, steps, rest)
            if plan is not None:
                const += _accumulate(plan.base[dimension], -scale, steps, rest)
        return Position(name, const, {v: s for v, s in steps.items() if s}, tuple(rest))


def _once(site: Site) -> dict[str, ir.Expr]:
    """The loops of one iteration, which are always 0."""
    return {loop.var: ir.Const(0) for loop in site.path if loop.extent == 1}


Chain = tuple["list[ir.For] | None", ir.Stmt]


def _chain(stmt: ir.Stmt) -> Chain:
    """The loops directly inside one another from `stmt` on (None if one is not serial), and what is inside them.

    Of what kind the loops of an entry are does not matter.
    """
    loops: list[ir.For] = []
    serial, entry = True, False
    while isinstance(stmt, ir.For):
        entry |= "tensorize" in stmt.annotations
        serial &= entry or stmt.kind is ir.LoopKind.SERIAL
        loops.append(stmt)
        stmt = stmt.body
    return (loops if serial else None), stmt


def _runs(loops: list[ir.For]) -> list[ir.For]:
    """The loops of more than one iteration."""
    return [loop for loop in loops if loop.size > 1]


def _sums_of(site: Site) -> str | None:
    """The buffer of the sums that an epilogue reads; only what computes them can emit them, not a copy."""
    sums = [site.match.buffers[name] for name, scope in site.match.intrinsic.scopes.items() if scope == "acc"]
    return sums[0] if site.match.intrinsic.epilogue and sums else None


def _in_memory(site: Site, operand: str) -> bool:
    return site.match.intrinsic.scopes[operand] in (*ON_CHIP, GLOBAL)


def _accumulate(expr: ir.Expr, scale: int, steps: dict[str, int], rest: list[tuple[ir.Expr, int]]) -> int:
    """Add scale * expr to the steps and the rest; the constant part is returned."""
    form = affine(expr)
    if form is None:
        opposite = (expr, -scale)
        if opposite in rest:
            rest.remove(opposite)
        else:
            rest.append((expr, scale))
        return 0
    for var, step in form[0].items():
        steps[var] = steps.get(var, 0) + scale * step
    return scale * form[1]
