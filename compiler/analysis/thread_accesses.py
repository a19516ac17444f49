# SPDX-License-Identifier: Apache-2.0
"""What one thread of a kernel accesses and where it waits, in program order.

A position counts statements in preorder, so `a.at < b.at` where `a` comes first in one iteration of
the loops around both. Buffers in "local" are left out: no other thread sees them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from vdla.compiler import ir
from vdla.compiler.analysis.access import Indices
from vdla.compiler.arith import conjuncts
from vdla.compiler.ir import GridKernel, expr_text, index_text

_Conditions = tuple[ir.Expr, ...]
_Place = tuple[int, ...]  # of a statement: the index of the child of the body, of the child of that child, and so on


@dataclass(frozen=True, slots=True)
class ThreadLoop:
    """A loop around a statement of a thread, at its place and position."""

    place: _Place
    loop: ir.For
    at: int


@dataclass(frozen=True, slots=True)
class TileRead:
    """What a step of a warp reads: the tile from `entry` on, as the fragments of its lanes."""

    entry: Indices
    fragment: Any


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """A read or a write of an element, under conditions; `loops` lie around it, outermost first.

    A step of a warp reads a `tile`, any element of it in any lane.
    """

    at: int
    place: _Place
    buffer: str
    indices: Indices
    is_write: bool
    atomic: str  # the operator of an atomic update, else ""
    loops: tuple[ThreadLoop, ...]
    conditions: _Conditions
    tile: TileRead | None = None

    def __str__(self) -> str:
        kind = f"atomic {self.atomic}" if self.atomic else "write" if self.is_write else "read"
        return f"the {kind} of {self.buffer}[{index_text(self.indices)}]"


@dataclass(frozen=True, slots=True)
class ThreadPoint:
    """A place in the program of a thread, such as that of a barrier: the loops around it and the
    conditions under which it is reached."""

    at: int
    place: _Place
    loops: tuple[ThreadLoop, ...]
    conditions: _Conditions
    scope: ir.BarrierScope | None = None


@dataclass(slots=True)
class ThreadProgram:
    """The accesses and barriers of a kernel; `last` maps the position of a loop to its last one."""

    kernel: GridKernel
    accesses: list[ThreadAccess] = field(default_factory=list)
    barriers: list[ThreadPoint] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)
    count: int = 0

    @staticmethod
    def of(kernel: GridKernel) -> ThreadProgram:
        """The program of the threads of a kernel."""
        program = ThreadProgram(kernel)
        program.visit(kernel.body, (), (), ())
        return program

    def visit(self, stmt: ir.Stmt, place: _Place, loops: tuple[ThreadLoop, ...], conditions: _Conditions) -> None:
        """Adds what a statement accesses."""
        at, self.count = self.count, self.count + 1
        here = ThreadPoint(at, place, loops, conditions)
        match stmt:
            case ir.For():
                loops = (*loops, ThreadLoop(place, stmt, at))
            case ir.If(cond=cond):
                self.read(cond, here)
                conditions = (*conditions, *conjuncts(cond))
            case ir.Barrier(scope=scope):
                self.barriers.append(replace(here, scope=scope))
            case ir.Store() | ir.MultiStore():
                return self.store(stmt.stores if isinstance(stmt, ir.MultiStore) else (stmt,), here)
            case ir.Atomic(body=ir.Store() as store):
                return self.update(store, here)
            case ir.IntrinsicCall(match=match) if match.intrinsic.fragments:
                return self.step(match, here)
        for n, child in enumerate(ir.children(stmt)):
            self.visit(child, (*place, n), loops, conditions)
        self.last[at] = self.count - 1

    def store(self, stores: tuple[ir.Store, ...], here: ThreadPoint) -> None:
        """Adds what stores read, and the elements that they write."""
        for store in stores:
            for expr in (*store.indices, store.value):
                self.read(expr, here)
        for store in stores:
            self.add(store.buffer, store.indices, here, here.conditions)

    def update(self, store: ir.Store, here: ThreadPoint) -> None:
        """Adds what an atomic store reads, and the element that it updates."""
        old = ir.Load(store.buffer, store.indices)
        for expr in (*store.indices, *(operand for operand in ir.operands(store.value) if operand != old)):
            self.read(expr, here)
        op = store.value.op if isinstance(store.value, ir.Binary) else ""
        self.add(store.buffer, store.indices, here, here.conditions, atomic=op)

    def step(self, match: ir.Match, here: ThreadPoint) -> None:
        """Adds what a step of a warp reads in shared memory: the whole entries, in any lane."""
        self.last[here.at] = here.at
        for operand, name in match.buffers.items():
            if self.kernel.buffers[name].scope == "local":
                continue
            shape = match.intrinsic.fragments[operand].shape
            loops = [ir.For(f"{d} of {name}", n, ir.Seq(())) for d, n in zip(("row", "column"), shape, strict=True)]
            *lead, row, column = match.entries[operand]
            tile = (ir.binary("add", start, loop.var) for start, loop in zip((row, column), loops, strict=True))
            inside = tuple(ThreadLoop(here.place, loop, here.at) for loop in loops)
            at = replace(here, loops=(*here.loops, *inside))
            self.add(name, (*lead, *tile), at, here.conditions, write=False)
            read = TileRead(match.entries[operand], match.intrinsic.fragments[operand])
            self.accesses[-1] = replace(self.accesses[-1], tile=read)

    def read(self, expr: ir.Expr, here: ThreadPoint) -> None:
        """Adds the loads of an expression."""
        for load, conditions in _loads_of(expr, here.conditions):
            self.add(load.buffer, load.indices, here, conditions, write=False)

    def add(
        self,
        buffer: str,
        indices: Indices,
        here: ThreadPoint,
        conditions: _Conditions,
        *,
        write: bool = True,
        atomic: str = "",
    ) -> None:
        """Adds an access, if other threads see its buffer."""
        if self.kernel.buffers[buffer].scope == "local":
            return
        access = ThreadAccess(
            at=here.at,
            place=here.place,
            buffer=buffer,
            indices=indices,
            is_write=write,
            atomic=atomic,
            loops=here.loops,
            conditions=conditions,
        )
        self.accesses.append(access)

    def across_warps(self) -> ThreadProgram:
        """The program without the barriers that stop a warp alone."""
        return replace(self, barriers=[b for b in self.barriers if b.scope is not ir.BarrierScope.WARP])

    def barriers_in(self, loop: ThreadLoop) -> list[ThreadPoint]:
        """The barriers in a loop."""
        return [barrier for barrier in self.barriers if loop.at < barrier.at <= self.last[loop.at]]


def _loads_of(expr: ir.Expr, conditions: _Conditions) -> Iterator[tuple[ir.Load, _Conditions]]:
    """The loads of an expression, each with the conditions under which it is evaluated."""
    match expr:
        case ir.Select(cond=cond, a=a, b=b):
            yield from _loads_of(cond, conditions)
            yield from _loads_of(a, (*conditions, *conjuncts(cond)))
            yield from _loads_of(b, (*conditions, *_negated(cond)))
            return
        case ir.Load():
            yield expr, conditions
    for operand in ir.operands(expr):
        yield from _loads_of(operand, conditions)


def _negated(cond: ir.Expr) -> _Conditions:
    """The negation of a comparison; nothing of another condition."""
    if isinstance(cond, ir.Binary) and cond.op in ir.NEGATED:
        return (ir.Binary(ir.NEGATED[cond.op], cond.a, cond.b),)
    return ()


def barrier_violation(barrier: ThreadPoint) -> str | None:
    """Why not all threads of a block reach a barrier together; None if they do."""
    for condition in barrier.conditions:
        if threads_differ_in(condition):
            return f"one where {expr_text(condition)}"
    for step in barrier.loops:
        if not isinstance(step.loop.extent, int) and threads_differ_in(step.loop.extent):
            return f"one in the loop {step.loop.var} of {expr_text(step.loop.extent)} iterations"
    return None


def threads_differ_in(expr: ir.Expr) -> bool:
    """Whether the value of an expression may differ between the threads of a block."""
    return any(
        isinstance(e, ir.Load) or (isinstance(e, ir.Var) and e.name in ir.THREAD_AXES) for e in ir.walk_expr(expr)
    )
