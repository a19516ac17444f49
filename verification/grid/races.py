# SPDX-License-Identifier: Apache-2.0
"""Planted races: every one that the interpreter of threads finds must be refused, and nothing else.

The kernels are cooperative schedules of random sizes, with one defect each, and random kernels.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler import ir
from vdla.compiler.analysis import ScheduleError, check_threads
from vdla.compiler.interpret import InterpretError, interpret_kernels
from vdla.compiler.ir import GridKernel, storage_dtype
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.support.progress import Progress
from vdla.verification.grid.cooperative import (
    centred_rows,
    row_sums,
    stencil,
    strided_stencil,
    tiled_product,
    total,
    transpose,
)
from vdla.verification.grid.defects import defects

RANDOM = "random kernel"


@dataclass(slots=True)
class RaceCounts:
    """How the analysis judged kernels, by the kind of the defect."""

    planted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    clean: int = 0
    false_alarms: int = 0

    def add(self, kind: str, kernel: GridKernel, seed: int) -> None:
        """Counts a kernel; one in which the interpreter finds no fault is clean."""
        faulty, refused = _is_faulty(kernel, seed), _is_refused(kernel)
        if faulty:
            self.planted[kind] += 1
            self.refused[kind] += refused
        else:
            self.clean += 1
            self.false_alarms += refused


def count_races(progress: Progress, seed: int, least: int, random_kernels: int) -> RaceCounts:
    """At least `least` planted races, then random kernels."""
    chance, counts = random.Random(seed), RaceCounts()
    while counts.planted.total() < least:
        progress("planted races", counts.planted.total(), least)
        limits = GridLimits("any device", warp=chance.choice((1, 2, 4)))
        for kernel in lower_kernels(_schedule(chance).fn, limits):
            counts.add("none", kernel, seed)
            for kind, faulty in defects(kernel):
                counts.add(kind, faulty, seed)
    for n in range(random_kernels):
        if n % 100 == 0:
            progress("random kernels", n, random_kernels)
        counts.add(RANDOM, random_kernel(seed * random_kernels + n), seed)
    return counts


def _schedule(chance: random.Random) -> Schedule:
    """A cooperative schedule of a random size."""
    return chance.choice(tuple(_schedules(chance)))()


def _schedules(chance: random.Random) -> Iterator[Callable[[], Schedule]]:
    """The schedules of one size each."""
    threads = chance.randint(2, 6)
    rows, share = chance.randint(2, 4), chance.randint(1, 4)
    columns = (threads - 1) * share + chance.randint(1, share)  # the last thread has fewer
    yield lambda: row_sums(rows, columns, threads)
    yield lambda: row_sums(rows, columns, threads, tree=True)
    yield lambda: total(rows * columns, rows, threads)
    yield lambda: centred_rows(rows, columns, threads)
    yield lambda: stencil(chance.randint(threads, 5 * threads), threads)
    yield lambda: strided_stencil(rows, threads, double=chance.random() < 0.5)
    yield lambda: transpose(chance.randint(4, 9), chance.randint(2, 3))
    yield lambda: _product(chance, double=False)
    yield lambda: _product(chance, double=True)


def _product(chance: random.Random, *, double: bool) -> Schedule:
    """A tiled product; `double` gives each tile two halves."""
    thread = chance.randint(1, 2)
    s = tiled_product(4 * thread + chance.randint(0, 2), 2 * thread, thread, chance.randint(1, 4))
    for tile in ("a_shared", "b_shared") if double else ():
        s.double_buffer(tile)
    return s


def _is_faulty(kernel: GridKernel, seed: int) -> bool:
    """Whether the interpreter of threads finds a fault."""
    given = {b.name: np.ones(b.dims, storage_dtype(b.dtype)) for b in kernel.buffers.values() if b.scope == "global"}
    try:
        interpret_kernels([kernel], given, seed)
    except InterpretError:
        return True
    return False


def _is_refused(kernel: GridKernel) -> bool:
    """Whether the analysis refuses a kernel."""
    try:
        check_threads(kernel)
    except ScheduleError:
        return True
    return False


# --- random kernels -------------------------------------------------------------------------------
# Random kernels: threads that read and write a few shared and global elements, between barriers or
# not.
#
# Extents are small, so that many threads meet by chance and the thread-by-thread interpreter runs a
# kernel in milliseconds.


_ELEMENTS = 12  # of each buffer
_GLOBAL = 40


@dataclass(slots=True)
class _Builder:
    """Draws statements inside loops, whose variables `loops` maps to their extents."""

    chance: random.Random
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    count: int = 0
    parted: bool = False  # inside a condition that differs between threads

    def body(self, loops: dict[str, int], depth: int) -> ir.Stmt:
        """One to three statements."""
        return ir.seq(*(self.statement(loops, depth) for _ in range(self.chance.randint(1, 3))))

    def statement(self, loops: dict[str, int], depth: int) -> ir.Stmt:
        """A store, a barrier, or a loop or condition around others."""
        kind = self.chance.choice(("store", "store", "store", "barrier", "barrier", "for", "if")[: 7 if depth else 5])
        if kind == "barrier":
            scopes = (ir.BarrierScope.BLOCK, ir.BarrierScope.BLOCK, ir.BarrierScope.WARP)
            return ir.Barrier(self.chance.choice(scopes[: 2 if self.parted else 3]))
        if kind == "for":
            self.count += 1
            var, extent = f"i{self.count}", self.chance.randint(2, 3)
            return ir.For(var, extent, self.body({**loops, var: extent}, depth - 1))
        if kind == "if":
            axis = self.chance.choice([a for a, n in zip(ir.THREAD_AXES, self.block, strict=True) if n > 1])
            extent = self.block[ir.THREAD_AXES.index(axis)]
            below = ir.Binary("lt", ir.Var(axis), ir.Const(self.chance.randint(1, extent - 1)))
            self.parted = True
            inside = self.store(loops) if self.chance.random() < 0.9 else self.body(loops, 0)
            self.parted = False
            return ir.If(below, inside)
        return self.store(loops)

    def store(self, loops: dict[str, int]) -> ir.Store:
        """A store of one or two loaded elements, or of a number."""
        loaded = [self.load(loops) for _ in range(self.chance.randint(0, 2))]
        value: ir.Expr = ir.Const(1)
        for load in loaded:
            value = ir.Binary("add", value, load)
        buffer = self.chance.choice(("s", "s", "s", "y"))
        return ir.Store(buffer, (self.index(loops, buffer),), value)

    def load(self, loops: dict[str, int]) -> ir.Load:
        """A load."""
        buffer = self.chance.choice(("s", "s", "t", "x", "y"))
        return ir.Load(buffer, (self.index(loops, buffer),))

    def index(self, loops: dict[str, int], buffer: str) -> ir.Expr:
        """An index: the thread's own element, one beside it, or one that depends on a loop."""
        x, y = ir.Var("threadIdx.x"), ir.Var("threadIdx.y")
        linear: ir.Expr = x if self.block[1] == 1 else ir.Binary("add", ir.Binary("mul", y, ir.Const(self.block[0])), x)
        size = self.block[0] * self.block[1]
        if buffer == "y":
            block = ir.Binary("mul", ir.Var("blockIdx.x"), ir.Const(self.chance.choice((size, size, size, 1))))
            return ir.Binary("add", block, linear)
        forms: list[ir.Expr] = [linear, linear, linear, x, ir.Binary("sub", ir.Const(size - 1), linear)]
        forms.append(ir.Binary("mod", ir.Binary("add", linear, ir.Const(1)), ir.Const(size)))
        for var in loops:
            forms.append(ir.Binary("add", linear, ir.Var(var)))
            forms.append(ir.Binary("mod", ir.Binary("add", linear, ir.Var(var)), ir.Const(size)))
            turn = ir.Binary("mod", ir.Var(var), ir.Const(2))
            forms.append(ir.Binary("add", ir.Binary("mul", turn, ir.Const(size)), linear))
        return self.chance.choice(forms)


def random_kernel(seed: int) -> GridKernel:
    """The kernel of a seed; `x` and `y` are given, the first thread clears the shared buffers."""
    chance = random.Random(seed)
    block = chance.choice(((4, 1, 1), (3, 1, 1), (2, 2, 1)))
    builder = _Builder(chance, block, (chance.randint(1, 2), 1, 1))
    first = ir.Binary("eq", ir.Var("threadIdx.x"), ir.Const(0))
    if block[1] > 1:
        first = ir.Binary("and", first, ir.Binary("eq", ir.Var("threadIdx.y"), ir.Const(0)))
    clear = ir.For("z", _ELEMENTS, ir.seq(*(ir.Store(b, (ir.Var("z"),), ir.Const(0)) for b in ("s", "t"))))
    buffers = {name: ir.Buffer(name, (_ELEMENTS,), "int32", "shared") for name in ("s", "t")}
    buffers |= {name: ir.Buffer(name, (_GLOBAL,), "int32") for name in ("x", "y")}
    return GridKernel(
        name=f"random_{seed}",
        grid=builder.grid,
        block=block,
        params=("x", "y"),
        buffers=buffers,
        warp=2,
        body=ir.seq(ir.If(first, clear), ir.Barrier(), builder.body({}, 2)),
    )
