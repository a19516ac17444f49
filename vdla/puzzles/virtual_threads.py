# SPDX-License-Identifier: Apache-2.0
"""Virtual threads, and the tokens that they need."""

from vdla.puzzles.puzzle import Puzzle
from vdla.puzzles.scheduled import from_schedule, matrix_product

PUZZLE = Puzzle(
    name="virtual-threads",
    title="Virtual threads",
    task="""\
You have written double buffering by hand: two halves of each buffer, and a token for every time a
half changes hands. The compiler does the same for a loop that is marked `vthread`: each of its
iterations gets tiles of its own, their instructions take turns, and the tokens order what shares an
entry and nothing else.

The product has 16 blocks of inputs, so its weights do not fit the buffer, and the start keeps those
of 4 blocks of outputs. Load and compute take turns. Mark a loop `vthread`: that of the tiles, split
by 2, or k, in whose steps both loads and products must then lie. Mind the buffers: what the two
threads have on the chip must fit together.""",
    start='''\
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
    s.compute_at(inputs, m)
    s.compute_at(weights, n)
    s.reverse_compute_at(results, m)
    s.reverse_compute_at(output, m)
    s.tensorize(inputs, dma.load(config, Buffer.INP))
    s.tensorize(weights, dma.load(config, Buffer.WGT))
    s.tensorize("c", gemm.gemm(config))
    s.tensorize(results, requantise.raw(config))
    s.tensorize(output, dma.store(config, raw=True))
''',
    hints=(
        "Threads of a loop overlap only if tiles are computed inside it: `compute_at(inputs, LOOP)` with that loop.",
        "Tiles as threads: 4 x 8 sums each, `m, thread = s.split(m, factor=2)`, and `store_at` for c and results.",
        'k as threads: `s.vthread("k")` and `s.compute_at(inputs, "k")`; the sums stay shared, and tiles of 4 x 16.',
    ),
    result=lambda: matrix_product(64, 8, 16),
    limit=12000,
    best=10668,
    build=from_schedule,
    suffix=".py",
)
