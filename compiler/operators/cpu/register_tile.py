# SPDX-License-Identifier: Apache-2.0
"""The register tile of a multiply-accumulate kernel: rows by vectors accumulated at once.

Each step loads `vectors` vectors, broadcasts `rows` elements and multiplies all pairs. A small tile
is bound by loads and by the latency of the sums; a large one spills registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from vdla.compiler.target import Target

FEWEST_SUMS = 4  # of a tile in the tuning space


@dataclass(frozen=True, slots=True)
class StepCosts:
    """What a step of a tile costs beside its multiply-adds, in multiply-adds of a vector.

    `in_flight` independent sums hide the latency of a multiply-add, which takes `temporaries`
    registers; `vector_load` is a vector from the second-level cache, `broadcast` an element from
    the first. Several rows have at most `vectors`: more streams at like addresses evict one
    another. Tiles that do not divide an image are padded or, if `splits`, a smaller one follows.
    """

    in_flight: int
    vector_load: float
    broadcast: float
    vectors: int
    splits: bool
    temporaries: int = 0

    def of(self, rows: int, vectors: int) -> float:
        """The cost of a step of a tile."""
        return max(rows * vectors, self.in_flight) + self.vector_load * vectors + self.broadcast * rows


_WIDE = StepCosts(8, 0.5, 0.2, vectors=32, splits=False)
"""Measured on Zen 4 with AVX-512: one multiply-add of 64 bytes a cycle."""
_AVX2 = StepCosts(8, 0.5, 0.7, vectors=4, splits=True)
"""Measured on Zen 3: two multiply-adds of 32 bytes a cycle, as fast as loads."""
_AVX2_PAIRS = StepCosts(4, 0.5, 0.2, vectors=2, splits=True, temporaries=1)
"""The same for products of pairs of integers, added by another instruction."""


def step_costs(target: Target, is_integer: bool = False) -> StepCosts:
    """Those of floats, or of dot products of integers, on a CPU like `target`."""
    if not has_short_steps(target):
        return _WIDE
    return _AVX2_PAIRS if is_integer and not target.has("avxvnni") else _AVX2


def has_short_steps(target: Target) -> bool:
    """Whether multiply-adds are as fast as loads: two of 32 bytes a cycle.

    A step of a tile then takes as long as the instructions of a loop, or as some prefetches.
    """
    return target.has("avx2") and not target.has("avx512f")


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """`rows` broadcast elements, from `depth` rows of an image, by `vectors` vectors."""

    rows: int
    vectors: int
    depth: int = 1


def ordered_loops(target: Target, tile: RegisterTile, rows: Sequence[str], vectors: str) -> tuple[str, ...]:
    """The unrolled loops of a tile over rows and over vectors, the longer side first.

    LLVM emits products in this order, and of few registers keeps the shorter side in some.
    """
    return (vectors, *rows) if has_short_steps(target) and tile.vectors > tile.rows else (*rows, vectors)


def fits_registers(target: Target, tile: RegisterTile, costs: StepCosts) -> bool:
    """Whether the sums of a tile stay in registers beside the operands that LLVM keeps there.

    It keeps the shorter side of a step and one element of the longer; where the vectors are kept,
    also the next element, which it loads early.
    """
    sums = tile.rows * tile.vectors
    if not has_short_steps(target):
        return sums <= target.vector_registers * 5 // 8
    kept = tile.rows + 1 if tile.vectors > tile.rows else tile.vectors + 2
    return sums + kept + costs.temporaries <= target.vector_registers


def tile_cost(tile: RegisterTile, extents: tuple[int, int, int], costs: StepCosts) -> float:
    """The cost of `extents` (depth, rows, vectors) in vector multiply-adds, with stalls."""
    sizes = tile.depth, tile.rows // tile.depth, tile.vectors
    depths, rows, vectors = (_parts(*sides, costs.splits) for sides in zip(extents, sizes, strict=True))
    return sum(
        n_d * n_r * n_v * costs.of(depth * row, vector)
        for depth, n_d in depths
        for row, n_r in rows
        for vector, n_v in vectors
    )


def _parts(extent: int, size: int, splits: bool) -> list[tuple[int, int]]:
    """The sizes of the parts of an extent, and how many there are of each."""
    if not splits:
        return [(size, -(-extent // size))]
    return [(size, extent // size), *([(extent % size, 1)] if extent % size else [])]


def best_register_tile(
    target: Target,
    extents: tuple[int, int, int],
    allowed: Callable[[RegisterTile], bool] = lambda tile: True,
    is_integer: bool = False,
) -> RegisterTile:
    """The cheapest of the `allowed` tiles for an image of `extents`: depth, rows, vectors."""
    costs = step_costs(target, is_integer)
    tiles = filter(allowed, candidates(target, extents, is_integer))
    return min(tiles, key=lambda tile: tile_cost(tile, extents, costs))


def candidates(target: Target, extents: tuple[int, int, int], is_integer: bool = False) -> Iterable[RegisterTile]:
    """The tiles that fit the registers; a tile over several image rows spans whole rows."""
    depth, rows, vectors = extents
    costs = step_costs(target, is_integer)
    most = vectors if depth * rows == 1 else min(vectors, costs.vectors)
    for v in range(1, most + 1):
        tiles = [RegisterTile(r, v) for r in range(1, rows + 1)]
        whole = [RegisterTile(d * rows, v, d) for d in range(2, depth + 1)]
        yield from takewhile(lambda tile: fits_registers(target, tile, costs), (*tiles, *whole))


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
