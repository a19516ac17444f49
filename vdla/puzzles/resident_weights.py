# SPDX-License-Identifier: Apache-2.0
"""Weights that stay on the chip."""

from vdla.puzzles.puzzle import Puzzle
from vdla.puzzles.scheduled import from_schedule, matrix_product

START = '''\
from vdla import Buffer
from vdla.intrinsics import dma, gemm, requantise


def schedule(s, config):
    """Schedules the loop nest of c; print(s) shows it after any line."""
    inputs, weights = s.cache_read("c", "a", "inp"), s.cache_read("c", "b", "wgt")
    results = s.cache_write("c", "acc")
    output = s.cache_write(results, "out")
    n, block = s.split("n", factor=4)
    m, row = s.split("m", factor=16)
    s.reorder(n, m, "k", block, row, "r", "o", "i")
    s.compute_at(inputs, "k")
    s.compute_at(weights, "k")
    s.reverse_compute_at(results, m)
    s.reverse_compute_at(output, m)
    s.tensorize(inputs, dma.load(config, Buffer.INP))
    s.tensorize(weights, dma.load(config, Buffer.WGT))
    s.tensorize("c", gemm.gemm(config))
    s.tensorize(results, requantise.raw(config))
    s.tensorize(output, dma.store(config, raw=True))
'''

PUZZLE = Puzzle(
    name="resident-weights",
    title="Weights that stay",
    task="""\
The product of the puzzle before (8 blocks of outputs, 64 rows, 8 blocks of inputs), and now its
whole schedule: `cache_read` and `cache_write` make copies in the buffers, `split` and `reorder`
make tiles, `compute_at(COPY, LOOP)` places a copy in a loop, where it loads what one iteration of
the loop reads, and `tensorize` makes instructions of the innermost loops.

The weight buffer holds 64 entries, as many as `b` has. So no weight needs to be loaded twice: place
the copies in loops further out, and choose tiles such that the inputs too are loaded once.""",
    start=START,
    hints=(
        "A copy at `n` stays while all m pass; with `factor=8` there is one n, and all of `b` is loaded once.",
        "A tile has at most 64 sums: 8 blocks, 8 rows. Its inputs for all k are 64 entries: place them at `m`.",
        "`s.compute_at(weights, n)` and `s.compute_at(inputs, m)` are enough. Fewer cycles still: k split "
        "by 4, and its outer loop marked by `s.vthread`, so that loads are a step ahead of products.",
    ),
    result=lambda: matrix_product(64, 8, 8),
    limit=7000,
    best=6004,
    build=from_schedule,
    suffix=".py",
)
