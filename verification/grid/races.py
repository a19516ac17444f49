"""Planted races: every one that the interpreter of threads finds must be refused, and nothing else.

The kernels are cooperative schedules of random sizes, with one defect each, and random kernels.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

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
from vdla.verification.grid.random_kernels import random_kernel

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
