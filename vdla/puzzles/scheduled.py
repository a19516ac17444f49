# SPDX-License-Identifier: Apache-2.0
"""Puzzles whose try is a function of Python that schedules the puzzle's expression."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from vdla.compiler import te
from vdla.compiler.codegen.vdla import compile_function
from vdla.compiler.codegen.vdla.intrinsics import dma, gemm, requantise
from vdla.compiler.schedule import Schedule
from vdla.hardware.config import Buffer, Config
from vdla.hardware.program import Program
from vdla.puzzles.attempt import Attempt, AttemptError, function_of, run
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle
from vdla.support.errors import Notice

MACHINE = Config.preset("tiny")


def from_schedule(attempt: Attempt, puzzle: Puzzle) -> Program:
    """The program of the expression, scheduled by the function `schedule(s, config)` of a try."""
    return _compiled(attempt, puzzle, function_of(attempt, "schedule"))


def from_tile(attempt: Attempt, puzzle: Puzzle) -> Program:
    """The program of a product whose tiles have the size that the function `tile()` returns."""
    size: Any = run(attempt, function_of(attempt, "tile"))
    if not (isinstance(size, tuple) and len(size) == 2 and all(type(one) is int and one > 0 for one in size)):
        raise AttemptError(f"{attempt.file}: tile must return two integers from 1, (blocks, rows), got {size!r}")
    return _compiled(attempt, puzzle, lambda s, config: tiled(s, config, *size))


def _compiled(attempt: Attempt, puzzle: Puzzle, schedule: Callable[[Schedule, Config], object]) -> Program:
    s = Schedule(puzzle.function())
    run(attempt, lambda: schedule(s, MACHINE))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        try:
            return compile_function(MACHINE, s.fn)
        except Notice as notice:  # such as threads that do not overlap
            raise AttemptError(str(notice)) from None


def matrix_product(rows: int, blocks: int, inputs: int) -> te.Tensor:
    """c[n, m] = sum over k of a[k, m] . b[n, k], in blocks of 4."""
    a = te.placeholder((inputs, rows, 1, 4), "int8", "a")
    b = te.placeholder((blocks, inputs, 4, 4), "int8", "b")
    k, i = te.reduce_axis(inputs, "k"), te.reduce_axis(4, "i")
    return te.compute(
        (blocks, rows, 1, 4), lambda n, m, r, o: te.sum(product(a[k, m, r, i], b[n, k, o, i]), axis=[k, i]), "c"
    )


def tiled(s: Schedule, config: Config, blocks: int, rows: int) -> None:
    """Tiles of `blocks` x `rows` sums; each step of k loads what it multiplies."""
    inputs, weights = s.cache_read("c", "a", "inp"), s.cache_read("c", "b", "wgt")
    results = s.cache_write("c", "acc")
    output = s.cache_write(results, "out")
    n, block = s.split("n", factor=blocks)
    m, row = s.split("m", factor=rows)
    s.reorder(n, m, "k", block, row, "r", "o", "i")
    for copy in (inputs, weights):
        s.compute_at(copy, "k")
    for copy in (results, output):
        s.reverse_compute_at(copy, m)
    s.tensorize(inputs, dma.load(config, Buffer.INP))
    s.tensorize(weights, dma.load(config, Buffer.WGT))
    s.tensorize("c", gemm.gemm(config))
    s.tensorize(results, requantise.raw(config))
    s.tensorize(output, dma.store(config, raw=True))
