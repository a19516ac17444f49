"""Static allocation: an address for every tile, so that tiles alive at the same time never overlap.

A tile lives from its first to its last use in program order. Space is reused as late as it can be: a fresh tile goes
where the longest-dead data lie, since overwriting what was just read makes its producer wait for the reader. Sums that
a VECTOR reads together go to different halves of the accumulator, which are read in one cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.codegen.vdla.macro_op import MacroOp, Tile, field_unit, op_name
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Vector
from vdla.support.errors import Error

UNUSED = -1


class AllocationError(Error, ValueError):
    """Tiles that do not fit the on-chip buffers."""


@dataclass(frozen=True, slots=True)
class Life:
    """A tile with the operations of its first and last use, and what its first entry must be a multiple of.

    `partners` are the tiles of the same buffer that one VECTOR reads together with this one.
    """

    tile: Tile
    first: int
    last: int
    align: int
    partners: frozenset[Tile] = frozenset()


def allocate(config: Config, ops: Sequence[MacroOp], lines: Sequence[str] = ()) -> dict[Tile, int]:
    """The first entry of every tile in its buffer; AllocationError names the buffer that is too small.

    `lines` are those of the schedule that the operations come from, for the error.
    """
    lives = lifetimes(config, ops)
    addresses: dict[Tile, int] = {}
    for buffer in Buffer:
        mine = [life for life in lives if life.tile.buffer == buffer]
        addresses |= _allocate_buffer(buffer, config.depths[buffer], mine, lambda i: op_name(i, ops[i], lines))
    return addresses


def lifetimes(config: Config, ops: Sequence[MacroOp]) -> list[Life]:
    """The life of every tile, in order of first use."""
    lives: dict[Tile, Life] = {}
    for index, op in enumerate(ops):
        together = _read_together(op)
        for name, (tile, _) in op.bases.items():
            align = field_unit(config, op.instruction, name).numerator  # widths and blocks are powers of two
            old = lives.get(tile, Life(tile, index, index, align))
            partners = old.partners | together - {tile} if tile in together else old.partners
            lives[tile] = Life(tile, old.first, index, max(align, old.align), partners)
    return list(lives.values())


def _read_together(op: MacroOp) -> frozenset[Tile]:
    """The tiles of both accumulator operands of a VECTOR."""
    tiles = [op.bases[name][0] for name in ("acc", "src") if name in op.bases]
    both = isinstance(op.instruction, Vector) and all(tile.buffer == Buffer.ACC for tile in tiles)
    return frozenset(tiles if both else ())


def _allocate_buffer(buffer: Buffer, depth: int, lives: Sequence[Life], name: Callable[[int], str]) -> dict[Tile, int]:
    for life in lives:
        if life.tile.entries > depth or life.tile.entries < 1:
            raise AllocationError(
                f"allocate: tile {life.tile} must have 1 to {depth} entries to fit the {buffer.name.lower()} buffer, "
                f"got {life.tile.entries}; make tile {life.tile.name} smaller"
            )
    failed: list[Life] = []
    for strategy in (_rotate, _pack):
        placed = strategy(depth, lives)
        if isinstance(placed, dict):
            return placed
        failed.append(placed)
    raise AllocationError(_too_small(buffer, depth, lives, failed[0], name))


# --- rotation: in order of first use, over the longest-dead data -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Segment:
    """Entries [start, end) whose last tile is or was last used at operation `last`."""

    start: int
    end: int
    last: int


def _rotate(depth: int, lives: Sequence[Life]) -> dict[Tile, int] | Life:
    """Addresses, or the tile for which no room was left."""
    addresses: dict[Tile, int] = {}
    segments = [_Segment(0, depth, UNUSED)]
    for life in lives:
        known = [partner for partner in life.partners if partner in addresses]
        start = _oldest(segments, depth, life, [range(addresses[p], addresses[p] + p.entries) for p in known])
        if start is None:
            return life
        addresses[life.tile] = start
        segments = list(_cover(segments, _Segment(start, start + life.tile.entries, life.last)))
    return addresses


def _oldest(segments: Sequence[_Segment], depth: int, life: Life, partners: Sequence[range]) -> int | None:
    """The place beside whose partners it reads best; of these, the lowest whose data have been dead for longest."""
    size = life.tile.entries
    middle = -(-(depth // 2) // life.align) * life.align
    starts = {middle, *_starts(segments, size, life.align)} if partners else set(_starts(segments, size, life.align))
    places = [
        (_clashes(range(start, start + size), partners, depth // 2), age, start)
        for start in starts
        if 0 <= start <= depth - size
        if (age := _last_use(segments, start, start + size)) < life.first
    ]
    return min(places)[2] if places else None


def _clashes(place: range, partners: Iterable[range], half: int) -> int:
    """How many pairs of entries, one here and one of a partner, lie in the same half of the buffer, at most."""
    return sum(
        min(len(range(max(low, r.start), min(low + half, r.stop))) for r in (place, partner))
        for partner in partners
        for low in (0, half)
    )


def _starts(segments: Iterable[_Segment], size: int, align: int) -> Iterator[int]:
    """Aligned places at the beginning or the end of a segment."""
    for segment in segments:
        yield -(-segment.start // align) * align
        yield (segment.end - size) // align * align


def _last_use(segments: Iterable[_Segment], start: int, end: int) -> int:
    return max(segment.last for segment in segments if segment.start < end and start < segment.end)


def _cover(segments: Iterable[_Segment], new: _Segment) -> Iterator[_Segment]:
    """The segments with `new` laid over them, in order."""
    for old in segments:
        if old.start < min(old.end, new.start):
            yield _Segment(old.start, min(old.end, new.start), old.last)
        if old.start <= new.start < old.end:
            yield new
        if max(old.start, new.end) < old.end:
            yield _Segment(max(old.start, new.end), old.end, old.last)


# --- packing: the largest first, as low as it goes -------------------------------------------------------------------


def _pack(depth: int, lives: Sequence[Life]) -> dict[Tile, int] | Life:
    """Addresses, or the tile that did not fit, trying the orders that pack best one after another."""
    keys = (
        lambda life: (life.tile.entries, life.last - life.first),
        lambda life: (life.last - life.first, life.tile.entries),
        lambda life: (life.tile.entries * (life.last - life.first + 1), 0),
    )
    result: dict[Tile, int] | Life
    for key in keys:
        result = _first_fit(depth, sorted(lives, key=key, reverse=True))
        if isinstance(result, dict):
            break
    return result


def _first_fit(depth: int, lives: Sequence[Life]) -> dict[Tile, int] | Life:
    addresses: dict[Tile, int] = {}
    placed = np.zeros((len(lives), 4), np.int64)  # first and last use, address, entries: scanned once for each tile
    for count, life in enumerate(lives):
        alive = placed[:count][(placed[:count, 0] <= life.last) & (placed[:count, 1] >= life.first)]
        start = _gap(
            sorted(zip(alive[:, 2].tolist(), alive[:, 3].tolist(), strict=True)), life.tile.entries, life.align
        )
        if start + life.tile.entries > depth:
            return life
        addresses[life.tile] = start
        placed[count] = life.first, life.last, start, life.tile.entries
    return addresses


def _gap(taken: Iterable[tuple[int, int]], size: int, align: int) -> int:
    """The lowest aligned place that overlaps none of the ranges, which come in order of their starts."""
    start = 0
    for low, entries in taken:
        if start + size <= low:
            break
        start = max(start, -(-(low + entries) // align) * align)
    return start


# --- errors ----------------------------------------------------------------------------------------------------------


def _too_small(buffer: Buffer, depth: int, lives: Sequence[Life], failed: Life, name: Callable[[int], str]) -> str:
    """What was alive at the fullest moment, or when room was left but in pieces; how big; what to change."""
    moment, rule = max((life.first for life in lives), key=lambda op: _total(_alive(lives, op))), ""
    if _total(_alive(lives, moment)) <= depth:
        moment, rule = failed.first, " in one piece each"
    alive = sorted(_alive(lives, moment), key=lambda life: -life.tile.entries)
    sizes = ", ".join(f"{life.tile} {life.tile.entries}" for life in alive)
    room = f"the {depth} entries of the {buffer.name.lower()} buffer{rule}"
    return (
        f"allocate: tiles alive at {name(moment)} must fit {room}, got {_total(alive)} ({sizes}); "
        f"make tile {alive[0].tile.name} smaller"
    )


def _alive(lives: Iterable[Life], moment: int) -> list[Life]:
    return [life for life in lives if life.first <= moment <= life.last]


def _total(lives: Iterable[Life]) -> int:
    return sum(life.tile.entries for life in lives)
