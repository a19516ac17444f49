# SPDX-License-Identifier: Apache-2.0
"""List scheduling of a chain: the order of operations in which each unit starts as early as it can.

A model of the machine with estimated times picks, again and again, the operation that can start
first, and places its tiles. The order of starts is the program order: the command queues then hold
what the units need next, loads are issued as soon as their buffer has space, and parts that mostly
move data run between the tiles of parts that mostly compute. Times only rank orders; dependences
are exact, and each unit runs the operations of one part in their order.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_ops import NO_TILE
from vdla.compiler.codegen.vdla.schedule_steps import NO_STEP, Part, Steps, steps_of
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Unit
from vdla.support.arrays import occurrences

NEVER = 1 << 60
"""The time of what is not known yet."""


class BufferSpace:
    """Segments of a buffer of `depth` entries, each free from its time on.

    The time is NEVER while a tile is in use. Neighbours have different times.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._lows = [0, depth]  # of the segments, with the end of the last one
        self._times = [0]
        self._known: dict[tuple[int, int, int, int], tuple[int, int]] = {}

    def find(self, entries: int, align: int, reserve: int = 0, lowest: int = 0) -> tuple[int, int]:
        """(time, start) of the place for `entries` entries that is free first; NEVER if none will
        be.

        Starts are multiples of `align` from `lowest` on; the last `reserve` entries are left to
        others.
        """
        key = entries, align, reserve, lowest
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = self._best(*key)
        return place

    def _best(self, entries: int, align: int, reserve: int, lowest: int) -> tuple[int, int]:
        """The earliest place: one as low as the segment before it, or `lowest`, allows."""
        time, place, last = NEVER, 0, self.depth - reserve - entries
        lows, times = self._lows, self._times
        for number, free in enumerate(times):
            if free >= time:
                continue
            start = -(-max(lows[number], lowest) // align) * align
            if start > last:
                break
            if start >= lows[number + 1]:
                continue  # the segment that has the start follows
            end, following = start + entries, number + 1
            while lows[following] < end and free < time:
                if times[following] > free:
                    free = times[following]
                following += 1
            if free < time:
                time, place = free, start
        return time, place

    def set(self, start: int, entries: int, time: int) -> None:
        """Mark entries as free from `time` on.

        A place stays the first one where it has none of these entries and is free before they are.
        """
        end = start + entries
        kept = {}
        for key, (when, place) in self._known.items():
            if when < time and (place >= end or place + key[0] <= start):
                kept[key] = when, place
        self._known = kept
        lows, times = self._lows, self._times
        first, behind = bisect_right(lows, start) - 1, bisect_left(lows, end)
        after = times[behind - 1]
        first += lows[first] < start
        joined = first > 0 and times[first - 1] == time
        new = [] if joined else [(start, time)]
        if end < lows[behind]:
            if after != time:
                new.append((end, after))
        elif behind < len(times) and times[behind] == time:
            behind += 1
        lows[first:behind], times[first:behind] = [low for low, _ in new], [free for _, free in new]


Ints = NDArray[np.int64]

_UNITS = tuple(map(int, Unit))
_LOAD, _COMPUTE, _STORE = map(int, (Unit.LOAD, Unit.COMPUTE, Unit.STORE))
_WEIGHTS, _SCALES, _LANES = len(Unit), len(Unit) + 1, len(Unit) + 2
_UNIT_OF_LANE = (*_UNITS, _LOAD, _LOAD)
_RELAY_CYCLES = 20  # compute drains to pass on the end of a STORE to load
_RESERVED_TILES = 4  # input tiles that a part of mostly loads gets while the part before it runs
_COPY_SHARE = 2  # how much less a load of state counts: more holds back parts that could begin
_UNPLACED = -1


@dataclass(frozen=True, eq=False, slots=True)
class Order:
    """The steps of all parts in program order, and the address of every tile (`Steps`)."""

    steps: Ints
    addresses: Ints


def list_schedule(config: Config, parts: Sequence[Part], ahead: bool = False) -> Order | None:
    """An order of all parts, where each may depend on earlier ones, or None.

    `ahead`: loads of weights and scales do not wait for other loads of their part.
    """
    return _ordered(config, pickle.dumps(steps_of(config, parts)), ahead)


@lru_cache(maxsize=32)
def _ordered(config: Config, content: bytes, ahead: bool) -> Order | None:
    """The order of pickled `Steps`, once for equal ones: networks repeat blocks whose programs
    differ in immediates only.
    """
    steps: Steps = pickle.loads(content)
    return next((order for spare in (True, False) if (order := _Scheduler(config, steps, spare, ahead).run())), None)


class _Scheduler:
    """One run of the model; `spare`: leave input space to a light part that comes next.

    In each lane, the next step of a part is open once everything that it waits for has ended. A
    unit has a lane, and load has two more, `ahead`, for weights and for scales: in these, a part
    comes after all parts before it, so that what is loaded ahead leaves space for what is next.
    """

    def __init__(self, config: Config, steps: Steps, spare: bool, ahead: bool) -> None:
        parts = int(steps.part.max()) + 1
        self.spaces = [BufferSpace(config.depths[buffer]) for buffer in Buffer]
        self.clock = [0] * len(Unit)
        self.stores = 0
        self.held = 0  # the state of the stage
        self.relayed = -1  # the last STORE whose end load knows of
        self.ahead = ahead
        self._read(steps)
        lane = _lanes(steps) if ahead else steps.unit
        self.lane, self.lanes = _list(lane), range(_LANES if ahead else len(Unit))
        self.word_beats = isa.instruction_bytes(config) // config.axi_bytes
        self.loading = 0  # the first part that has loads to come
        self.largest = _largest(steps, parts)
        self.queues = _queues(steps.part, lane, parts)
        self.heavy = [not light for light in _moves_more(steps, parts)]
        self.reserve = _reserve(config, self.largest) if spare else [0] * parts
        self.open: list[dict[int, int]] = [{} for _ in self.lanes]  # by lane, then part
        self.last_part = [self._last_part(lane) for lane in self.lanes]
        for part, queues in enumerate(self.queues):
            for queue in queues:
                self._open_next(part, queue)

    def _read(self, steps: Steps) -> None:
        """The columns as lists: single elements are read faster."""
        count = len(steps.unit)
        self.part, self.unit, self.busy, self.tail = map(_list, (steps.part, steps.unit, steps.busy, steps.tail))
        self.copy, self.state = _list(steps.copy), _list(steps.state)
        self.sources: list[list[int]] = [[] for _ in range(count)]  # the STOREs of what a LOAD reads
        for load, store in steps.stores.tolist():
            self.sources[load].append(store)
        self.tiles = [[tile for tile in row if tile != NO_TILE] for row in steps.tiles.tolist()]
        self.wait_counts = _list(occurrences(steps.waits[:, 0], count))  # to wait for
        order = np.argsort(steps.waits[:, 1], kind="stable")
        self.followers = _list(steps.waits[order, 0])
        self.first_follower = _list(np.searchsorted(steps.waits[order, 1], np.arange(count + 1)))
        self.ready = [0] * count  # the latest end so far of a step that it waits for
        self.number = [NO_STEP] * count  # among the STOREs
        self.buffer, self.entries, self.align = map(_list, (steps.buffer, steps.entries, steps.align))
        self.partners: dict[int, list[int]] = {}
        for one, other in steps.partners.tolist() if self.ahead else ():
            self.partners.setdefault(one, []).append(other)
            self.partners.setdefault(other, []).append(one)
        self.owner = _list(_owners(steps))
        self.uses = _list(occurrences(steps.tiles[steps.tiles != NO_TILE], len(self.entries)))  # to come
        self.end = [0] * len(self.entries)  # of the uses of a tile so far
        self.address = [_UNPLACED] * len(self.entries)

    def run(self) -> Order | None:
        """The order; None where no operation can be next."""
        order: list[int] = []
        ready = self.ready
        while len(order) < len(self.unit):
            best: tuple[int, bool, int, int, int] = (NEVER, False, -1, -1, -1)  # ranks before steps that never start
            chosen = NO_STEP
            for lane in self.lanes:
                last, unit = self.last_part[lane], _UNIT_OF_LANE[lane]
                clock = self.clock[unit]
                if clock > best[0]:
                    continue
                for part, step in self.open[lane].items():
                    if part <= last and ready[step] <= best[0]:
                        start = self._start(step, clock, best[0])
                        if start > best[0]:
                            continue
                        key = start, lane >= _WEIGHTS or self.heavy[part], part, unit, step
                        if key < best:
                            best, chosen = key, step
            if chosen == NO_STEP:
                return None
            self._issue(chosen, best[0])
            order.append(chosen)
        return Order(np.array(order, np.int64), np.array(self.address, np.int64))

    def _last_part(self, lane: int) -> int:
        """The last part whose work the lane may do next: not beyond the first heavy one.

        Light parts up to the second heavy one are among them; stores of all parts are.
        """
        if lane >= len(Unit):
            return self._first_part(lane)
        heavy = [part for part, queues in enumerate(self.queues) if self.heavy[part] and queues[lane]]
        return len(self.queues) if lane == _STORE or len(heavy) < 2 else heavy[1] - 1

    def _first_part(self, lane: int) -> int:
        """The first part with work for a lane, or the number of parts."""
        return next((part for part, queues in enumerate(self.queues) if queues[lane]), len(self.queues))

    def _start(self, step: int, clock: int, limit: int) -> int:
        """The earliest start on a unit that is free at `clock`, or some time after the limit."""
        start = self.ready[step]
        if start < clock:
            start = clock
        if self.copy[step] and not 0 < self.state[step] == self.held:
            start += self.copy[step] // _COPY_SHARE
        if self.sources[step] and self._needs_relay(step):
            start = max(start, self.clock[_COMPUTE])
        for tile in self.tiles[step]:
            if start > limit:
                break
            if self.address[tile] == _UNPLACED and (free := self._find(tile)[0]) > start:
                start = free
        return start

    def _needs_relay(self, step: int) -> bool:
        """Whether compute must pass on the end of a STORE: load and store share no queue."""
        return self._last_source(step) > self.relayed

    def _last_source(self, step: int) -> int:
        """The number of the last STORE that a LOAD waits for; NO_STEP if it waits for none."""
        return max([self.number[store] for store in self.sources[step]], default=NO_STEP)

    def _find(self, tile: int) -> tuple[int, int]:
        buffer, entries, align = self.buffer[tile], self.entries[tile], self.align[tile]
        space = self.spaces[buffer]
        for low, high in self._halves(tile) if tile in self.partners else ():
            place = space.find(entries, align, space.depth - high, low)
            if place[0] < NEVER:
                return place
        return space.find(entries, align, self._reserved(self.owner[tile]) if buffer == Buffer.INP else 0)

    def _reserved(self, part: int) -> int:
        """The last input entries, which a part leaves to others.

        Loads that go ahead leave space for two tiles of the part that loads first.
        """
        depth, reserve = self.spaces[Buffer.INP].depth, 0
        if self.heavy[part] and part + 1 < len(self.heavy) and not self.heavy[part + 1]:
            reserve = self.reserve[part + 1] if self.queues[part + 1][_LOAD] else 0
        if not self.ahead:
            return reserve
        if self.loading < part:
            return max(reserve, min(2 * self.largest[self.loading], depth - 1))
        return max(0, min(reserve, depth - 2 * self.largest[part]))

    def _halves(self, tile: int) -> Iterator[tuple[int, int]]:
        """Halves of the accumulator without a tile that a VECTOR reads together with this one."""
        half = self.spaces[Buffer.ACC].depth // 2
        for partner in self.partners[tile]:
            first = self.address[partner]
            sides = {first // half, (first + self.entries[partner] - 1) // half}
            if first != _UNPLACED and len(sides) == 1:
                yield (half, 2 * half) if sides == {0} else (0, half)

    def _issue(self, step: int, start: int) -> None:
        unit, lane, part = self.unit[step], self.lane[step], self.part[step]
        self.clock[unit] = start + self.busy[step]
        if self.ahead:
            self.clock[_LOAD] += self.word_beats  # instructions come by the same port
        if self.copy[step]:
            self.held = self.state[step]
        end = start + self.busy[step] + self.tail[step]
        if unit == _STORE:
            self.number[step], self.stores = self.stores, self.stores + 1
        if self.sources[step] and self._needs_relay(step):
            self.relayed = self._last_source(step)
            self.clock[_COMPUTE] = start + _RELAY_CYCLES
        queue = self.queues[part][lane]
        queue.pop()
        del self.open[lane][part]
        if not queue:
            self.last_part[lane] = self._last_part(lane)
            self.loading = self._first_part(_LOAD)
        for tile in self.tiles[step]:
            self._use(tile, end)
        self._end(step, end)
        self._open_next(part, queue)

    def _use(self, tile: int, end: int) -> None:
        """Place a tile at its first use, and free it after its last."""
        space, entries = self.spaces[self.buffer[tile]], self.entries[tile]
        if self.address[tile] == _UNPLACED:
            self.address[tile] = self._find(tile)[1]
            space.set(self.address[tile], entries, NEVER)
        self.end[tile] = max(self.end[tile], end)
        self.uses[tile] -= 1
        if not self.uses[tile]:
            space.set(self.address[tile], entries, self.end[tile])

    def _end(self, step: int, end: int) -> None:
        """Note the end of a step for all that wait for it."""
        for follower in self.followers[self.first_follower[step] : self.first_follower[step + 1]]:
            if self.ready[follower] < end:
                self.ready[follower] = end
            self.wait_counts[follower] -= 1
            if not self.wait_counts[follower]:
                part = self.part[follower]
                self._open_next(part, self.queues[part][self.lane[follower]])

    def _open_next(self, part: int, queue: Sequence[int]) -> None:
        """Open the next step of a queue if it waits for nothing more."""
        if queue and not self.wait_counts[queue[-1]]:
            self.open[self.lane[queue[-1]]][part] = queue[-1]


def _list(column: Ints) -> list[int]:
    result: list[int] = column.tolist()
    return result


def _lanes(steps: Steps) -> Ints:
    """The lane of each step."""
    buffer = np.where(steps.tiles[:, 0] == NO_TILE, -1, steps.buffer[steps.tiles[:, 0]])
    loads = (steps.unit == Unit.LOAD) & ~np.isin(np.arange(len(steps.unit)), steps.stores[:, 0])
    lane = np.where(loads & (buffer == Buffer.WGT), _WEIGHTS, steps.unit)
    return np.where(loads & (buffer == Buffer.SCL), _SCALES, lane)


def _queues(part: Ints, lane: Ints, parts: int) -> list[list[list[int]]]:
    """The steps of each part and lane, the first one last."""
    queue = part * _LANES + lane
    order = np.argsort(queue, kind="stable")
    ends = np.searchsorted(queue[order], np.arange(parts * _LANES + 1)).tolist()
    listed = _list(order)
    queues = [listed[low:high][::-1] for low, high in pairwise(ends)]
    return [queues[at * _LANES : (at + 1) * _LANES] for at in range(parts)]


def _owners(steps: Steps) -> Ints:
    """The part of each tile."""
    result = np.zeros(len(steps.entries), np.int64)
    step, position = np.nonzero(steps.tiles != NO_TILE)
    result[steps.tiles[step, position]] = steps.part[step]
    return result


def _moves_more(steps: Steps, parts: int) -> list[bool]:
    """Whether the loads of each part take longer than its computation."""
    loads, computes = (
        occurrences(steps.part, parts, np.where(steps.unit == unit, steps.busy, 0)) for unit in (_LOAD, _COMPUTE)
    )
    result: list[bool] = (loads > computes).tolist()
    return result


def _largest(steps: Steps, parts: int) -> list[int]:
    """The entries of the largest input tile of each part."""
    largest, inputs = np.zeros(parts, np.int64), steps.buffer == Buffer.INP
    np.maximum.at(largest, _owners(steps)[inputs], steps.entries[inputs])
    return _list(largest)


def _reserve(config: Config, largest: Sequence[int]) -> list[int]:
    """The input entries to leave to each part."""
    return [min(_RESERVED_TILES * entries, config.inp_depth // 2) for entries in largest]
