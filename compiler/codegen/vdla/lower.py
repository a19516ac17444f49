"""Lowering: a scheduled, tensorized loop nest becomes a list of macro-ops in program order.

Loops around instructions are run here, at compile time; a nest that is one leaf is folded into instructions by its
intrinsic. Virtual threads take turns, each on tiles of its own; their overlap is the machine's, from the tokens that
the exact dependences leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import evaluate, var_names
from vdla.compiler.codegen.vdla.foldable import Leaf, Leaves, Position
from vdla.compiler.codegen.vdla.in_place import Contents
from vdla.compiler.codegen.vdla.loop_bounds import Bounds, bounds, decided
from vdla.compiler.codegen.vdla.macro_op import MacroOp, Tile
from vdla.compiler.codegen.vdla.nest import Access, Epilogue, Loop, Nest
from vdla.compiler.codegen.vdla.tiles import TilePlan, plan_tiles, sites
from vdla.compiler.ir import INTEGER_BITS
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
        self.contents = Contents(fn.name, self.plans)
        self.tiles: dict[tuple[str, tuple[int, ...]], Tile] = {}

    def run(self, stmt: ir.Stmt, env: dict[str, int]) -> Iterator[MacroOp]:
        """The macro-ops of a statement at one iteration of the loops around it."""
        leaf = self.leaves.at(stmt)
        if leaf is not None:
            yield from self.emit(leaf, env)
            return
        match stmt:
            case ir.For():
                for value in range(stmt.size):
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
        peel = _irregular(runs, loops) or (holds.irregular if holds else None) or _undecided(leaf, loops, env)
        if peel is not None:
            yield from self._peeled(leaf, peel, env)
            return
        nest = self._nest(leaf, loops, holds, env)
        self.contents.run(leaf, nest)
        yield from leaf.site.match.intrinsic.lower(nest)

    def _nest(self, leaf: Leaf, loops: tuple[Loop, ...], holds: Bounds | None, env: Env) -> Nest:
        valid = {loop.var: holds.of(loop) for loop in loops} if holds else {}
        return Nest(
            config=self.config,
            match=leaf.site.match,
            loops=loops,
            access={operand: self._access(p, env) for operand, p in leaf.positions.items()},
            init=_starts(leaf, env),
            epilogue=self._epilogue(leaf, loops, env),
            valid={loop.var: valid[loop.var] for loop in loops if valid.get(loop.var) not in (None, (0, loop.extent))},
            nowhere=holds is None,
            source=leaf.source,
        )

    def _epilogue_alone(self, leaf: Leaf, env: Env) -> Iterator[MacroOp]:
        """The epilogue of a nest that adds nothing to the sums here, as a pass of its own."""
        if leaf.epilogue is not None:
            left = tuple(loop for loop in leaf.epilogue.loops if loop.var not in env)
            yield from self.emit(replace(leaf.epilogue, loops=left), env)

    def _peeled(self, leaf: Leaf, var: str, env: Env) -> Iterator[MacroOp]:
        """The leaf with one more loop run at compile time."""
        loop = _before(leaf, next(other for other in leaf.loops if other.var == var))
        inner = replace(leaf, loops=tuple(other for other in leaf.loops if other is not loop))
        shared = leaf.epilogue is not None and loop.var in (other.var for other in leaf.epilogue.loops)
        for value in range(loop.extent):
            unfinished = loop.reduce and not shared and value < loop.extent - 1
            part = replace(inner, epilogue=None) if unfinished else inner
            yield from self.emit(part, {**env, loop.var: value})

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
        if not all(decided(condition, loops, env) for condition in after.predicate):
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


def _undecided(leaf: Leaf, loops: tuple[Loop, ...], env: Env) -> str | None:
    """A loop in some of whose iterations only the block, or only its epilogue, runs."""
    after = leaf.epilogue
    if after is None:
        return None
    for condition in after.predicate:
        if decided(condition, loops, env) is None:
            return next(loop.var for loop in loops if loop.var in var_names(condition.expr))
    runs, shared = bounds(after.predicate, leaf.loops, env), {loop.var for loop in after.loops}
    alone = (loop.var for loop in loops if runs and loop.var in shared and runs.of(_full(leaf, loop))[1] > loop.extent)
    return next(alone, None)


def _full(leaf: Leaf, loop: Loop) -> Loop:
    """The loop before it was trimmed."""
    return next(other for other in leaf.loops if other.var == loop.var)


def _before(leaf: Leaf, loop: Loop) -> Loop:
    """The loop, or what has to be run first: one whose sums follow each other in one place, ahead of a reduction."""
    sums = leaf.positions[leaf.site.match.intrinsic.output.name]
    around = (other for other in leaf.loops if not other.reduce and not sums.moves(other.var)) if loop.reduce else ()
    return next(iter(around), loop)


def _starts(leaf: Leaf, env: Env) -> bool:
    """Whether the sums of this nest begin in it: every reduce axis is 0 where the folded loops are."""
    if leaf.site.block.init is None:
        return leaf.site.match.intrinsic.in_place is None
    return all(int(evaluate(start, env, default=0)) == 0 for start in leaf.starts)
