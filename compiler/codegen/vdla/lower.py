# SPDX-License-Identifier: Apache-2.0
"""Lowering: a scheduled, tensorized loop nest becomes macro-ops in program order.

Outer loops run here, at compile time and all iterations at once; each foldable nest becomes
instructions by its intrinsic's `lower`, which is called once for all iterations that differ in
addresses only. Virtual threads are interleaved, each on its own tiles: they overlap on the machine
wherever the exact dependences allow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.arith import evaluate, var_names
from vdla.compiler.codegen.vdla.foldable import FoldableNest, FoldableNests, Position
from vdla.compiler.codegen.vdla.in_place import SharedStorage, StorageStep
from vdla.compiler.codegen.vdla.iterations import Iterations
from vdla.compiler.codegen.vdla.loop_bounds import Bounds, Condition, loop_bounds, truth_over
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import FormTable, MacroOps, form_and_numbers
from vdla.compiler.codegen.vdla.nest import EntryAccess, Epilogue, Loop, TensorizedNest
from vdla.compiler.codegen.vdla.tiles import (
    LoweringError,
    TilePlan,
    notes_on_shared_tiles,
    plan_tiles,
    tensorized_blocks,
    warn_of,
)
from vdla.compiler.ir import INTEGER_BITS
from vdla.hardware import isa
from vdla.hardware.config import Config

Ints = NDArray[np.int64]
Env = Mapping[str, int]

MAX_STEPS = 1 << 22
"""Iterations that the loops around foldable nests may have in all, and operations of a program;
2**22 of them take gigabytes.
"""


def lower(config: Config, fn: ir.Function) -> MacroOps:
    """The macro-ops of a function whose blocks are all tensorized.

    Raises:
        LoweringError: a block, buffer or loop that the machine's instructions cannot express.
    """
    ops, notes = lower_quietly(config, fn)
    warn_of(notes)
    return ops


def lower_quietly(config: Config, fn: ir.Function) -> tuple[MacroOps, tuple[str, ...]]:
    """The macro-ops of `lower`, and what it warns of."""
    lowering = _Lowering(config, fn)
    _check_steps(fn, lowering.steps(fn.body))
    return lowering.finish(lowering.run(fn.body, Iterations(1, {}))), lowering.notes


def _check_steps(fn: ir.Function, steps: int) -> None:
    if steps > MAX_STEPS:
        raise LoweringError(
            f"compile_function {fn.name}: the loops around instructions must have at most {MAX_STEPS} iterations "
            f"in all, got {steps}; use larger tiles or split the operator"
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Operations of many iterations, sorted by iteration, those of one iteration in order.

    `form` is the number of a form, or -1 minus that of a storage step; `numbers[i]` are the `dram`
    and the offsets of a macro-op, or the base of a storage step.
    """

    iteration: Ints
    form: Ints
    numbers: Ints


class _Lowering:
    """One walk over a function."""

    def __init__(self, config: Config, fn: ir.Function) -> None:
        self.config, self.fn = config, fn
        blocks = tensorized_blocks(fn)
        self.plans = plan_tiles(fn, blocks)
        self.notes = notes_on_shared_tiles(fn, blocks, self.plans)
        self.nests = FoldableNests(fn, blocks, self.plans)
        self.storage = SharedStorage(fn.name, self.plans)
        self.tiles: dict[tuple[str, tuple[int, ...]], BufferTile] = {}
        self.table = FormTable()
        self.shared: list[StorageStep] = []

    def run(self, stmt: ir.Stmt, outer: Iterations) -> _Rows:
        """The operations of a statement in all iterations of the loops around it."""
        foldable = self.nests.at(stmt)
        if foldable is not None:
            return self.emit(foldable, outer)
        match stmt:
            case ir.For():
                return _of_outer(self.run(stmt.body, outer.nested(stmt.var, stmt.size)), stmt.size)
            case _:
                return _merged([self.run(child, outer) for child in ir.children(stmt)])

    def steps(self, stmt: ir.Stmt) -> int:
        """How often `run` reaches a foldable nest in a statement."""
        if self.nests.at(stmt) is not None:
            return 1
        inner = sum(map(self.steps, ir.children(stmt)))
        return stmt.size * inner if isinstance(stmt, ir.For) else inner

    def finish(self, rows: _Rows) -> MacroOps:
        """The macro-ops, after a check of the storage steps among them."""
        is_op = rows.form >= 0
        if self.shared:
            self.storage.check(self.shared, -1 - rows.form[~is_op], rows.numbers[~is_op, 0])
        forms = tuple(self.table.forms)
        return MacroOps(forms, rows.form[is_op], rows.numbers[is_op, 1:], rows.numbers[is_op, 0])

    def emit(self, foldable: FoldableNest, outer: Iterations) -> _Rows:
        """The operations of a foldable nest in all iterations of the loops around it."""
        parts = []
        for chosen in outer.classes(self._signature(foldable, outer)):
            rows = self._emit_class(foldable, outer.take(chosen))
            parts.append(_Rows(chosen[rows.iteration], rows.form, rows.numbers))
        return _merged(parts)

    def _signature(self, foldable: FoldableNest, outer: Iterations) -> Iterator[Ints]:
        """Columns that are equal in iterations that differ in addresses only."""
        for nest in (foldable, *([foldable.epilogue] if foldable.epilogue else ())):
            for condition in (*nest.predicate, *nest.conditions):
                yield _decisive(condition, foldable.loops, outer)
            for position in nest.positions.values():
                plan = self.plans.get(position.buffer)
                yield from (outer.values[var] for var in (plan.vthreads if plan else ()))
                for names in (var_names(expr) for expr, _ in position.rest):
                    if not names <= set(outer.values):
                        yield from (outer.values[var] for var in sorted(names & set(outer.values)))
            for moving in nest.moving.values():
                yield np.broadcast_to(np.asarray(evaluate(moving, outer.values, default=0), np.int64), outer.count)
        started = sum(_nonzero(start, outer) for start in foldable.starts)
        yield np.broadcast_to(np.asarray(started, np.int64) > 0, outer.count)

    def _emit_class(self, foldable: FoldableNest, outer: Iterations) -> _Rows:
        """The operations in iterations that differ in addresses only."""
        env = outer.first()
        runs = loop_bounds(foldable.predicate, foldable.loops, env)
        loops = _trim(foldable, runs)
        if runs is None or any(loop.extent == 0 for loop in loops):
            return self._epilogue_alone(foldable, outer)
        holds = loop_bounds(foldable.conditions, loops, env)
        peel = _irregular(runs, loops) or (holds.irregular if holds else None) or _undecided(foldable, loops, env)
        peel = peel or _moving(foldable, loops)
        if peel is not None:
            return self._peel(foldable, peel, outer)
        nest = self._nest(foldable, loops, holds, outer)
        result: list[tuple[MacroOp | StorageStep, list[Ints | int]]] = []
        for step, base in self.storage.steps(foldable, nest):
            result.append((step, [base]))
        for op in self._lowered(foldable, nest):
            form, offsets, dram = form_and_numbers(op)
            result.append((form, [dram, *offsets]))
        return self._rows(result, outer.count)

    def _rows(self, table: list[tuple[MacroOp | StorageStep, list[Ints | int]]], count: int) -> _Rows:
        """Each operation in each of `count` iterations."""
        _check_steps(self.fn, count * len(table))
        numbers = np.zeros((count, len(table), max((len(values) for _, values in table), default=1)), np.int64)
        for position, (_, values) in enumerate(table):
            for column, value in enumerate(values):
                numbers[:, position, column] = value
        form = np.tile(np.array([self._number(form) for form, _ in table], np.int64), count)
        return _Rows(np.repeat(np.arange(count), len(table)), form, numbers.reshape(-1, numbers.shape[2]))

    def _number(self, form: MacroOp | StorageStep) -> int:
        """The number of a form of operations, or -1 minus that of a storage step."""
        if isinstance(form, MacroOp):
            return self.table.number(form)
        self.shared.append(form)
        return -len(self.shared)

    def _lowered(self, foldable: FoldableNest, nest: TensorizedNest) -> Iterator[MacroOp]:
        intrinsic = foldable.block.match.intrinsic
        ops = intrinsic.lower(nest)
        if not isinstance(ops, Iterable):
            raise LoweringError(f"{self.fn.name}: lower of intrinsic {intrinsic} must yield macro-ops, got {ops!r}")
        for op in ops:
            if not isinstance(op, MacroOp):
                raise LoweringError(f"{self.fn.name}: lower of intrinsic {intrinsic} must yield macro-ops, got {op!r}")
            yield op

    def _nest(
        self, foldable: FoldableNest, loops: tuple[Loop, ...], holds: Bounds | None, outer: Iterations
    ) -> TensorizedNest:
        valid = {loop.var: holds.of(loop) for loop in loops} if holds else {}
        return TensorizedNest(
            config=self.config,
            match=self._match(foldable, outer.first()),
            loops=loops,
            access={operand: self._access(p, outer) for operand, p in foldable.positions.items()},
            init=_starts(foldable, outer.first()),
            epilogue=self._epilogue(foldable, loops, outer),
            valid={loop.var: valid[loop.var] for loop in loops if valid.get(loop.var) not in (None, (0, loop.extent))},
            all_padding=holds is None,
            source=foldable.source,
        )

    def _match(self, foldable: FoldableNest, env: Env) -> ir.Match:
        """The match with the values of immediates that follow loops."""
        match = foldable.block.match
        if not foldable.moving:
            return match
        values = {name: int(evaluate(expr, env, default=0)) for name, expr in foldable.moving.items()}
        for name, value in values.items():
            low, high = match.intrinsic.ranges.get(name, (value, value))
            if not low <= value <= high:
                rule = f"{name} of block {foldable.block.name} must be from {low} to {high}"
                raise LoweringError(f"{self.fn.name}: {rule}, got {value}; choose a wider field, or a smaller problem")
        return replace(match, immediates={**match.immediates, **values}, moving={})

    def _epilogue_alone(self, foldable: FoldableNest, outer: Iterations) -> _Rows:
        """The epilogue as a pass of its own, after a nest that adds nothing to the sums here."""
        if foldable.epilogue is None:
            return _merged([])
        remaining = tuple(loop for loop in foldable.epilogue.loops if loop.var not in outer.values)
        return self.emit(replace(foldable.epilogue, loops=remaining), outer)

    def _peel(self, foldable: FoldableNest, var: str, outer: Iterations) -> _Rows:
        """The nest with one more loop run at compile time."""
        loop = _first_to_peel(foldable, next(other for other in foldable.loops if other.var == var))
        inner = replace(foldable, loops=tuple(other for other in foldable.loops if other is not loop))
        shared = foldable.epilogue is not None and loop.var in (other.var for other in foldable.epilogue.loops)
        _check_steps(self.fn, outer.count * loop.extent)
        every = outer.nested(loop.var, loop.extent)
        unfinished = (every.values[loop.var] < loop.extent - 1) & (loop.reduce and not shared)
        parts = []
        for part, chosen in ((replace(inner, epilogue=None), unfinished), (inner, ~unfinished)):
            where = np.flatnonzero(chosen)
            rows = self.emit(part, every.take(where))
            parts.append(_Rows(where[rows.iteration], rows.form, rows.numbers))
        return _of_outer(_merged(parts), loop.extent)

    def _access(self, position: Position, outer: Iterations) -> EntryAccess:
        base = np.full(outer.count, position.const, np.int64)
        steps, rest, env = dict[str, int](), list[tuple[ir.Expr, int]](), outer.first()
        for var, step in position.steps.items():
            if var in outer.values:
                base += step * outer.values[var]
            else:
                steps[var] = step
        for expr, scale in position.rest:
            if var_names(expr) <= set(env):
                base += scale * np.asarray(evaluate(expr, outer.values), np.int64)
            else:
                rest.append((ir.substitute(expr, {v: ir.Const(value) for v, value in env.items()}), scale))
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

    def _epilogue(self, foldable: FoldableNest, loops: tuple[Loop, ...], outer: Iterations) -> Epilogue | None:
        """The epilogue of the results of these iterations, if it runs."""
        after, env = foldable.epilogue, outer.first()
        if after is None or not all(truth_over(condition, loops, env) for condition in after.predicate):
            return None
        return Epilogue(
            self._match(after, env), {operand: self._access(p, outer) for operand, p in after.positions.items()}
        )


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
    """A loop that in some iterations runs only the block or only its epilogue."""
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


def _moving(foldable: FoldableNest, loops: tuple[Loop, ...]) -> str | None:
    """A loop that an immediate follows: each of its iterations is an instruction."""
    exprs = (*foldable.moving.values(), *(foldable.epilogue.moving.values() if foldable.epilogue else ()))
    names = {name for expr in exprs for name in var_names(expr)}
    return next((loop.var for loop in loops if loop.var in names), None)


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


# --- rows ----------------------------------------------------------------------------------------


def _merged(parts: list[_Rows]) -> _Rows:
    """The operations of several statements; those of one iteration in the order of the parts."""
    parts = [rows for rows in parts if len(rows.form)]
    if len(parts) == 1:
        return parts[0]
    none = np.zeros(0, np.int64)
    iteration = np.concatenate([none, *(rows.iteration for rows in parts)])
    form = np.concatenate([none, *(rows.form for rows in parts)])
    width = max((rows.numbers.shape[1] for rows in parts), default=1)
    numbers, start = np.zeros((len(form), width), np.int64), 0
    for rows in parts:
        numbers[start : start + len(rows.form), : rows.numbers.shape[1]] = rows.numbers
        start += len(rows.form)
    order = np.argsort(iteration, kind="stable")
    return _Rows(iteration[order], form[order], numbers[order])


def _of_outer(rows: _Rows, extent: int) -> _Rows:
    """The operations of a loop's iterations as those of the iterations around the loop."""
    return _Rows(rows.iteration // extent, rows.form, rows.numbers)


def _decisive(condition: Condition, loops: Iterable[Loop], outer: Iterations) -> Ints:
    """What decides in which iterations of the loops the condition holds.

    A comparison is cut off where it holds in all or in none of them.
    """
    extents = {loop.var: loop.extent for loop in loops}
    if condition.form is None:
        free = var_names(condition.expr) & set(extents)
        value = 0 if free else evaluate(condition.expr, outer.values, default=0)
        return np.broadcast_to(np.asarray(value, np.int64), outer.count)
    steps, const = condition.form
    known = np.full(outer.count, const, np.int64)
    for var, step in steps.items():
        if var in outer.values:
            known += step * outer.values[var]
    reaches = [steps.get(var, 0) * (extent - 1) for var, extent in extents.items()]
    return np.clip(known, -1 - sum(max(0, reach) for reach in reaches), -sum(min(0, reach) for reach in reaches))


def _nonzero(expr: ir.Expr, outer: Iterations) -> Ints:
    """Whether an expression is not 0, the loops inside at 0."""
    return np.asarray(evaluate(expr, outer.values, default=0) != 0, np.int64)
