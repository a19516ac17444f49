# SPDX-License-Identifier: Apache-2.0
"""A convolution whose loads, products and stores overlap."""

from vdla.compiler import te
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle
from vdla.puzzles.scheduled import from_schedule


def _result() -> te.Tensor:
    x = te.placeholder((2, 10, 10, 1, 4), "int8", "x")
    w = te.placeholder((4, 2, 3, 3, 4, 4), "int8", "w")
    k, dy, dx, i = (te.reduce_axis(extent, name) for name, extent in (("k", 2), ("dy", 3), ("dx", 3), ("i", 4)))

    def sums(n: te.Value, h: te.Value, v: te.Value, r: te.Value, o: te.Value) -> te.Value:
        return te.sum(product(x[k, h + dy, v + dx, r, i], w[n, k, dy, dx, o, i]), axis=[k, dy, dx, i])

    return te.compute((4, 8, 8, 1, 4), sums, "y")


PUZZLE = Puzzle(
    name="pipelined-convolution",
    title="A convolution in a pipeline",
    task="""\
A convolution of 3 x 3: 8 x 8 pixels, 2 blocks of input channels, 4 of output channels. Its products
alone take 4608 cycles, its results 1024 beats of the write channel. The start loads everything that
a block of output channels needs, computes it, and stores it; nothing overlaps.

Get below the limit: let loads, products and stores overlap. What may be split in virtual threads:
rows, output channels, or even the sum over k, whose loads are then one step ahead of its products.
What is on the chip at once: 256 entries of inputs, 64 of weights, 64 sums in the accumulator and as
many in the output buffer.""",
    start='''\
from vdla import Buffer
from vdla.intrinsics import dma, gemm, requantise


def schedule(s, config):
    """Schedules the loop nest of y; print(s) shows it after any line."""
    inputs, weights = s.cache_read("y", "x", "inp"), s.cache_read("y", "w", "wgt")
    results = s.cache_write("y", "acc")
    output = s.cache_write(results, "out")
    h, row = s.split("h", factor=8)
    s.reorder("n", h, "k", row, "v", "dy", "dx", "r", "o", "i")
    s.compute_at(inputs, "n")
    s.compute_at(weights, "n")
    s.reverse_compute_at(results, h)
    s.reverse_compute_at(output, h)
    s.tensorize(inputs, dma.load(config, Buffer.INP))
    s.tensorize(weights, dma.load(config, Buffer.WGT))
    s.tensorize("y", gemm.gemm(config))
    s.tensorize(results, requantise.raw(config))
    s.tensorize(output, dma.store(config, raw=True))
''',
    hints=(
        "Tiles of 4 rows have 32 sums, so that two of them fit: one is computed while the other is loaded or stored.",
        "Rows as threads: `h, thread = s.split(h, factor=2)`, `s.vthread(thread)`, all copies at `thread`, "
        'and `s.store_at("y", thread)`, `s.store_at(results, thread)`.',
        'k as thread: tiles of 4 rows, both loads at `k`, and `s.vthread("k")`. The sums stay shared.',
    ),
    result=_result,
    limit=6_200,
    best=5_834,
    build=from_schedule,
    suffix=".py",
)
