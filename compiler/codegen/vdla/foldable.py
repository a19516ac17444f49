# SPDX-License-Identifier: Apache-2.0
"""Foldable nests: loop nests that become instructions as a whole.

A nest is foldable if it holds a single tensorized block under serial loops, optionally followed by
an epilogue that consumes each result as soon as its sum is complete. Each nest is analysed once;
`lower` fills in the loop values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from vdla.compiler import ir
from vdla.compiler.arith import affine, var_names
from vdla.compiler.codegen.vdla.loop_bounds import Condition, comparisons
from vdla.compiler.codegen.vdla.nest import Loop
from vdla.compiler.codegen.vdla.tiles import LoweringError, TensorizedBlock, TilePlan, row_major
from vdla.compiler.ir import line_numbers
from vdla.compiler.tensorize import GLOBAL, ON_CHIP


@dataclass(frozen=True, slots=True)
class Position:
    """The position of an operand's entry over all loops; `rest` are terms that are not affine."""

    buffer: str
    const: int
    steps: Mapping[str, int]
    rest: tuple[tuple[ir.Expr, int], ...]

    def depends_on(self, var: str) -> bool:
        """Whether the entry changes with the loop."""
        return var in self.steps or any(var in var_names(expr) for expr, _ in self.rest)


@dataclass(frozen=True, slots=True)
class FoldableNest:
    """A nest that folds.

    `loops` become part of instructions. `predicate` holds where the block runs, `conditions` where
    its intrinsic's condition holds. `starts` are the values of the reduce axes: all 0 where a sum
    begins. `moving` are the immediates that follow loops.
    """

    block: TensorizedBlock
    loops: tuple[Loop, ...]
    positions: Mapping[str, Position]
    predicate: tuple[Condition, ...]
    conditions: tuple[Condition, ...]
    starts: tuple[ir.Expr, ...]
    epilogue: FoldableNest | None
    source: int
    moving: Mapping[str, ir.Expr] = field(default_factory=dict)


class FoldableNests:
    """The foldable nests of a function, analysed on demand."""

    def __init__(self, fn: ir.Function, blocks: Iterable[TensorizedBlock], plans: Mapping[str, TilePlan]) -> None:
        self.fn, self.plans = fn, plans
        self.blocks = {block.name: block for block in blocks}
        self._lines = line_numbers(fn)
        self._nests: dict[int, FoldableNest | None] = {}

    def at(self, stmt: ir.Stmt) -> FoldableNest | None:
        """The statement as a foldable nest, or None if it does not fold."""
        if id(stmt) not in self._nests:
            self._nests[id(stmt)] = self._fold(stmt)
        return self._nests[id(stmt)]

    def _fold(self, stmt: ir.Stmt) -> FoldableNest | None:
        loops, inner = _chain(stmt)
        if loops is None:
            return None
        match inner:
            case ir.Block(name=name):
                return self._analyse(self.blocks[name], loops, None)
            case ir.Seq(stmts=(first, second)):
                return self._fuse(loops, _chain(first), _chain(second))
            case _:
                return None

    def _fuse(self, shared: list[ir.For], first: _Chain, second: _Chain) -> FoldableNest | None:
        """The nest of a block and its epilogue; loops that they do not share must be reductions."""
        (inner, node), (outer, after_node) = first, second
        if not (isinstance(node, ir.Block) and isinstance(after_node, ir.Block)) or inner is None or outer is None:
            return None
        main, after = self.blocks[node.name], self.blocks[after_node.name]
        consumes = _sums_of(after) == main.output and GLOBAL not in main.match.intrinsic.scopes.values()
        reductions = main.reduce_loops()
        steps = [loop for loop in _iterating(inner) if loop.var not in reductions and not main.inside_entry(loop)]
        extra = [loop for loop in _iterating(outer) if not after.inside_entry(loop)]
        if not consumes or steps or extra:
            return None
        return self._analyse(main, [*shared, *inner], self._analyse(after, shared, None))

    def _analyse(self, block: TensorizedBlock, loops: list[ir.For], epilogue: FoldableNest | None) -> FoldableNest:
        node, match, reductions, zeros = block.node, block.match, block.reduce_loops(), _zeros(block)
        predicate = [] if node.predicate is None else [ir.substitute(node.predicate, zeros)]
        axes = node.bindings
        positions = {name: self._position(block, name, zeros) for name in match.buffers if _in_memory(block, name)}
        self._check_in_place(block, positions)
        return FoldableNest(
            block=block,
            loops=tuple(Loop(f.var, f.size, f.var in reductions) for f in loops if not block.inside_entry(f)),
            positions=positions,
            predicate=comparisons(predicate),
            conditions=comparisons(ir.substitute(block.over_loops(c), zeros) for c in match.conditions.values()),
            starts=tuple(value for axis, value in axes if axis.kind is ir.AxisKind.REDUCE),
            epilogue=epilogue,
            source=self._lines.get(block.name, -1),
            moving={name: ir.substitute(block.over_loops(e), zeros) for name, e in match.moving.items()},
        )

    def _check_in_place(self, block: TensorizedBlock, positions: Mapping[str, Position]) -> None:
        """Reject a result in place at another position than its operand."""
        intrinsic = block.match.intrinsic
        if intrinsic.in_place is None:
            return
        old, new = positions[intrinsic.in_place], positions[intrinsic.output.name]
        if replace(old, buffer=new.buffer) != new:
            raise LoweringError(
                f"{self.fn.name}: block {block.name} must write the entry of {old.buffer} that it overwrites in "
                f"place, got another entry of {new.buffer}; compute both at one loop"
            )

    def _position(self, block: TensorizedBlock, operand: str, zeros: Mapping[str, ir.Expr]) -> Position:
        """The position of the operand's entry, in entries from the start of its tile or tensor."""
        name = block.match.buffers[operand]
        unit = prod(block.match.intrinsic.behaviour.buffers[operand].dims)
        plan = self.plans.get(name)
        strides = plan.strides if plan else row_major(self.fn.buffers[name].dims)
        indices = block.match.entries[operand]
        if any(stride % unit for stride in strides[: len(indices)]):
            raise LoweringError(
                f"{self.fn.name}: the tile of {name} must consist of whole entries of {unit} elements, "
                f"got strides {list(strides)}; compute it over whole entries"
            )
        const, steps, rest = 0, dict[str, int](), list[tuple[ir.Expr, int]]()
        for dimension, index in enumerate(indices):
            scale = strides[dimension] // unit
            const += _accumulate(ir.substitute(block.over_loops(index), zeros), scale, steps, rest)
            if plan is not None:
                const += _accumulate(plan.base[dimension], -scale, steps, rest)
        return Position(name, const, {v: s for v, s in steps.items() if s}, tuple(rest))


def _zeros(block: TensorizedBlock) -> dict[str, ir.Expr]:
    """The value 0 of each loop of one iteration."""
    return {loop.var: ir.Const(0) for loop in block.path if loop.extent == 1}


_Chain = tuple["list[ir.For] | None", ir.Stmt]


def _chain(stmt: ir.Stmt) -> _Chain:
    """The perfectly nested loops from `stmt` on (None if one is not serial), and their body.

    The loops inside an entry may be of any kind.
    """
    loops: list[ir.For] = []
    serial, entry = True, False
    while isinstance(stmt, ir.For):
        entry |= "tensorize" in stmt.annotations
        serial &= entry or stmt.kind is ir.LoopKind.SERIAL
        loops.append(stmt)
        stmt = stmt.body
    return (loops if serial else None), stmt


def _iterating(loops: list[ir.For]) -> list[ir.For]:
    """The loops of more than one iteration."""
    return [loop for loop in loops if loop.size > 1]


def _sums_of(block: TensorizedBlock) -> str | None:
    """The buffer of sums that an epilogue reads, None for another block."""
    sums = [block.match.buffers[name] for name, scope in block.match.intrinsic.scopes.items() if scope == "acc"]
    return sums[0] if block.match.intrinsic.epilogue and sums else None


def _in_memory(block: TensorizedBlock, operand: str) -> bool:
    return block.match.intrinsic.scopes[operand] in (*ON_CHIP, GLOBAL)


def _accumulate(expr: ir.Expr, scale: int, steps: dict[str, int], rest: list[tuple[ir.Expr, int]]) -> int:
    """Add scale * expr to `steps` and `rest`, and return its constant part."""
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
