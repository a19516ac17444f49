"""The register tile of a kernel that multiplies and adds: how many rows of how many vectors are summed at once.

Each step loads one vector for each of `vectors` and broadcasts one element for each of `rows`, and multiplies and adds
each with each. Too small a tile waits for loads and for the latency of the sums; too large a one does not fit the
registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vdla.compiler.target import Target

IN_FLIGHT = 8  # sums that hide the latency of a multiply-add
VECTOR_LOAD = 0.5  # of a multiply-add: what a vector from the second-level cache costs
BROADCAST = 0.2  # and an element from the first


@dataclass(frozen=True, slots=True)
class Tile:
    """`rows` elements to broadcast by `vectors` vectors; `depth` is how many rows of an image the former lie in."""

    rows: int
    vectors: int
    depth: int = 1


def accumulators(target: Target) -> int:
    """How many sums fit the registers, beside the operands that LLVM keeps alive."""
    return target.vector_registers * 5 // 8


def cost(tile: Tile, extents: tuple[int, int, int]) -> float:
    """The multiply-adds of a vector that it takes, with what they wait for, for an image of `extents`: depth, rows,
    vectors."""
    depth, rows, vectors = extents
    per_row = tile.rows // tile.depth
    work = padded(depth, tile.depth) * padded(rows, per_row) * padded(vectors, tile.vectors)
    sums = tile.rows * tile.vectors
    return work * (max(1.0, IN_FLIGHT / sums) + VECTOR_LOAD / tile.rows + BROADCAST / tile.vectors)


def padded(extent: int, factor: int) -> int:
    """The extent rounded up to whole tiles."""
    return -(-extent // factor) * factor


def register_tile(
    target: Target, extents: tuple[int, int, int], allowed: Callable[[Tile], bool] = lambda tile: True
) -> Tile:
    """The best of the `allowed` tiles for an image of so many rows (depth) of so many elements, and so many vectors."""
    return min(filter(allowed, candidates(target, extents)), key=lambda tile: cost(tile, extents))


def candidates(target: Target, extents: tuple[int, int, int]) -> Iterable[Tile]:
    """The tiles that fit the registers; those of several rows of an image take whole rows."""
    depth, rows, vectors = extents
    most = accumulators(target)
    for v in range(1, min(vectors, most) + 1):
        for r in range(1, min(rows, most // v) + 1):
            yield Tile(r, v)
        for d in range(2, min(depth, most // v // rows) + 1 if rows * v <= most else 0):
            yield Tile(d * rows, v, d)


def lanes_along(extent: int, target: Target, element_bytes: int) -> int:
    """The lanes of vectors along rows of `extent` elements.

    Where there are masks, equal parts, as few as can be; else whole vectors, or the largest part of one that fits.
    """
    most = target.lanes(element_bytes)
    if target.has("avx512vl"):
        return even_part(extent, most)
    return min(most, 1 << (extent.bit_length() - 1))


def even_part(extent: int, most: int) -> int:
    """The size of the parts if `extent` is cut into as few as possible, each of at most `most`, as even as can be."""
    return -(-extent // -(-extent // most))
