# SPDX-License-Identifier: Apache-2.0
"""The invariants of a function between passes, on which later passes and code generation rely.

Every variable is bound; an intermediate buffer is accessed inside an Alloc of it, with one index
per dimension; nested loops and allocations have distinct names; types agree; and no node is left
that an earlier pass removes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from vdla.compiler import ir
from vdla.compiler.ir import expr_text
from vdla.support.errors import Error


class PassError(Error, ValueError):
    """A schedule that does not lower, or a malformed function after a pass."""


_Bound = frozenset[str]
_Seen = tuple[str, _Bound]
_NONE: _Bound = frozenset()


class Level(IntEnum):
    """How far a function is lowered; each level adds rules to those before."""

    SCHEDULED = 0
    DECOMPOSED = 1  # no init
    PLACED = 2  # buffers allocated
    LOOPS = 3  # no block
    UNROLLED = 4  # no UNROLL loop
    LOWERED = 5  # vector loops around single stores, no nested parallel loops, heap buffers in slots


@dataclass(frozen=True, slots=True)
class CheckedExpressions:
    """Expressions that were valid in a function, by identity, with their types and the names that
    they use. Passes share what they do not change, so that the next check has less to do.
    """

    seen: dict[int, tuple[ir.Expr, _Seen]] = field(default_factory=dict)


def check(fn: ir.Function, level: Level, known: CheckedExpressions | None = None) -> None:
    """Rejects a function that is malformed at `level`.

    `known` are expressions of the same function after earlier passes, from PLACED on: its buffers
    have kept their types and ranks since.

    Raises:
        PassError: names the location, the rule and the violation.
    """
    types = CheckedExpressions() if known is None else known
    _Checker(fn, level, types.seen).statement(fn.body, frozenset(fn.scalars), frozenset(fn.params))


@dataclass(slots=True)
class _Checker:
    """Checks the statements of a function; expressions found valid are not checked again."""

    fn: ir.Function
    level: Level
    types: dict[int, tuple[ir.Expr, _Seen]]
    last: tuple[_Bound, _Bound, _Bound] = _NONE, _NONE, _NONE

    def names(self, bound: _Bound, live: _Bound) -> _Bound:
        """All that exist; those of the last call, which mostly was for the same statement."""
        if self.last[0] is not bound or self.last[1] is not live:
            self.last = bound, live, bound | live
        return self.last[2]

    def fail(self, what: str, rule: str, got: str) -> PassError:
        """The error for a violated rule."""
        return PassError(f"{self.fn.name}: {what} must {rule}, got {got}")

    # -- statements

    def statement(self, stmt: ir.Stmt, bound: _Bound, live: _Bound) -> None:
        """Checks a statement in which the variables `bound` and the buffers `live` exist."""
        match stmt:
            case ir.For():
                self.loop(stmt, bound)
                bound |= {stmt.var}
            case ir.Store():
                self.store(stmt, bound, live)
            case ir.Prefetch(buffer=buffer, indices=indices):
                self.access("prefetch of", buffer, indices, bound, live)
            case ir.If(cond=cond):
                self.typed(cond, "bool", "a condition", bound, live)
            case ir.Alloc(buffers=buffers):
                for buffer in buffers:
                    self.alloc(buffer, live)
                    live |= {buffer}
            case ir.HeapAlloc(slots=slots):
                for buffer in (buffer for slot in slots for buffer in slot):
                    self.alloc(buffer, live, in_slot=True)
                    live |= {buffer}
            case ir.Block():
                self.block(stmt, bound, live)
                bound |= {axis.var for axis in stmt.axes}
            case ir.IntrinsicCall():
                self.step(stmt, bound, live)
        for child in ir.children(stmt):
            self.statement(child, bound, live)

    def loop(self, loop: ir.For, bound: _Bound) -> None:
        """Checks the header of a loop."""
        if loop.var in bound:
            raise self.fail(f"loop {loop.var}", "have a unique name", "a nested loop of that name")
        if not isinstance(loop.extent, int):
            self.typed(loop.extent, "int32", f"the extent of loop {loop.var}", frozenset(self.fn.scalars), _NONE)
        for kind, lowest in ((ir.LoopKind.UNROLL, Level.UNROLLED), (ir.LoopKind.VTHREAD, Level.LOOPS)):
            if loop.kind is kind and self.level >= lowest:
                raise self.fail(f"loop {loop.var}", f"not be {kind.value} at this level", f"level {self.level.name}")
        if self.level is Level.LOWERED:
            self.lowered_loop(loop)

    def lowered_loop(self, loop: ir.For) -> None:
        """Checks the body of a loop in the lowered form."""
        if loop.kind is ir.LoopKind.PARALLEL:
            inner = [s for s in ir.find(loop.body, ir.For) if s.kind is ir.LoopKind.PARALLEL]
            if inner:
                raise self.fail(f"parallel loop {loop.var}", "contain no other", inner[0].var)
        if loop.kind is ir.LoopKind.VECTORIZE:
            inside = loop.body.body if isinstance(loop.body, ir.If) else loop.body
            if not isinstance(inside, ir.Store | ir.MultiStore):
                raise self.fail(f"vector loop {loop.var}", "contain a single store", type(inside).__name__)
            if not isinstance(loop.extent, int):
                raise self.fail(f"vector loop {loop.var}", "have a constant extent", expr_text(loop.extent))

    def alloc(self, buffer: str, live: _Bound, *, in_slot: bool = False) -> None:
        """Checks an allocation."""
        if buffer not in self.fn.buffers or buffer in self.fn.params:
            raise self.fail(f"alloc of {buffer}", "name an intermediate buffer", "another name")
        if self.level is Level.LOWERED and not in_slot and self.fn.buffers[buffer].scope == "heap":
            raise self.fail(f"alloc of {buffer}", "be on the stack", "a heap buffer outside heap_alloc")
        if buffer in live:
            raise self.fail(f"alloc of {buffer}", "not be nested", "an alloc inside another")

    def store(self, store: ir.Store, bound: _Bound, live: _Bound) -> None:
        """Checks a store."""
        self.access("store to", store.buffer, store.indices, bound, live)
        self.typed(store.value, self.fn.buffers[store.buffer].dtype, f"a value of {store.buffer}", bound, live)

    def block(self, block: ir.Block, bound: _Bound, live: _Bound) -> None:
        """Checks the header of a block."""
        if self.level >= Level.LOOPS:
            raise self.fail(f"block {block.name}", "be removed", f"level {self.level.name}")
        if self.level >= Level.DECOMPOSED and block.init is not None:
            raise self.fail(f"block {block.name}", "have no init", f"level {self.level.name}")
        for axis, value in block.bindings:
            self.typed(value, "int32", f"axis {axis.var} of block {block.name}", bound, live)
        if block.predicate is not None:
            self.typed(block.predicate, "bool", f"the predicate of block {block.name}", bound, live)

    def step(self, step: ir.IntrinsicCall, bound: _Bound, live: _Bound) -> None:
        """Checks the operands of an intrinsic call."""
        for operand, indices in step.match.entries.items():
            for index in indices:
                self.typed(index, "int32", f"the entry of {operand}", bound, live)
        for operand, condition in step.match.conditions.items():
            self.typed(condition, "bool", f"the condition {operand}", bound, live)

    # -- expressions

    def typed(self, expr: ir.Expr, dtype: str, what: str, bound: _Bound, live: _Bound) -> None:
        """Checks an expression that must have the type `dtype`."""
        expr_dtype, _ = self.seen(expr, bound, live)
        if expr_dtype != dtype:
            raise self.fail(what, f"be {dtype}", f"{expr_dtype} {expr_text(expr)}")

    def seen(self, expr: ir.Expr, bound: _Bound, live: _Bound) -> _Seen:
        """The type of a valid expression, and the variables and buffers it uses; cached."""
        known = self.types.get(id(expr))
        if known is not None and known[1][1] <= self.names(bound, live):
            return known[1]
        result = self.checked(expr, bound, live)
        self.types[id(expr)] = (expr, result)
        return result

    def checked(self, expr: ir.Expr, bound: _Bound, live: _Bound) -> _Seen:
        """The type of an expression and the names it uses, its operands checked."""
        parts = [self.seen(operand, bound, live) for operand in ir.operands(expr)]
        names = _NONE.union(*(part[1] for part in parts))
        match expr:
            case ir.Var(name=name):
                if name not in bound:
                    raise self.fail("a variable", "be bound by an enclosing loop", name)
                return "int32", frozenset((name,))
            case ir.Load(buffer=buffer, indices=indices):
                self.access("load from", buffer, indices, bound, live)
                return self.fn.buffers[buffer].dtype, names | {buffer}
            case ir.Select(cond=cond):
                self.typed(cond, "bool", "a condition", bound, live)
                return self.same(expr, parts[1][0], parts[2][0]), names
            case ir.Binary(op=op):
                dtype = self.same(expr, parts[0][0], parts[1][0])
                return "bool" if op in ir.COMPARE_OPS else dtype, names
        return ir.dtype_of(expr, self.fn.buffers), names

    def same(self, expr: ir.Expr, left: str, right: str) -> str:
        """The common type of two operands."""
        if left != right:
            raise self.fail(f"both sides of {expr_text(expr)}", "have one type", f"{left} and {right}")
        return left

    def access(self, what: str, buffer: str, indices: tuple[ir.Expr, ...], bound: _Bound, live: _Bound) -> None:
        """Checks the buffer and the indices of an access."""
        if buffer not in self.fn.buffers:
            raise self.fail(f"a {what} {buffer}", "name a buffer of the function", "another name")
        if self.level >= Level.PLACED and buffer not in live:
            raise self.fail(f"a {what} {buffer}", "be inside an alloc of it", "an access outside")
        rank = len(self.fn.buffers[buffer].shape)
        if len(indices) != rank:
            raise self.fail(f"a {what} {buffer}", f"have {rank} indices", str(len(indices)))
        for index in indices:
            self.typed(index, "int32", f"an index of {buffer}", bound, live)
