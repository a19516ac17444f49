# SPDX-License-Identifier: Apache-2.0
"""Static allocation: tiles with overlapping live ranges get disjoint addresses.

A tile is live from its first to its last use in program order. A new tile takes the space that has
been dead for the longest time: overwriting recently read data would make the producer wait for the
reader. Two accumulator operands of a VECTOR go to different halves of the accumulator, which are
read in the same cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp, field_unit, op_name
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Vector
from vdla.support.errors import Error

_UNUSED = -1


class AllocationError(Error, ValueError):
    """Tiles that do not fit an on-chip buffer."""


@dataclass(frozen=True, slots=True)
class LiveRange:
    """A tile, the operations of its first and last use, and the alignment of its first entry.

    `partners` are the tiles of the same buffer that a VECTOR reads together with this one.
    """

    tile: BufferTile
    first: int
    last: int
    align: int
    partners: frozenset[BufferTile] = frozenset()


def allocate(config: Config, ops: Sequence[MacroOp], lines: Sequence[str] = ()) -> dict[BufferTile, int]:
    """The first entry of every tile in its buffer.

    `lines` is the text of the schedule, for the error.
    """
    ranges = live_ranges(config, ops)
    addresses: dict[BufferTile, int] = {}
    for buffer in Buffer:
        mine = [live for live in ranges if live.tile.buffer == buffer]
        addresses |= _allocate_buffer(buffer, config.depths[buffer], mine, lambda i: op_name(i, ops[i], lines))
    return addresses


def live_ranges(config: Config, ops: Sequence[MacroOp]) -> list[LiveRange]:
    """The live range of every tile, in order of first use."""
    ops = MacroOps.of(ops)
    ranges: dict[BufferTile, LiveRange] = {}
    for number in ops.used:
        form, first, last = ops.forms[number], int(ops.first[number]), int(ops.last[number])
        together = _read_together(form)
        for name, (tile, _) in form.bases.items():
            align = field_unit(config, form.instruction, name).numerator  # widths and blocks are powers of two
            old = ranges.get(tile, LiveRange(tile, first, last, align))
            partners = old.partners | together - {tile} if tile in together else old.partners
            ranges[tile] = LiveRange(tile, old.first, max(last, old.last), max(align, old.align), partners)
    return list(ranges.values())


def _read_together(op: MacroOp) -> frozenset[BufferTile]:
    """The accumulator tiles that a VECTOR reads together, none for another operation; an extension
    reads one after the other.
    """
    tiles = [op.bases[name][0] for name in ("acc", "src") if name in op.bases]
    both = isinstance(op.instruction, Vector) and all(tile.buffer == Buffer.ACC for tile in tiles)
    return frozenset(tiles if both else ())


def _allocate_buffer(
    buffer: Buffer, depth: int, ranges: Sequence[LiveRange], name: Callable[[int], str]
) -> dict[BufferTile, int]:
    for live in ranges:
        if live.tile.entries > depth or live.tile.entries < 1:
            raise AllocationError(
                f"allocate: tile {live.tile} must have 1 to {depth} entries to fit the {buffer.name.lower()} buffer, "
                f"got {live.tile.entries}; make tile {live.tile.name} smaller"
            )
    failed: list[LiveRange] = []
    for strategy in (_rotate, _pack):
        placed = strategy(depth, ranges)
        if isinstance(placed, dict):
            return placed
        failed.append(placed)
    raise AllocationError(_too_small(buffer, depth, ranges, failed[0], name))


# --- rotation: in order of first use, over the data dead for the longest time --------------------


@dataclass(frozen=True, slots=True)
class _Segment:
    """Entries [start, end), last used at operation `last`."""

    start: int
    end: int
    last: int


def _rotate(depth: int, ranges: Sequence[LiveRange]) -> dict[BufferTile, int] | LiveRange:
    """Addresses, or the live range for which there is no space."""
    addresses: dict[BufferTile, int] = {}
    segments = [_Segment(0, depth, _UNUSED)]
    for live in ranges:
        known = [partner for partner in live.partners if partner in addresses]
        start = _oldest(segments, depth, live, [range(addresses[p], addresses[p] + p.entries) for p in known])
        if start is None:
            return live
        addresses[live.tile] = start
        segments = list(_cover(segments, _Segment(start, start + live.tile.entries, live.last)))
    return addresses


def _oldest(segments: Sequence[_Segment], depth: int, live: LiveRange, partners: Sequence[range]) -> int | None:
    """The start with the fewest clashes with its partners, then dead longest, then the lowest."""
    size = live.tile.entries
    middle = -(-(depth // 2) // live.align) * live.align
    starts = {middle, *_starts(segments, size, live.align)} if partners else set(_starts(segments, size, live.align))
    places = [
        (_clashes(range(start, start + size), partners, depth // 2), age, start)
        for start in starts
        if 0 <= start <= depth - size
        if (age := _last_use(segments, start, start + size)) < live.first
    ]
    return min(places)[2] if places else None


def _clashes(place: range, partners: Iterable[range], half: int) -> int:
    """The greatest number of pairs of entries, one of each operand, in one half of the buffer."""
    return sum(
        min(len(range(max(low, r.start), min(low + half, r.stop))) for r in (place, partner))
        for partner in partners
        for low in (0, half)
    )


def _starts(segments: Iterable[_Segment], size: int, align: int) -> Iterator[int]:
    """Aligned starts at either end of a segment."""
    for segment in segments:
        yield -(-segment.start // align) * align
        yield (segment.end - size) // align * align


def _last_use(segments: Iterable[_Segment], start: int, end: int) -> int:
    return max(segment.last for segment in segments if segment.start < end and start < segment.end)


def _cover(segments: Iterable[_Segment], new: _Segment) -> Iterator[_Segment]:
    """The segments in order, with `new` over them."""
    for old in segments:
        if old.start < min(old.end, new.start):
            yield _Segment(old.start, min(old.end, new.start), old.last)
        if old.start <= new.start < old.end:
            yield new
        if max(old.start, new.end) < old.end:
            yield _Segment(max(old.start, new.end), old.end, old.last)


# --- packing: first fit, largest first -----------------------------------------------------------


def _pack(depth: int, ranges: Sequence[LiveRange]) -> dict[BufferTile, int] | LiveRange:
    """Addresses by the first order that fits, or the live range that did not fit."""
    keys = (
        lambda live: (live.tile.entries, live.last - live.first),
        lambda live: (live.last - live.first, live.tile.entries),
        lambda live: (live.tile.entries * (live.last - live.first + 1), 0),
    )
    result: dict[BufferTile, int] | LiveRange
    for key in keys:
        result = _first_fit(depth, sorted(ranges, key=key, reverse=True))
        if isinstance(result, dict):
            break
    return result


def _first_fit(depth: int, ranges: Sequence[LiveRange]) -> dict[BufferTile, int] | LiveRange:
    addresses: dict[BufferTile, int] = {}
    placed = np.zeros((len(ranges), 4), np.int64)  # first and last use, address, entries
    for count, live in enumerate(ranges):
        alive = placed[:count][(placed[:count, 0] <= live.last) & (placed[:count, 1] >= live.first)]
        start = _gap(
            sorted(zip(alive[:, 2].tolist(), alive[:, 3].tolist(), strict=True)), live.tile.entries, live.align
        )
        if start + live.tile.entries > depth:
            return live
        addresses[live.tile] = start
        placed[count] = live.first, live.last, start, live.tile.entries
    return addresses


def _gap(ranges: Iterable[tuple[int, int]], size: int, align: int) -> int:
    """The lowest aligned start of a free range; `ranges` are occupied, and sorted by start."""
    start = 0
    for low, entries in ranges:
        if start + size <= low:
            break
        start = max(start, -(-(low + entries) // align) * align)
    return start


# --- errors --------------------------------------------------------------------------------------


def _too_small(
    buffer: Buffer, depth: int, ranges: Sequence[LiveRange], failed: LiveRange, name: Callable[[int], str]
) -> str:
    """The error at the operation of greatest use, or at the tile without contiguous space."""
    moment, rule = max((live.first for live in ranges), key=lambda op: _total(_alive(ranges, op))), ""
    if _total(_alive(ranges, moment)) <= depth:
        moment, rule = failed.first, ", each contiguous"
    alive = sorted(_alive(ranges, moment), key=lambda live: -live.tile.entries)
    sizes = ", ".join(f"{live.tile} {live.tile.entries}" for live in alive)
    space = f"the {depth} entries of the {buffer.name.lower()} buffer{rule}"
    return (
        f"allocate: tiles live at {name(moment)} must fit {space}, got {_total(alive)} ({sizes}); "
        f"make tile {alive[0].tile.name} smaller"
    )


def _alive(ranges: Iterable[LiveRange], moment: int) -> list[LiveRange]:
    return [live for live in ranges if live.first <= moment <= live.last]


def _total(ranges: Iterable[LiveRange]) -> int:
    return sum(live.tile.entries for live in ranges)
