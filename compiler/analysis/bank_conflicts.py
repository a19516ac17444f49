# SPDX-License-Identifier: Apache-2.0
"""Bank conflicts: in how many passes the banks of shared memory serve each access of a warp.

Shared memory has 32 banks of 4 bytes; in a pass, each bank gives one word to all lanes that ask for
it. The lanes of a warp are served together, those with vectors of 8 bytes in two halves and those
with vectors of 16 bytes in four quarters, as ldmatrix serves the eight rows of each matrix. What
depends on data counts as the worst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.analysis.thread_accesses import ThreadAccess, ThreadProgram
from vdla.compiler.arith import AffineError, Linear, evaluate, is_evaluable, linear, open_grid, var_names
from vdla.compiler.ir import THREAD_AXES, GridKernel, LoopKind, index_text, storage_dtype

BANKS = 32
BANK_BYTES = 4
_WARP = 32
_VECTOR_BYTES = 16  # of the widest access of a lane
_MOST_POINTS = 1 << 22
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """An access of shared memory by warps: `bytes` for each lane in `passes`, at most; without
    conflicts it takes `least`. The kernel has `count` such statements, for example `text`.
    """

    buffer: str
    text: str
    bytes: int
    passes: int
    least: int
    count: int = 1

    @property
    def conflicts(self) -> int:
        """The passes beyond the least."""
        return self.passes - self.least

    def __str__(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        return f"{self.text} of {self.bytes} bytes a lane{times}: {self.passes} passes, {self.conflicts} by conflicts"


def shared_accesses(kernel: GridKernel) -> tuple[SharedAccess, ...]:
    """The accesses of shared memory in a kernel, alike ones once, in program order."""
    result: dict[tuple[str, bool, int, int, int], SharedAccess] = {}
    passes_of: dict[_Pattern, int] = {}
    for access in ThreadProgram.of(kernel).accesses:
        if kernel.buffers[access.buffer].scope != "shared":
            continue
        for pattern in _patterns(kernel, access):
            passes = passes_of.setdefault(pattern, 0) or pattern.passes(kernel)
            passes_of[pattern] = passes
            key = (access.buffer, access.is_write, pattern.bytes, passes, pattern.least)
            known = result.get(key)
            result[key] = (
                SharedAccess(access.buffer, _text(access), pattern.bytes, passes, pattern.least)
                if known is None
                else replace(known, count=known.count + 1)
            )
    return tuple(result.values())


def _text(access: ThreadAccess) -> str:
    """An access, for reports."""
    if access.tile is None:
        return str(access)
    return f"the step's read of {access.buffer}[{index_text(access.tile.entry)}]"


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What the lanes of a warp access at once: the form of their addresses in bytes, as terms and
    factors, up to a shift that changes no bank's load; `loops` are the variables in it with their
    extents."""

    bytes: int
    terms: tuple[tuple[ir.Expr, int], ...]
    const: int
    loops: tuple[tuple[str, int], ...]
    conditions: tuple[ir.Expr, ...]
    lanes: int = _WARP
    """The lanes that take part, from the first."""

    @property
    def group(self) -> int:
        """The lanes that are served together."""
        return _WARP // max(1, self.bytes // (2 * BANK_BYTES) * 2)

    @property
    def least(self) -> int:
        """The passes without conflicts."""
        return self.lanes // self.group

    def passes(self, kernel: GridKernel) -> int:
        """The passes of the slowest warp in its slowest iteration."""
        names = [*THREAD_AXES[::-1], *(name for name, _ in self.loops)]
        sizes = [*kernel.block[::-1], *(extent for _, extent in self.loops)]
        if prod(sizes) > _MOST_POINTS:
            return self.lanes
        grid = open_grid(names, sizes)
        try:
            address = np.asarray(evaluate(Linear(dict(self.terms), self.const).expr(), grid), np.int64)
        except AffineError:
            return self.lanes
        active = np.ones((1,) * len(names), np.bool_)
        for condition in self.conditions:
            active = active & np.asarray(evaluate(condition, grid), np.bool_)
        rows = _warps(np.where(np.broadcast_to(active, sizes), np.broadcast_to(address, sizes), -1), kernel.threads)
        return _passes(rows[:, : self.lanes], self.group, self.bytes)


def _warps(addresses: _Numbers, threads: int) -> _Numbers:
    """Addresses by thread, then iteration, as a row for each warp and iteration; -1 for no lane."""
    table = addresses.reshape(threads, -1).T
    padded = np.full((table.shape[0], -(-threads // _WARP) * _WARP), -1, np.int64)
    padded[:, :threads] = table
    return padded.reshape(-1, _WARP)


def _passes(rows: _Numbers, group: int, size: int) -> int:
    """The passes of the slowest row: distinct words of the busiest bank, over its groups."""
    words = np.where(rows < 0, -1, rows // BANK_BYTES)
    least = np.where(words < 0, np.iinfo(np.int64).max, words).min(axis=1, keepdims=True) // BANKS * BANKS
    patterns = np.unique(np.where(words < 0, -1, words - least), axis=0)
    width = max(1, size // BANK_BYTES)
    return max(
        (sum(_busiest(row[n : n + group], width) for n in range(0, len(row), group)) for row in patterns), default=0
    )


def _busiest(first: _Numbers, width: int) -> int:
    """The distinct words that the busiest bank gives, where each lane asks for `width` words from
    its first."""
    asked = first[first >= 0]
    if not asked.size:
        return 0
    words = np.unique(asked[:, None] + np.arange(width))
    return int(np.bincount(words % BANKS).max())


# --- patterns of accesses -------------------------------------------------------------------------


def _patterns(kernel: GridKernel, access: ThreadAccess) -> Iterator[_Pattern]:
    """The accesses of a warp that a statement makes, one after another."""
    if access.tile is not None:
        yield from _step_patterns(kernel, access)
        return
    size = storage_dtype(kernel.buffers[access.buffer].dtype).itemsize
    form = _address(kernel, access.buffer, access.indices)
    loops = {step.loop.var: step.loop for step in access.loops}
    vector = next((loop for loop in loops.values() if loop.kind is LoopKind.VECTORIZE), None)
    if vector is None or not _is_contiguous(form, vector.var, size):
        yield _pattern(kernel, access, form, size)
        return
    whole = vector.size * size
    step = min(whole, _VECTOR_BYTES)
    for start in range(0, whole, step):
        rest = Linear({term: f for term, f in form.terms.items() if term != ir.Var(vector.var)}, form.const + start)
        yield _pattern(kernel, access, rest, min(step, whole - start))


def _step_patterns(kernel: GridKernel, access: ThreadAccess) -> Iterator[_Pattern]:
    """The loads of a fragment: matrices of rows of 16 bytes, else element by element."""
    tile, lane = access.tile, ir.Var(THREAD_AXES[0])
    assert tile is not None
    *lead, row, column = tile.entry
    fragment = tile.fragment
    size = storage_dtype(fragment.dtype).itemsize
    whole = fragment.matrices > 0
    places = [fragment.matrix_row(lane)] if whole else [fragment.element(lane, n) for n in range(fragment.size)]
    for down, across in places:
        at = (*lead, ir.Binary("add", row, down), ir.Binary("add", column, across))
        form = _address(kernel, access.buffer, at)
        pattern = _pattern(kernel, access, form, _VECTOR_BYTES if whole else size)
        yield replace(pattern, lanes=8 * fragment.matrices) if whole else pattern


def _address(kernel: GridKernel, buffer: str, indices: tuple[ir.Expr, ...]) -> Linear:
    """The address of an element in its buffer, in bytes."""
    held = kernel.buffers[buffer]
    form = Linear({})
    for index, extent in zip(indices, held.dims, strict=True):
        form = form.scaled(extent) + linear(index)
    return form.scaled(storage_dtype(held.dtype).itemsize)


def _is_contiguous(form: Linear, var: str, size: int) -> bool:
    """Whether the iterations of a loop access neighbours."""
    hidden = any(var in var_names(term) for term in form.terms if term != ir.Var(var))
    return form.terms.get(ir.Var(var)) == size and not hidden


def _pattern(kernel: GridKernel, access: ThreadAccess, form: Linear, size: int) -> _Pattern:
    """The pattern of an access whose addresses have a form."""
    conditions = tuple(c for c in access.conditions if is_evaluable(c))
    by_lane = set(THREAD_AXES).union(*(var_names(c) for c in conditions))
    terms = {t: f for t, f in form.terms.items() if f % BANK_BYTES or var_names(t) & by_lane}
    names = set().union(*(var_names(term) for term in terms), *(var_names(c) for c in conditions)) - set(THREAD_AXES)
    extents = {**kernel.extents, **{step.loop.var: step.loop.extent for step in access.loops}}
    loops = tuple((name, extent) for name in sorted(names) if isinstance(extent := extents.get(name), int))
    return _Pattern(size, tuple(terms.items()), form.const % BANK_BYTES, loops, conditions)
