"""Lowering: a scheduled, tensorized loop nest becomes a list of macro-ops in program order.

Loops around instructions are run here, at compile time; a nest that is one leaf is folded into instructions by its
intrinsic. Virtual threads take turns, each on tiles of its own; their overlap is the machine's, from the tokens that
the exact dependences leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.affine import var_names
from vdla.compiler.conditions import Bounds, bounds, decided
from vdla.compiler.dtypes import INTEGER_BITS
from vdla.compiler.errors import LoweringError
from vdla.compiler.evaluate import evaluate
from vdla.compiler.leaf import Leaf, Leaves, Position
from vdla.compiler.macro import MacroOp, Tile
from vdla.compiler.nest import Access, Epilogue, Loop, Nest
from vdla.compiler.printer import expr_text
from vdla.compiler.regions import TilePlan, plan_tiles, sites
from vdla.hardware import isa
from vdla.hardware.config import Config

Env = Mapping[str, int]


def lower(config: Config, fn: ir.Function) -> list[MacroOp]:
    """The macro-ops of a function whose blocks are all tensorized.

    Raises:
        LoweringError: names the block, buffer or loop that this machine's instructions cannot express, and why.
    """
    return list(_Lowering(config, fn).run(fn.body, {}))


class _Lowering:
    """One walk over a function."""

    def __init__(self, config: Config, fn: ir.Function) -> None:
        self.config, self.fn = config, fn
        blocks = sites(fn)
        self.plans = plan_tiles(fn, blocks)
        self.leaves = Leaves(fn, {site.block.name: site for site in blocks}, self.plans)
        self.tiles: dict[tuple[str, tuple[int, ...]], Tile] = {}

    def run(self, stmt: ir.Stmt, env: dict[str, int]) -> Iterator[MacroOp]:
        """The macro-ops of a statement at one iteration of the loops around it."""
        leaf = self.leaves.at(stmt)
        if leaf is not None:
            yield from self.emit(leaf, env)
            return
        match stmt:
            case ir.For():
                for value in range(stmt.extent):
                    yield from self.run(stmt.body, {**env, stmt.var: value})
            case _:
                for child in ir.children(stmt):
                    yield from self.run(child, env)

    def emit(self, leaf: Leaf, env: Env) -> Iterator[MacroOp]:
        """The macro-ops of a leaf at one iteration of the loops around it."""
        runs = bounds(leaf.predicate, leaf.loops, env)
        loops = _trimmed(leaf, runs)
        if runs is None or any(loop.extent == 0 for loop in loops):
            yield from self._epilogue_alone(leaf, env)
            return
        holds = bounds(leaf.conditions, loops, env)
        peel = _irregular(runs, loops) or (holds.irregular if holds else None)
        if peel is not None:
            yield from self._peeled(leaf, peel, env)
            return
        yield from leaf.site.match.intrinsic.lower(self._nest(leaf, loops, holds, env))

    def _nest(self, leaf: Leaf, loops: tuple[Loop, ...], holds: Bounds | None, env: Env) -> Nest:
        ranges = {loop.var: holds.of(loop) for loop in loops} if holds else {}
        return Nest(
            config=self.config,
            match=leaf.site.match,
            loops=loops,
            access={operand: self._access(p, env) for operand, p in leaf.positions.items()},
            init=_starts(leaf, env),
            epilogue=self._epilogue(leaf, loops, env),
            valid={loop.var: ranges[loop.var] for loop in loops if ranges.get(loop.var, (0, 0)) != (0, loop.extent)}
            if holds
            else {},
            nowhere=holds is None,
            source=leaf.source,
        )

    def _epilogue_alone(self, leaf: Leaf, env: Env) -> Iterator[MacroOp]:
        """The epilogue of a nest that adds nothing to the sums here, as a pass of its own."""
        if leaf.epilogue is not None:
            yield from self.emit(leaf.epilogue, env)

    def _peeled(self, leaf: Leaf, var: str, env: Env) -> Iterator[MacroOp]:
        """The leaf with one more loop run at compile time."""
        loop = next(other for other in leaf.loops if other.var == var)
        inner = replace(leaf, loops=tuple(other for other in leaf.loops if other is not loop))
        for value in range(loop.extent):
            unfinished = loop.reduce and value < loop.extent - 1
            part = replace(inner, epilogue=None) if unfinished else inner
            yield from self.emit(part, {**env, var: value})

    def _access(self, position: Position, env: Env) -> Access:
        base = position.const + sum(step * env[v] for v, step in position.steps.items() if v in env)
        steps = {v: step for v, step in position.steps.items() if v not in env}
        rest = []
        for expr, scale in position.rest:
            fixed = ir.substitute(expr, {v: ir.Const(value) for v, value in env.items()})
            if var_names(fixed):
                rest.append((fixed, scale))
            else:
                base += scale * int(evaluate(fixed, {}))
        plan = self.plans.get(position.buffer)
        return Access(position.buffer if plan is None else self._tile(plan, env), base, steps, tuple(rest))

    def _tile(self, plan: TilePlan, env: Env) -> Tile:
        """The tile of a buffer for the virtual threads' current turn."""
        key = (plan.owner, tuple(env[v] for v in plan.vthreads))
        if key not in self.tiles:
            buffer = isa.Buffer[plan.scope.upper()]
            entry_bits = self.config.entry_bytes[buffer] * 8
            entries = -(-plan.elements * INTEGER_BITS[plan.dtype] // entry_bits)
            ident = sum(1 for owner, _ in self.tiles if owner == plan.owner)
            self.tiles[key] = Tile(plan.owner, buffer, entries, ident)
        return self.tiles[key]

    def _epilogue(self, leaf: Leaf, loops: tuple[Loop, ...], env: Env) -> Epilogue | None:
        """What consumes the results of this iteration, if anything does."""
        after = leaf.epilogue
        if after is None:
            return None
        for condition in after.predicate:
            holds = decided(condition, loops, env)
            if holds is None:
                raise LoweringError(
                    f"{self.fn.name}: the predicate of {after.site.block.name} must hold for a whole instruction or "
                    f"not at all, got {expr_text(condition.expr)}; place it at an outer loop"
                )
            if not holds:
                return None
        return Epilogue(after.site.match, {operand: self._access(p, env) for operand, p in after.positions.items()})


def _trimmed(leaf: Leaf, runs: Bounds | None) -> tuple[Loop, ...]:
    """The loops, ended where the block's predicate ends them."""
    if runs is None:
        return leaf.loops
    return tuple(replace(loop, extent=runs.of(loop)[1]) for loop in leaf.loops)


def _irregular(runs: Bounds, loops: tuple[Loop, ...]) -> str | None:
    """A loop that the predicate does not simply end: it has to be run at compile time."""
    late = (loop.var for loop in loops if runs.of(loop)[0] > 0)
    return runs.irregular or next(late, None)


def _starts(leaf: Leaf, env: Env) -> bool:
    """Whether the sums of this nest begin in it: every reduce axis is 0 where the folded loops are."""
    if leaf.site.block.init is None:
        return leaf.site.match.intrinsic.in_place is None
    return all(int(evaluate(start, env, default=0)) == 0 for start in leaf.starts)
