# SPDX-License-Identifier: Apache-2.0
"""The naive model of loop independence: every element that each iteration of a loop accesses.

It checks compiler/analysis/independence.py, and lowered functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vdla.compiler import ir

Element = tuple[str, tuple[int, ...]]
Env = Mapping[str, int]


@dataclass
class Touched:
    """One iteration: elements read before it writes them, all elements read, elements written."""

    first: set[Element] = field(default_factory=set)
    reads: set[Element] = field(default_factory=set)
    writes: set[Element] = field(default_factory=set)


def conflict(fn: ir.Function, loop: str, private: bool) -> str:
    """An element that one iteration writes and another accesses, as text, or "".

    With `private`, a buffer accessed only inside the loop is private to an iteration, unless the
    iteration reads elements that it has not written.
    """
    return shared(fn, loop, only_inside(fn, loop) if private else set())


def race(fn: ir.Function) -> str:
    """An element of a lowered function on which concurrent iterations conflict, or ""."""
    at_once = (ir.LoopKind.PARALLEL, ir.LoopKind.VECTORIZE)
    for loop in (stmt for stmt in ir.walk(fn.body) if isinstance(stmt, ir.For) and stmt.kind in at_once):
        inside = [stmt for stmt in ir.walk(loop) if isinstance(stmt, ir.Alloc | ir.HeapAlloc)]
        own = {
            name for s in inside for row in (s.slots if isinstance(s, ir.HeapAlloc) else (s.buffers,)) for name in row
        }
        if found := shared(fn, loop.var, own):
            return f"{loop.var}: {found}"
    return ""


def shared(fn: ir.Function, loop: str, own: set[str]) -> str:
    """An element of a shared buffer that one iteration writes and another accesses, or ""."""
    for iterations in instances(fn.body, loop, {}):
        for p, one in enumerate(iterations):
            for q, two in enumerate(iterations):
                touched = {e for e in one.writes & (two.reads | two.writes) if e[0] not in own}
                carried = {e for e in one.writes & two.first if e[0] in own}
                if p != q and touched | carried:
                    return str(min(touched | carried))
    return ""


def only_inside(fn: ir.Function, loop: str) -> set[str]:
    """The intermediate buffers accessed only inside the loop."""
    used: dict[bool, set[str]] = {True: set(), False: set()}

    def visit(stmt: ir.Stmt, inside: bool) -> None:
        inside = inside or (isinstance(stmt, ir.For) and stmt.var == loop)
        if isinstance(stmt, ir.Store):
            loads = (e.buffer for e in ir.walk_expr(stmt.value) if isinstance(e, ir.Load))
            used[inside] |= {stmt.buffer, *loads}
        for child in ir.children(stmt):
            visit(child, inside)

    visit(fn.body, False)
    return used[True] - used[False] - set(fn.params)


def instances(stmt: ir.Stmt, loop: str, env: Env) -> Iterator[list[Touched]]:
    """For each execution of the loop, the accesses of each of its iterations."""
    match stmt:
        case ir.For(var=var, body=body) if var == loop:
            found = [Touched() for _ in range(stmt.size)]
            for i, touched in enumerate(found):
                run(body, {**env, var: i}, touched)
            yield found
        case ir.For(var=var, body=body):
            for i in range(stmt.size):
                yield from instances(body, loop, {**env, var: i})
        case ir.If(cond=cond, body=body):
            if value(cond, env):
                yield from instances(body, loop, env)
        case ir.Seq() | ir.Alloc() | ir.HeapAlloc():
            for inner in ir.children(stmt):
                yield from instances(inner, loop, env)


def run(stmt: ir.Stmt, env: Env, touched: Touched) -> None:
    """Records the accesses of a statement."""
    match stmt:
        case ir.For(var=var, body=body):
            for i in range(stmt.size):
                run(body, {**env, var: i}, touched)
        case ir.Block():
            if stmt.predicate is not None and not value(stmt.predicate, env):
                return
            bound = {axis.var: value(v, env) for axis, v in zip(stmt.axes, stmt.values, strict=True)}
            reduced = [bound[axis.var] for axis in stmt.axes if axis.kind is ir.AxisKind.REDUCE]
            if stmt.init is not None and not any(reduced):
                run(stmt.init, {**env, **bound}, touched)
            run(stmt.body, {**env, **bound}, touched)
        case ir.If(cond=cond, body=body):
            if value(cond, env):
                run(body, env, touched)
        case ir.Store(buffer=buffer, indices=indices):
            note_reads(stmt.value, env, touched)
            touched.writes.add((buffer, tuple(value(i, env) for i in indices)))
        case _:
            for child in ir.children(stmt):
                run(child, env, touched)


def note_reads(expr: ir.Expr, env: Env, touched: Touched) -> None:
    """Records the loads of an expression; both sides of a select count."""
    for load in ir.walk_expr(expr):
        if isinstance(load, ir.Load):
            element = load.buffer, tuple(value(i, env) for i in load.indices)
            touched.reads.add(element)
            if element not in touched.writes:
                touched.first.add(element)


def value(expr: ir.Expr, env: Env) -> int:
    """The value of an index or condition."""
    match expr:
        case ir.Var(name=name):
            return env[name]
        case ir.Const(value=number):
            return int(number)
        case ir.Binary(op=op, a=a, b=b):
            return int(ir.OPERATORS[op].on_ints(value(a, env), value(b, env)))
    raise AssertionError(f"no index: {expr}")
