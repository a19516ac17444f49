# SPDX-License-Identifier: Apache-2.0
"""The register tile of a multiply-accumulate kernel: rows by vectors accumulated at once.

Each step loads `vectors` vectors, broadcasts `rows` elements and multiplies all pairs. A small tile
is bound by loads and by the latency of the sums; a large one spills registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vdla.compiler.target import Target

_IN_FLIGHT = 8  # independent sums to hide the latency of a multiply-add
_VECTOR_LOAD = 0.5  # the cost in multiply-adds of a vector from the second-level cache
_BROADCAST = 0.2  # the cost of a broadcast from the first-level cache
FEWEST_SUMS = 4  # of a tile in the tuning space


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """`rows` broadcast elements, from `depth` rows of an image, by `vectors` vectors."""

    rows: int
    vectors: int
    depth: int = 1


def accumulators(target: Target) -> int:
    """The sums that fit the registers beside the operands kept live by LLVM."""
    return target.vector_registers * 5 // 8


def tile_cost(tile: RegisterTile, extents: tuple[int, int, int]) -> float:
    """The cost of `extents` (depth, rows, vectors) in vector multiply-adds, with stalls."""
    depth, rows, vectors = extents
    per_row = tile.rows // tile.depth
    work = _round_up(depth, tile.depth) * _round_up(rows, per_row) * _round_up(vectors, tile.vectors)
    sums = tile.rows * tile.vectors
    return work * (max(1.0, _IN_FLIGHT / sums) + _VECTOR_LOAD / tile.rows + _BROADCAST / tile.vectors)


def _round_up(extent: int, factor: int) -> int:
    """The extent rounded up to a multiple of `factor`."""
    return -(-extent // factor) * factor


def best_register_tile(
    target: Target, extents: tuple[int, int, int], allowed: Callable[[RegisterTile], bool] = lambda tile: True
) -> RegisterTile:
    """The cheapest of the `allowed` tiles for an image of `extents`: depth, rows, vectors."""
    return min(filter(allowed, candidates(target, extents)), key=lambda tile: tile_cost(tile, extents))


def candidates(target: Target, extents: tuple[int, int, int]) -> Iterable[RegisterTile]:
    """The tiles that fit the registers; a tile over several image rows spans whole rows."""
    depth, rows, vectors = extents
    most = accumulators(target)
    for v in range(1, min(vectors, most) + 1):
        for r in range(1, min(rows, most // v) + 1):
            yield RegisterTile(r, v)
        for d in range(2, min(depth, most // v // rows) + 1 if rows * v <= most else 0):
            yield RegisterTile(d * rows, v, d)


def legal_tiles(target: Target, extents: tuple[int, int, int], fewest: int = FEWEST_SUMS) -> list[RegisterTile]:
    """All tiles of at least FEWEST_SUMS sums that fit the registers with a vector and an element.

    Unlike `candidates`, they may cover parts of several rows and use all registers.
    """
    depth, rows, vectors = extents
    most = target.vector_registers - 2
    return [
        RegisterTile(d * r, v, d)
        for v in range(1, min(vectors, most) + 1)
        for r in range(1, min(rows, most // v) + 1)
        for d in range(1, min(depth, most // v // r) + 1)
        if d * r * v >= min(fewest, depth * rows * vectors)
    ]


def row_lanes(extent: int, target: Target, element_bytes: int) -> int:
    """The lanes of vectors along rows of `extent` elements.

    With masked vectors the fewest equal parts; otherwise a whole vector, or the largest power of
    two that fits.
    """
    most = target.lanes(element_bytes)
    if target.has("avx512vl"):
        return even_part(extent, most)
    return min(most, 1 << (extent.bit_length() - 1))


def largest_divisor(extent: int, most: int) -> int:
    """The largest divisor of `extent` that is at most `most`."""
    return next(size for size in range(min(extent, most), 0, -1) if extent % size == 0)


def even_part(extent: int, most: int) -> int:
    """The size of the parts if `extent` is cut evenly into as few as `most` allows."""
    return -(-extent // -(-extent // most))
