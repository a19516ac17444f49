# SPDX-License-Identifier: Apache-2.0
"""Kernels of a GPU on symbols: all threads of some blocks at once, statement by statement.

That is one of the orders in which threads may run; all give the same results, since accesses that
race are refused: of threads of a block between two barriers, and of blocks in a launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import loop_ranges
from vdla.compiler.certificates.access_notes import AccessNotes
from vdla.compiler.certificates.nest_memory import NestMemory
from vdla.compiler.certificates.sum_bounds import SumBounds
from vdla.compiler.certificates.symbols import Symbols
from vdla.compiler.interpret.memory import Indices, InterpretError, Points
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES, Array, GridKernel, map_exprs

_MOST_THREADS = 1 << 14  # that run at once, of one block or more
_BLOCK, _THREAD = "block of the launch", "thread of the block"
_BLOCK_HERE, _THREAD_HERE = "block", "thread"  # numbers among those that run at once
_PREFIX = {"local": (ir.Var(_BLOCK_HERE), ir.Var(_THREAD)), "shared": (ir.Var(_BLOCK_HERE),)}


def run_kernels(
    kernels: Sequence[GridKernel], inputs: Mapping[str, Symbols], outputs: Sequence[str]
) -> dict[str, Symbols]:
    """The global buffers `outputs` after launches of kernels, one after another, by name.

    Raises:
        InterpretError: threads race, meet at no barrier that all reach, or access an element out of
            bounds or before it is written, or leave an output unwritten.
        CertificateError: a type without symbols, or an index that depends on inputs.
    """
    held: dict[str, tuple[Symbols, Array]] = {
        name: (np.ascontiguousarray(array), np.ones(array.shape, np.bool_)) for name, array in inputs.items()
    }
    with np.errstate(all="ignore"):
        for kernel in kernels:
            _run_kernel(kernel, held)
    for name in outputs:
        if name not in held or not held[name][1].all():
            raise InterpretError(f"{kernels[0].name}: every element of {name} must be written, got some unwritten")
    return {name: held[name][0] for name in outputs}


def _run_kernel(kernel: GridKernel, held: dict[str, tuple[Symbols, Array]]) -> None:
    """Runs one launch on global buffers, each with which elements are written."""
    blocks = [point.reshape(-1, 1) for point in np.indices([ir.number(n, "grid") for n in kernel.grid])]
    threads = [point.reshape(1, -1) for point in np.indices(kernel.block)]
    x, y, z = threads
    number = (z * kernel.block[1] + y) * kernel.block[0] + x
    at_once = max(1, _MOST_THREADS // kernel.threads)
    between_blocks: dict[str, AccessNotes] = {}
    for first in range(0, len(blocks[0]), at_once):
        some = [axis[first : first + at_once] for axis in blocks]
        count = len(some[0])
        here = np.arange(count)[:, None]
        values = {**dict(zip(BLOCK_AXES, some, strict=True)), **dict(zip(THREAD_AXES, threads, strict=True))}
        values |= {_BLOCK: here + first, _BLOCK_HERE: here, _THREAD: number}
        values[_THREAD_HERE] = here * _padded(kernel) + number
        memory = _KernelMemory.of(kernel, count, held, between_blocks)
        points = Points(values, np.ones((count, kernel.threads), np.bool_), kernel.name)
        _Threads(kernel, memory).run(_with_prefixes(kernel), points)


def _padded(kernel: GridKernel) -> int:
    """The threads of a block with those that its last warp lacks."""
    return -(-kernel.threads // kernel.warp) * kernel.warp


def _with_prefixes(kernel: GridKernel) -> ir.Stmt:
    """The body with shared buffers for each block, and local ones for each thread."""

    def prefixed(name: str, indices: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
        return (*_PREFIX.get(kernel.buffers[name].scope, ()), *indices)

    def load(expr: ir.Expr) -> ir.Expr:
        return ir.Load(expr.buffer, prefixed(expr.buffer, expr.indices)) if isinstance(expr, ir.Load) else expr

    def statement(stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.MultiStore):
            return ir.MultiStore(tuple(replace(s, indices=prefixed(s.buffer, s.indices)) for s in stmt.stores))
        return replace(stmt, indices=prefixed(stmt.buffer, stmt.indices)) if isinstance(stmt, ir.Store) else stmt

    loaded = map_exprs(kernel.body, lambda expr: ir.transform(expr, load))
    return _stores(loaded, statement)


def _stores(stmt: ir.Stmt, change: Any) -> ir.Stmt:  # noqa: ANN401  a function of statements
    if isinstance(stmt, ir.Store | ir.MultiStore):
        result: ir.Stmt = change(stmt)
        return result
    return ir.with_children(stmt, tuple(_stores(child, change) for child in ir.children(stmt)))


class _KernelMemory(NestMemory):
    """Buffers of a launch, those of blocks and threads with indices for these."""

    scopes: Mapping[str, str]
    between_blocks: dict[str, AccessNotes]

    @classmethod
    def of(
        cls,
        kernel: GridKernel,
        blocks: int,
        held: dict[str, tuple[Symbols, Array]],
        between_blocks: dict[str, AccessNotes],
    ) -> _KernelMemory:
        """The memory of some blocks; global buffers are those that are held."""
        sizes = {"local": (blocks, kernel.threads), "shared": (blocks,)}
        buffers = {
            name: replace(buffer, shape=(*sizes.get(buffer.scope, ()), *buffer.dims))
            for name, buffer in kernel.buffers.items()
        }
        axes = {axis: (0, ir.number(extent, axis) - 1) for axis, extent in kernel.extents.items()}
        axes |= {_BLOCK_HERE: (0, blocks - 1), _THREAD: (0, kernel.threads - 1)}
        memory = cls(buffers, Indices(loop_ranges(kernel.body, axes)))
        memory.sums, memory.warp = SumBounds(), kernel.warp
        memory.scopes = {name: buffer.scope for name, buffer in kernel.buffers.items()}
        memory.between_blocks = between_blocks
        for name, scope in memory.scopes.items():
            if scope not in sizes:
                memory.arrays[name], memory.written[name] = held.setdefault(
                    name, (memory.arrays[name], memory.written[name])
                )
        stored = {store.buffer for store in ir.find(kernel.body, ir.Store)}
        memory.given = {name for name in memory.scopes if name in held and name not in stored and held[name][1].all()}
        memory.start(_THREAD_HERE)
        return memory

    def accesses(self, name: str) -> list[tuple[AccessNotes, str]]:
        """The notes of a buffer: of threads, and in global memory of blocks."""
        if self.scopes[name] == "local":
            return []
        between_threads = super().accesses(name)
        if self.scopes[name] == "shared":
            return between_threads
        notes = self.between_blocks.setdefault(name, AccessNotes(self.buffers[name].dims))
        return [*between_threads, (notes, _BLOCK)]


class _Threads:
    """The threads of some blocks of a launch."""

    def __init__(self, kernel: GridKernel, memory: _KernelMemory) -> None:
        self.kernel, self.memory = kernel, memory

    def run(self, stmt: ir.Stmt, at: Points) -> None:
        """Runs a statement by all active threads."""
        match stmt:
            case ir.For(var=var, body=body):
                for i in range(stmt.size):
                    self.run(body, replace(at, values={**at.values, var: i}))
            case ir.If(cond=cond, body=body):
                inside = at.only(np.broadcast_to(self.memory.index(cond, at), at.mask.shape))
                if inside.mask.any():
                    self.run(body, inside)
            case ir.Store():
                self.memory.store_all((stmt,), at)
            case ir.MultiStore(stores=stores):
                self.memory.store_all(stores, at)
            case ir.Alloc(buffers=buffers, body=body):
                for name in buffers:
                    self.memory.written[name][...] = False
                self.run(body, at)
            case ir.Atomic(body=ir.Store() as store):
                self.update(store, at)
            case ir.Shuffle(body=ir.Store(value=ir.Load() as source) as store, distance=distance):
                self.shuffle(store, source, distance, at)
            case ir.Barrier(scope=scope):
                self.pass_barrier(scope, at)
            case ir.Prefetch():
                pass
            case _:
                for child in ir.children(stmt):
                    self.run(child, at)

    def update(self, store: ir.Store, at: Points) -> None:
        """An atomic update, by one thread after the other where they share an element."""
        places = [np.broadcast_to(place, at.mask.shape) for place in self.memory.places(store.indices, at)]
        self.memory.note("update", store.buffer, places, at)
        flat = np.ravel_multi_index(
            [place[at.mask] for place in places], self.memory.buffers[store.buffer].dims, mode="clip"
        )
        turns = np.zeros(at.mask.shape, np.int64)
        turns[at.mask] = _turns(flat)
        thread, self.memory.thread = self.memory.thread, ""
        for turn in range(int(turns.max()) + 1):
            self.memory.store_all((store,), at.only(turns == turn))
        self.memory.thread = thread

    def shuffle(self, store: ir.Store, source: ir.Load, distance: int, at: Points) -> None:
        """A store of what another lane holds, or of its own past the end of the warp."""
        memory, number = self.memory, at.values[_THREAD]
        other = number + distance
        inside = (other < self.kernel.threads) & (other // self.kernel.warp == number // self.kernel.warp)
        places = memory.places(source.indices, at)
        places[1] = np.where(inside, other, number)
        there = tuple(np.broadcast_to(place, at.mask.shape) for place in places)
        known = memory.written[source.buffer][there]
        targets = memory.places(store.indices, at)
        memory.store(store.buffer, targets, memory.elements(source.buffer, there), at)
        at_targets = tuple(np.broadcast_to(place, at.mask.shape)[at.mask] for place in targets)
        memory.written[store.buffer][at_targets] = known[at.mask]

    def pass_barrier(self, scope: ir.BarrierScope, at: Points) -> None:
        """A barrier, which all threads of a block or of a warp must reach."""
        size = self.kernel.threads if scope is ir.BarrierScope.BLOCK else self.kernel.warp
        order = np.argsort(at.values[_THREAD].reshape(-1))
        for group in _groups(at.mask[:, order], size):
            if (group.any(axis=1) != group.all(axis=1)).any():
                raise InterpretError(f"{self.kernel.name}: all threads of a block must come to a barrier, got some")
        if at.mask.all():
            for notes in self.memory.notes.values():
                if scope is ir.BarrierScope.BLOCK:
                    notes.forget()
                else:
                    notes.forget_within_warps()


def _groups(mask: Array, size: int) -> Iterator[Array]:
    """The threads of each block in groups, `[blocks, threads]`."""
    return (mask[:, first : first + size] for first in range(0, mask.shape[1], size))


def _turns(places: Array) -> Array:
    """How many equal places come before each."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    count = np.arange(len(places))
    begins = np.r_[True, ordered[1:] != ordered[:-1]] if len(places) else np.zeros(0, np.bool_)
    turns = np.empty(len(places), np.int64)
    turns[order] = count - np.maximum.accumulate(np.where(begins, count, 0)) if len(places) else count
    return turns
