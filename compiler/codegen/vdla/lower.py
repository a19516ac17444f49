"""Lowering: a scheduled, tensorized loop nest becomes a list of macro-ops in program order.

Outer loops run here, at compile time; each foldable nest becomes instructions by its intrinsic's
`lower`. Virtual threads are interleaved, each on tiles of its own: they overlap on the machine as
far as the exact dependences allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import evaluate, var_names
from vdla.compiler.codegen.vdla.errors import LoweringError
from vdla.compiler.codegen.vdla.foldable import FoldableNest, FoldableNests, Position
from vdla.compiler.codegen.vdla.in_place import SharedStorage
from vdla.compiler.codegen.vdla.loop_bounds import Bounds, loop_bounds, truth_over
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.nest import EntryAccess, Epilogue, Loop, TensorizedNest
from vdla.compiler.codegen.vdla.tensorized_block import tensorized_blocks
from vdla.compiler.codegen.vdla.tiles import TilePlan, plan_tiles
from vdla.compiler.ir import INTEGER_BITS
from vdla.hardware import isa
from vdla.hardware.config import Config

Env = Mapping[str, int]

MAX_STEPS = 1 << 22
"""Iterations that the loops around foldable nests may have in all; 2**22 of them take minutes."""


def lower(config: Config, fn: ir.Function) -> list[MacroOp]:
    """The macro-ops of a function whose blocks are all tensorized.

    Raises:
        LoweringError: a block, buffer or loop that the machine's instructions cannot express.
    """
    lowering = _Lowering(config, fn)
    steps = lowering.steps(fn.body)
    if steps > MAX_STEPS:
        raise LoweringError(
            f"compile_function {fn.name}: the loops around instructions must have at most {MAX_STEPS} iterations "
            f"in all, got {steps}; use larger tiles or split the operator"
        )
    return list(lowering.run(fn.body, {}))


class _Lowering:
    """One walk over a function."""

    def __init__(self, config: Config, fn: ir.Function) -> None:
        self.config, self.fn = config, fn
        blocks = tensorized_blocks(fn)
        self.plans = plan_tiles(fn, blocks)
        self.nests = FoldableNests(fn, blocks, self.plans)
        self.storage = SharedStorage(fn.name, self.plans)
        self.tiles: dict[tuple[str, tuple[int, ...]], BufferTile] = {}

    def run(self, stmt: ir.Stmt, env: dict[str, int]) -> Iterator[MacroOp]:
        """The macro-ops of a statement in one iteration of the loops around it."""
        foldable = self.nests.at(stmt)
        if foldable is not None:
            yield from self.emit(foldable, env)
            return
        match stmt:
            case ir.For():
                for value in range(stmt.size):
                    yield from self.run(stmt.body, {**env, stmt.var: value})
            case _:
                for child in ir.children(stmt):
                    yield from self.run(child, env)

    def steps(self, stmt: ir.Stmt) -> int:
        """How often `run` reaches a foldable nest in a statement."""
        if self.nests.at(stmt) is not None:
            return 1
        inner = sum(map(self.steps, ir.children(stmt)))
        return stmt.size * inner if isinstance(stmt, ir.For) else inner

    def emit(self, foldable: FoldableNest, env: Env) -> Iterator[MacroOp]:
        """The macro-ops of a foldable nest in one iteration of the loops around it."""
        runs = loop_bounds(foldable.predicate, foldable.loops, env)
        loops = _trim(foldable, runs)
        if runs is None or any(loop.extent == 0 for loop in loops):
            yield from self._epilogue_alone(foldable, env)
            return
        holds = loop_bounds(foldable.conditions, loops, env)
        peel = _irregular(runs, loops) or (holds.irregular if holds else None) or _undecided(foldable, loops, env)
        if peel is not None:
            yield from self._peel(foldable, peel, env)
            return
        nest = self._nest(foldable, loops, holds, env)
        self.storage.run(foldable, nest)
        intrinsic = foldable.block.match.intrinsic
        ops = intrinsic.lower(nest)
        if not isinstance(ops, Iterable):
            raise LoweringError(f"{self.fn.name}: lower of intrinsic {intrinsic} must yield macro-ops, got {ops!r}")
        for op in ops:
            if not isinstance(op, MacroOp):
                raise LoweringError(f"{self.fn.name}: lower of intrinsic {intrinsic} must yield macro-ops, got {op!r}")
            yield op

    def _nest(self, foldable: FoldableNest, loops: tuple[Loop, ...], holds: Bounds | None, env: Env) -> TensorizedNest:
        valid = {loop.var: holds.of(loop) for loop in loops} if holds else {}
        return TensorizedNest(
            config=self.config,
            match=foldable.block.match,
            loops=loops,
            access={operand: self._access(p, env) for operand, p in foldable.positions.items()},
            init=_starts(foldable, env),
            epilogue=self._epilogue(foldable, loops, env),
            valid={loop.var: valid[loop.var] for loop in loops if valid.get(loop.var) not in (None, (0, loop.extent))},
            all_padding=holds is None,
            source=foldable.source,
        )

    def _epilogue_alone(self, foldable: FoldableNest, env: Env) -> Iterator[MacroOp]:
        """The epilogue as a pass of its own, after a nest that adds nothing to the sums here."""
        if foldable.epilogue is not None:
            left = tuple(loop for loop in foldable.epilogue.loops if loop.var not in env)
            yield from self.emit(replace(foldable.epilogue, loops=left), env)

    def _peel(self, foldable: FoldableNest, var: str, env: Env) -> Iterator[MacroOp]:
        """The nest with one more loop run at compile time."""
        loop = _first_to_peel(foldable, next(other for other in foldable.loops if other.var == var))
        inner = replace(foldable, loops=tuple(other for other in foldable.loops if other is not loop))
        shared = foldable.epilogue is not None and loop.var in (other.var for other in foldable.epilogue.loops)
        for value in range(loop.extent):
            unfinished = loop.reduce and not shared and value < loop.extent - 1
            part = replace(inner, epilogue=None) if unfinished else inner
            yield from self.emit(part, {**env, loop.var: value})

    def _access(self, position: Position, env: Env) -> EntryAccess:
        base = position.const + sum(step * env[v] for v, step in position.steps.items() if v in env)
        steps = {v: step for v, step in position.steps.items() if v not in env}
        rest = []
        for expr, scale in position.rest:
            known = ir.substitute(expr, {v: ir.Const(value) for v, value in env.items()})
            if var_names(known):
                rest.append((known, scale))
            else:
                base += scale * int(evaluate(known, {}))
        plan = self.plans.get(position.buffer)
        return EntryAccess(position.buffer if plan is None else self._tile(plan, env), base, steps, tuple(rest))

    def _tile(self, plan: TilePlan, env: Env) -> BufferTile:
        """The buffer's tile in the current virtual threads."""
        key = (plan.owner, tuple(env[v] for v in plan.vthreads))
        if key not in self.tiles:
            buffer = isa.Buffer[plan.scope.upper()]
            entry_bits = self.config.entry_bytes[buffer] * 8
            entries = -(-plan.elements * INTEGER_BITS[plan.dtype] // entry_bits)
            ident = sum(1 for owner, _ in self.tiles if owner == plan.owner)
            self.tiles[key] = BufferTile(plan.owner, buffer, entries, ident)
        return self.tiles[key]

    def _epilogue(self, foldable: FoldableNest, loops: tuple[Loop, ...], env: Env) -> Epilogue | None:
        """The epilogue of the results of this iteration, if it runs."""
        after = foldable.epilogue
        if after is None or not all(truth_over(condition, loops, env) for condition in after.predicate):
            return None
        return Epilogue(after.block.match, {operand: self._access(p, env) for operand, p in after.positions.items()})


def _trim(foldable: FoldableNest, runs: Bounds | None) -> tuple[Loop, ...]:
    """The loops, cut off where the block's predicate ends them."""
    if runs is None or not runs.end:
        return foldable.loops
    return tuple(replace(loop, extent=runs.of(loop)[1]) for loop in foldable.loops)


def _irregular(runs: Bounds, loops: tuple[Loop, ...]) -> str | None:
    """A loop that the predicate restricts in another way than by an earlier end."""
    late = (loop.var for loop in loops if runs.of(loop)[0] > 0)
    return runs.irregular or next(late, None)


def _undecided(foldable: FoldableNest, loops: tuple[Loop, ...], env: Env) -> str | None:
    """A loop in some iterations of which only the block or only its epilogue runs."""
    after = foldable.epilogue
    if after is None:
        return None
    for condition in after.predicate:
        if truth_over(condition, loops, env) is None:
            return next(loop.var for loop in loops if loop.var in var_names(condition.expr))
    runs, shared = loop_bounds(after.predicate, foldable.loops, env), {loop.var for loop in after.loops}
    full = {loop.var: loop for loop in foldable.loops}
    alone = (loop.var for loop in loops if runs and loop.var in shared and runs.of(full[loop.var])[1] > loop.extent)
    return next(alone, None)


def _first_to_peel(foldable: FoldableNest, loop: Loop) -> Loop:
    """The loop; for a reduction, first any loop that reuses one entry for successive sums."""
    sums = foldable.positions[foldable.block.match.intrinsic.output.name]
    reusing = (o for o in foldable.loops if not o.reduce and not sums.depends_on(o.var)) if loop.reduce else ()
    return next(iter(reusing), loop)


def _starts(foldable: FoldableNest, env: Env) -> bool:
    """Whether the sums begin here: all reduce axes are 0 at the first folded iteration."""
    if foldable.block.node.init is None:
        return foldable.block.match.intrinsic.in_place is None
    return all(int(evaluate(start, env, default=0)) == 0 for start in foldable.starts)
