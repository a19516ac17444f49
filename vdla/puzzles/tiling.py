# SPDX-License-Identifier: Apache-2.0
"""Tiles against a bandwidth."""

from vdla.puzzles.puzzle import Puzzle
from vdla.puzzles.scheduled import from_tile, matrix_product

PUZZLE = Puzzle(
    name="tiling",
    title="Tiles and bandwidth",
    task="""\
From here on a try is Python, and the compiler writes the instructions. The product

    c[n, m] = sum over k of a[k, m] . b[n, k]        n < 8, m < 64, k < 8

has 512 sums; the accumulator holds 64. So it is computed in tiles of `blocks` x `rows` sums: for
each k, a tile loads `rows` entries of `a` (one beat each), `blocks` entries of `b` (four beats
each), and multiplies all of them with each other.

How often is each entry loaded? `a` once for every tile in the direction of n, `b` once for every
tile in that of m. The memory is what this machine waits for: choose the tile that loads the fewest
beats.""",
    start='''\
def tile():
    """(blocks, rows) of a tile, at most 64 sums."""
    return 1, 64
''',
    hints=(
        "All of `a` is 512 beats, all of `b` 256. With tiles of 1 x 64, `a` is loaded 8 times, `b` once.",
        "In beats: 512 * (8 / blocks) + 256 * (64 / rows), where blocks * rows is at most 64.",
        "The two terms are equal at the best tile: 4 blocks.",
    ),
    result=lambda: matrix_product(64, 8, 8),
    limit=14_000,
    best=13_780,
    build=from_tile,
    suffix=".py",
)
