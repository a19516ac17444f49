# SPDX-License-Identifier: Apache-2.0
"""Heap slots: heap temporaries with disjoint live ranges share one allocation.

Slots are allocated once, at the start of the function or of a parallel loop's body. Live ranges
count the top-level statements of that body; a whole loop is one statement, so that no two buffers
of a slot are used in one loop. Stack space of a thread is limited: buffers beyond STACK_LIMIT,
largest first, move to the heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from vdla.compiler import ir
from vdla.compiler.ir import map_children, storage_dtype
from vdla.compiler.lowering.grids import without_allocs

STACK_LIMIT = 256 * 1024  # bytes on the stack, per function or body of a parallel loop
_Buffers = Mapping[str, ir.Buffer]


@dataclass(frozen=True, slots=True)
class LiveRange:
    """The first and the last statement that access a buffer."""

    buffer: ir.Buffer
    first: int
    last: int

    def overlaps(self, other: LiveRange) -> bool:
        """Whether both buffers are live at one statement."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class HeapFootprint:
    """Heap bytes of a call, and of each thread that runs part of a parallel loop.

    Temporaries of symbolic shape are not counted.
    """

    call: int = 0
    thread: int = 0


def share_heap_slots(fn: ir.Function) -> ir.Function:
    """`fn` with its heap temporaries in slots.

    with alloc(t, u):                  with heap_alloc(t u):
        for i in range(9000):              for i in range(9000):
            t[i] = ...                         t[i] = ...
        for i in range(9000):     ->       for i in range(9000):
            c[i] = t[i]                        c[i] = t[i]
        for i in range(9000):              for i in range(9000):
            u[i] = c[i]                        u[i] = c[i]
        ...                                ...
    """
    buffers = dict(fn.buffers)
    parallel = (s.body for s in ir.find(fn.body, ir.For) if s.kind is ir.LoopKind.PARALLEL)
    for body in (fn.body, *parallel):
        for name in _spilled(_own_allocs(body), buffers):
            buffers[name] = replace(buffers[name], scope="heap")
    return replace(fn, body=_place_in_slots(fn.body, buffers), buffers=buffers)


def _place_in_slots(stmt: ir.Stmt, buffers: _Buffers) -> ir.Stmt:
    """The body of a function or of a parallel loop, with its own slots."""
    stmt = _place_in_parallel(stmt, buffers)
    held = {name for name in _own_allocs(stmt) if buffers[name].scope == "heap"}
    if not held:
        return stmt
    body = without_allocs(stmt, held)
    return ir.HeapAlloc(tuple(_first_fit(_live_ranges(body, [buffers[name] for name in sorted(held)]))), body)


def _place_in_parallel(stmt: ir.Stmt, buffers: _Buffers) -> ir.Stmt:
    """`stmt` with slots in the bodies of its parallel loops."""
    if isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.PARALLEL:
        return replace(stmt, body=_place_in_slots(stmt.body, buffers))
    return map_children(stmt, lambda child: _place_in_parallel(child, buffers))


def _own_allocs(stmt: ir.Stmt) -> Iterator[str]:
    """The buffers allocated in `stmt` outside its parallel loops."""
    result: dict[str, None] = {}
    pending = [stmt]
    while pending:
        inner = pending.pop()
        if isinstance(inner, ir.Alloc):
            result.update(dict.fromkeys(inner.buffers))
        if not (isinstance(inner, ir.For) and inner.kind is ir.LoopKind.PARALLEL):
            pending.extend(ir.children(inner))
    return iter(result)


def _spilled(names: Iterable[str], buffers: _Buffers) -> list[str]:
    """The stack buffers to move to the heap, largest first, until the rest fits."""
    sizes = {name: _nbytes(buffers[name]) for name in names if buffers[name].scope == "stack"}
    total, spilled = sum(sizes.values()), []
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if total <= STACK_LIMIT:
            break
        total -= sizes[name]
        spilled.append(name)
    return spilled


# --- live ranges ----------------------------------------------------------------------------------


def _live_ranges(body: ir.Stmt, buffers: list[ir.Buffer]) -> list[LiveRange]:
    """The live range of each buffer that is accessed."""
    positions: dict[str, list[int]] = {buffer.name: [] for buffer in buffers}
    for number, stmt in enumerate(_sequence(body)):
        for name in _accessed(stmt) & positions.keys():
            positions[name].append(number)
    return [LiveRange(b, positions[b.name][0], positions[b.name][-1]) for b in buffers if positions[b.name]]


def _sequence(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    """The statements that run in sequence, loops as a whole."""
    match stmt:
        case ir.Seq(stmts=stmts):
            for inner in stmts:
                yield from _sequence(inner)
        case ir.Alloc(body=body):
            yield from _sequence(body)
        case _:
            yield stmt


def _accessed(stmt: ir.Stmt) -> set[str]:
    """The buffers that a statement reads, writes or prefetches."""
    result: set[str] = set()
    seen: set[int] = set()
    for inner in ir.walk(stmt):
        match inner:
            case ir.Store(buffer=buffer, indices=indices, value=value):
                result.add(buffer)
                result |= _loaded((*indices, value), seen)
            case ir.Prefetch(buffer=buffer, indices=indices):
                result.add(buffer)
                result |= _loaded(indices, seen)
            case ir.If(cond=cond):
                result |= _loaded((cond,), seen)
    return result


def _loaded(exprs: Iterable[ir.Expr], seen: set[int]) -> set[str]:
    """The buffers that expressions load; nodes in `seen`, by identity, are skipped."""
    result: set[str] = set()
    pending = list(exprs)
    while pending:
        expr = pending.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            if isinstance(expr, ir.Load):
                result.add(expr.buffer)
            pending.extend(ir.operands(expr))
    return result


# --- slots ----------------------------------------------------------------------------------------


def _first_fit(ranges: list[LiveRange]) -> list[tuple[str, ...]]:
    """The buffers of each slot, by first fit, largest buffer first."""
    slots: list[list[LiveRange]] = []
    for live in sorted(ranges, key=lambda live: -_nbytes(live.buffer)):
        for slot in slots:
            if _fits(live.buffer, slot[0].buffer) and not any(live.overlaps(other) for other in slot):
                slot.append(live)
                break
        else:
            slots.append([live])
    return [tuple(live.buffer.name for live in slot) for slot in slots]


def _fits(buffer: ir.Buffer, first: ir.Buffer) -> bool:
    """Whether `buffer` fits a slot sized for `first`: not larger, or equally symbolic."""
    if _is_static(buffer) and _is_static(first):
        return _nbytes(buffer) <= _nbytes(first)
    return buffer.shape == first.shape and storage_dtype(buffer.dtype).itemsize == storage_dtype(first.dtype).itemsize


def _is_static(buffer: ir.Buffer) -> bool:
    """Whether the shape is constant."""
    return all(isinstance(extent, int) for extent in buffer.shape)


def _nbytes(buffer: ir.Buffer) -> int:
    """The size of a buffer in bytes, 0 if it is symbolic."""
    return prod(buffer.dims) * storage_dtype(buffer.dtype).itemsize if _is_static(buffer) else 0


def heap_footprint(fn: ir.Function) -> HeapFootprint:
    """The heap use of a lowered function."""
    call = thread = 0
    for inner, parallel in _heap_allocs(fn.body, False):
        size = sum(_nbytes(fn.buffers[row[0]]) for row in inner.slots)
        call, thread = (call, max(thread, size)) if parallel else (call + size, thread)
    return HeapFootprint(call, thread)


def _heap_allocs(stmt: ir.Stmt, parallel: bool) -> Iterator[tuple[ir.HeapAlloc, bool]]:
    """The heap allocations of a tree, and whether each is inside a parallel loop."""
    if isinstance(stmt, ir.HeapAlloc):
        yield stmt, parallel
    parallel = parallel or (isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.PARALLEL)
    for child in ir.children(stmt):
        yield from _heap_allocs(child, parallel)
