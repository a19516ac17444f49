# SPDX-License-Identifier: Apache-2.0
"""What a lowered kernel does, counted on its statements: memory transactions, passes, operations.

Addresses are those of the threads of the first group in the first iteration of each loop; guards
count as true where they depend on more than the thread, so that padding is work like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.arith import AffineError, evaluate, var_names
from vdla.compiler.ir import THREAD_AXES, GridKernel, LoopKind, storage_dtype
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.operators.cpu.block_nest import nominal_extent
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.grid.model import (
    BANK_BYTES,
    BANKS,
    IN_FLIGHT,
    OWN_REGISTERS,
    TENSOR_CORE_STEP,
    WARP,
    GridMachine,
    GridWork,
    modelled_cycles,
)

Ints = NDArray[np.int64]

_SECTOR_BYTES = 32  # of memory: the least that is moved
_ACCESS_BYTES = 16  # that a thread moves by one instruction
_SHORT = 16  # iterations of a loop that a compiler unrolls: a value that is read again stays in a register
_LOCAL = ("local", "warp")


def modelled_cost(fn: ir.Function, limits: GridLimits, machine: GridMachine | None = None) -> float:
    """The cycles of all launches of a scheduled function, as they are lowered; by default on a
    machine of the size of a GPU for data centres.

    Raises:
        PassError: the schedule asks for the impossible, or for more than the limits.
    """
    chosen = GridMachine() if machine is None else machine
    return float(sum(modelled_cycles(kernel_work(kernel), chosen) for kernel in lower_kernels(fn, limits)))


def kernel_work(kernel: GridKernel) -> GridWork:
    """The work of a kernel; symbolic extents count with a nominal size."""
    counts = _Counts(kernel)
    counts.visit(kernel.body, 1.0, _thread_values(kernel))
    return GridWork(
        groups=float(prod(nominal_extent(extent) for extent in kernel.grid)),
        threads=float(kernel.threads),
        shared_bytes=float(kernel.shared_bytes),
        registers=OWN_REGISTERS + _local_registers(kernel),
        memory_bytes=counts.sectors * _SECTOR_BYTES,
        shared_passes=counts.passes,
        operations=counts.operations,
        waits=counts.waits,
        barriers=counts.barriers,
    )


def _thread_values(kernel: GridKernel) -> dict[str, Ints]:
    """The axes of each thread of a group as [thread, 1]; neighbours follow each other along x."""
    numbers = np.arange(kernel.threads)[:, None]
    values_of, below = {}, 1
    for axis, extent in zip(THREAD_AXES, kernel.block, strict=True):
        values_of[axis] = numbers // below % extent
        below *= extent
    return values_of


def _local_registers(kernel: GridKernel) -> float:
    """The registers that hold a thread's own arrays."""
    buffers = (buffer for buffer in kernel.buffers.values() if buffer.scope in _LOCAL)
    return sum(ceil(prod(b.dims) * storage_dtype(b.dtype).itemsize / BANK_BYTES) for b in buffers)


@dataclass(frozen=True, slots=True)
class _Access:
    """Loads or stores of an element by each thread and vector lane: bytes as [thread, lane]."""

    addresses: Ints
    itemsize: int

    @property
    def instructions(self) -> int:
        """Of each thread."""
        return ceil(int(self.addresses.shape[1]) * self.itemsize / _ACCESS_BYTES)

    def _units(self, size: int) -> tuple[Ints, Ints]:
        """The different units of `size` bytes that each warp accesses: warps and units."""
        warps = np.broadcast_to(np.arange(len(self.addresses))[:, None] // WARP, self.addresses.shape)
        last = (self.addresses + self.itemsize - 1) // size
        units = np.stack([np.stack([warps, self.addresses // size]), np.stack([warps, last])], axis=1).reshape(2, -1)
        unique_units = np.unique(units, axis=1)
        return unique_units[0], unique_units[1]

    @property
    def sectors(self) -> int:
        """The sectors of memory that all warps of a group access."""
        return len(self._units(_SECTOR_BYTES)[0])

    @property
    def passes(self) -> int:
        """How often the busiest bank is accessed, of all warps together."""
        warps, words = self._units(BANK_BYTES)
        counts = np.zeros((int(warps.max(initial=-1)) + 1, BANKS), np.int64)
        np.add.at(counts, (warps, words % BANKS), 1)
        return int(counts.max(axis=1, initial=0).sum())


@dataclass(slots=True)
class _Counts:
    """What a group executes."""

    kernel: GridKernel
    sectors: float = 0.0
    passes: float = 0.0
    operations: float = 0.0
    waits: float = 0.0
    barriers: float = 0.0
    conditions: list[ir.Expr] = field(default_factory=list)
    kept: set[ir.Load] = field(default_factory=set)  # in registers since the last barrier
    fragments: set[tuple[str, tuple[ir.Expr, ...]]] = field(default_factory=set)  # likewise
    unrolled: dict[str, int] = field(default_factory=dict)  # short loops around, with their extents

    def visit(self, stmt: ir.Stmt, times: float, values: Mapping[str, Ints]) -> None:
        """Count a statement that each thread executes `times`."""
        if any(self._reads_memory(store) for store in _straight(stmt)):
            self.waits += times
        self._visit(stmt, times, values)

    def _visit(self, stmt: ir.Stmt, times: float, values: Mapping[str, Ints]) -> None:
        match stmt:
            case ir.For(var=var, extent=extent, kind=LoopKind.VECTORIZE, body=body):
                self._visit(body, times, {**values, var: np.arange(nominal_extent(extent))[None, :]})
            case ir.For(var=var, extent=extent, body=body):
                self._loop(var, body, times, nominal_extent(extent), values)
            case ir.If(cond=cond, body=body):
                self.conditions.append(cond)
                self._visit(body, times, values)
                self.conditions.pop()
            case ir.Barrier():
                self.barriers += times
                self.kept.clear()
                self.fragments.clear()
            case ir.Store():
                self._store(stmt, times, values)
            case ir.Shuffle():
                self.operations += times * self._warps
            case ir.IntrinsicCall(match=match) if match.intrinsic.fragments:
                self._warp_step(match, times)
            case _:
                for child in ir.children(stmt):
                    self._visit(child, times, values)

    def _loop(self, var: str, body: ir.Stmt, times: float, extent: int, values: Mapping[str, Ints]) -> None:
        before, kept, unrolled = self.waits, self.kept, self.unrolled
        is_short = extent <= _SHORT and not any(isinstance(inner, ir.Barrier) for inner in ir.walk(body))
        self.kept, self.unrolled = (set(kept), {**unrolled, var: extent}) if is_short else (set(), {})
        self.visit(body, times * extent, values)
        self.kept, self.unrolled = self.kept if is_short else kept, unrolled
        is_innermost = not any(_is_loop(inner) or isinstance(inner, ir.Barrier) for inner in ir.walk(body))
        if is_innermost and self.waits > before:
            self.waits = before + times * ceil(extent / IN_FLIGHT)

    def _store(self, store: ir.Store, times: float, values: Mapping[str, Ints]) -> None:
        reads = [e for e in ir.walk_expr(store.value) if isinstance(e, ir.Load)]
        accesses: list[ir.Load | ir.Store] = [load for load in dict.fromkeys(reads) if load not in self.kept]
        for access in (*accesses, store):
            self._access(access, times / self._repeats(access), values)
        self.kept.update(reads)
        width = prod(axis.shape[1] for axis in values.values())
        self.operations += times * self._warps * width * sum(map(_computes, _value_nodes(store.value)))

    def _repeats(self, access: ir.Load | ir.Store) -> int:
        """The iterations of unrolled loops around that access the same element."""
        names = {name for index in access.indices for name in var_names(index)}
        return prod(extent for var, extent in self.unrolled.items() if var not in names)

    @property
    def _warps(self) -> int:
        return ceil(self.kernel.threads / WARP)

    def _access(self, access: ir.Load | ir.Store, times: float, values: Mapping[str, Ints]) -> None:
        buffer = self.kernel.buffers[access.buffer]
        if buffer.scope in _LOCAL:
            return
        described = _Access(self._addresses(buffer, access.indices, values), _itemsize(buffer))
        self.operations += times * self._warps * described.instructions
        if buffer.scope == "shared":
            self.passes += times * described.passes
        else:
            self.sectors += times * described.sectors

    def _addresses(self, buffer: ir.Buffer, indices: Sequence[ir.Expr], values: Mapping[str, Ints]) -> Ints:
        """In bytes, as [thread, lane], of the threads that guards let pass."""
        count = self.kernel.threads
        offset: Ints = np.zeros((count, 1), np.int64)
        try:
            for index, extent in zip(indices, buffer.shape, strict=True):
                offset = offset * nominal_extent(extent) + evaluate(index, values, default=0)
        except AffineError:  # an index that memory holds: each thread goes its own way
            offset = np.arange(count)[:, None] * _SECTOR_BYTES
        return offset[self._passing(values)] * _itemsize(buffer)

    def _passing(self, values: Mapping[str, Ints]) -> NDArray[np.bool_]:
        """The threads for which the guards hold that depend on the thread alone."""
        passing = np.ones(self.kernel.threads, np.bool_)
        for condition in self.conditions:
            if set(var_names(condition)) <= set(THREAD_AXES):
                passing &= np.broadcast_to(evaluate(condition, values), (self.kernel.threads, 1))[:, 0].astype(bool)
        return passing

    def _warp_step(self, match: ir.Match, times: float) -> None:
        """A step on tensor cores, and loads of its operands in shared memory, each once."""
        self.operations += times * self._warps * TENSOR_CORE_STEP
        for operand, name in match.buffers.items():
            fragment = name, match.entries[operand]
            if self.kernel.buffers[name].scope not in _LOCAL and fragment not in self.fragments:
                self.fragments.add(fragment)
                tile = prod(match.intrinsic.fragments[operand].shape) * _itemsize(self.kernel.buffers[name])
                self.operations += times * self._warps
                self.passes += times * self._warps * ceil(tile / (BANKS * BANK_BYTES))

    def _reads_memory(self, store: ir.Store) -> bool:
        """Whether a store reads a buffer in memory."""
        loads = (e for e in ir.walk_expr(store.value) if isinstance(e, ir.Load))
        return any(self.kernel.buffers[load.buffer].scope not in (*_LOCAL, "shared") for load in loads)


def _is_loop(stmt: ir.Stmt) -> bool:
    """Whether a statement is a loop, which lanes of a vector are not."""
    return isinstance(stmt, ir.For) and stmt.kind is not LoopKind.VECTORIZE


def _itemsize(buffer: ir.Buffer) -> int:
    return storage_dtype(buffer.dtype).itemsize


def _straight(stmt: ir.Stmt) -> Iterator[ir.Store]:
    """The stores of a statement that lie in no loop of it but those of vectors."""
    match stmt:
        case ir.Store():
            yield stmt
        case ir.For(kind=kind) if kind is not LoopKind.VECTORIZE:
            return
        case _:
            for child in ir.children(stmt):
                yield from _straight(child)


def _value_nodes(expr: ir.Expr) -> Iterator[ir.Expr]:
    """The nodes of a value without those of indices."""
    yield expr
    if not isinstance(expr, ir.Load):
        for operand in ir.operands(expr):
            yield from _value_nodes(operand)


def _computes(expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Binary | ir.Call | ir.Select | ir.Cast)
