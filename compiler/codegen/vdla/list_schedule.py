"""List scheduling of a chain: the order of operations in which each unit starts as early as it can.

A model of the machine with estimated times picks, again and again, the operation that can start
first, and places its tiles. The order of starts is the program order: the command queues then hold
what the units need next, loads are issued as soon as their buffer has space, and parts that mostly
move data run between the tiles of parts that mostly compute. Times only rank orders; dependences
are exact, and each unit runs the operations of one part in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.buffer_space import NEVER, BufferSpace
from vdla.compiler.codegen.vdla.cycle_estimate import busy_cycles, tail_cycles
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp, field_unit
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Footprints, Load, Store, Unit

Ints = NDArray[np.int64]
Group = tuple[MacroOp, ...]
Tile = tuple[int, BufferTile]  # of a part

_UNITS = tuple(map(int, Unit))
_RELAY_CYCLES = 20  # compute drains to pass on the end of a STORE to load
_RESERVED_TILES = 4  # input tiles that a part of mostly loads gets beside the one before it


@dataclass(frozen=True, slots=True)
class Part:
    """One function of a chain: its operations in order, in groups of one unit that stay together.

    `tensors` are the chain's names of the tensors in DRAM.
    """

    groups: Sequence[Group]
    tensors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Order:
    """The groups of all parts in program order, as (part, group), and the address of every tile."""

    groups: Sequence[tuple[int, Group]]
    addresses: Mapping[Tile, int]


def list_schedule(config: Config, parts: Sequence[Part]) -> Order | None:
    """An order of all parts, each of which may depend on earlier ones; None if none is found."""
    return next((order for spare in (True, False) if (order := _Scheduler(config, parts, spare).run())), None)


@dataclass(eq=False, slots=True)
class _Tile:
    """A tile, its alignment, the steps that still use it, and the end of those that did."""

    part: int
    tile: BufferTile
    align: int = 1
    uses: int = 0
    end: int = 0
    address: int = -1


@dataclass(eq=False, slots=True)
class _Step:
    """A group: its cycles in its unit, and from there to its end; what it waits for; its tiles.

    `ready` is when all that it waits for has ended, `number` its place among the STOREs.
    """

    group: Group
    part: int
    unit: int
    busy: int
    tail: int
    tiles: tuple[_Tile, ...]
    waits: list[_Step] = field(default_factory=list)
    stores: list[_Step] = field(default_factory=list)
    ready: int = NEVER
    end: int = NEVER
    number: int = -1


class _Scheduler:
    """One run of the model; `spare`: leave input space to a light part that comes next."""

    def __init__(self, config: Config, parts: Sequence[Part], spare: bool) -> None:
        self.config = config
        self.tiles: dict[Tile, _Tile] = {}
        self.spaces = [BufferSpace(config.depths[buffer]) for buffer in Buffer]
        self.clock = [0] * len(Unit)
        self.stores = 0
        self.relayed = -1  # the last STORE whose end load knows of
        members = [[self._step(group, number) for group in part.groups] for number, part in enumerate(parts)]
        _wait_for_tiles(members)
        _wait_for_memory(config, parts, members)
        self.queues = [[[s for s in reversed(steps) if s.unit == unit] for unit in Unit] for steps in members]
        self.light = [_moves_more(steps) for steps in members]
        self.reserve = [_reserve(config, steps) if spare else 0 for steps in members]
        self.first = 0

    def _step(self, group: Group, part: int) -> _Step:
        used: dict[BufferTile, _Tile] = {}
        for name, (tile, _) in group[0].bases.items():
            known = used[tile] = self.tiles.setdefault((part, tile), _Tile(part, tile))
            known.align = max(known.align, field_unit(self.config, group[0].instruction, name).numerator)
        for known in used.values():
            known.uses += 1
        busy = sum(busy_cycles(self.config, op) for op in group)
        unit, tail = int(isa.unit_of(group[0].instruction)), tail_cycles(self.config, group[-1])
        return _Step(group=group, part=part, unit=unit, busy=busy, tail=tail, tiles=tuple(used.values()))

    def run(self) -> Order | None:
        """The order; None where no operation can be next."""
        order: list[tuple[int, Group]] = []
        left = sum(len(queue) for queues in self.queues for queue in queues)
        while left:
            found = [(key, step) for unit in _UNITS for key, step in self._candidates(unit)]
            if not found:
                return None
            key, step = min(found, key=itemgetter(0))
            self._issue(step, key[0])
            order.append((step.part, step.group))
            left -= 1
            while self.first < len(self.queues) and not any(self.queues[self.first]):
                self.first += 1
        return Order(order, {key: tile.address for key, tile in self.tiles.items()})

    def _candidates(self, unit: int) -> Iterator[tuple[tuple[int, bool, int, int], _Step]]:
        """What the unit could do next: of the first part with work for it, and of light ones."""
        heavy = False
        for part in range(self.first, len(self.queues)):
            queue = self.queues[part][unit]
            if not queue:
                continue
            if not self.light[part] and unit != Unit.STORE:
                if heavy:
                    return
                heavy = True
            start = self._start(queue[-1])
            if start < NEVER:
                yield (start, not self.light[part], part, unit), queue[-1]

    def _start(self, step: _Step) -> int:
        """The earliest start, NEVER if that is not known yet."""
        if step.ready == NEVER:
            step.ready = max((other.end for other in step.waits), default=0)
            if step.ready == NEVER:
                return NEVER
        start = max(self.clock[step.unit], step.ready)
        if step.stores and self._needs_relay(step):
            start = max(start, self.clock[Unit.COMPUTE])
        for tile in step.tiles:
            if tile.address < 0:
                start = max(start, self._find(tile)[0])
        return start

    def _needs_relay(self, step: _Step) -> bool:
        """Whether compute must pass on the end of a STORE: load and store share no queue."""
        return step.unit == Unit.LOAD and any(store.number > self.relayed for store in step.stores)

    def _find(self, tile: _Tile) -> tuple[int, int]:
        buffer, after = tile.tile.buffer, tile.part + 1
        shares = (
            buffer == Buffer.INP
            and not self.light[tile.part]
            and after < len(self.light)
            and self.light[after]
            and bool(self.queues[after][Unit.LOAD])
        )
        return self.spaces[buffer].find(tile.tile.entries, tile.align, self.reserve[after] if shares else 0)

    def _issue(self, step: _Step, start: int) -> None:
        self.queues[step.part][step.unit].pop()
        self.clock[step.unit] = start + step.busy
        step.end = start + step.busy + step.tail
        if step.unit == Unit.STORE:
            step.number, self.stores = self.stores, self.stores + 1
        if self._needs_relay(step):
            self.relayed = max(store.number for store in step.stores)
            self.clock[Unit.COMPUTE] = start + _RELAY_CYCLES
        for tile in step.tiles:
            self._use(tile, step.end)

    def _use(self, tile: _Tile, end: int) -> None:
        """Place a tile at its first use, and free it after its last."""
        space, entries = self.spaces[tile.tile.buffer], tile.tile.entries
        if tile.address < 0:
            tile.address = self._find(tile)[1]
            space.set(tile.address, entries, NEVER)
        tile.end = max(tile.end, end)
        tile.uses -= 1
        if not tile.uses:
            space.set(tile.address, entries, tile.end)


def _moves_more(steps: Sequence[_Step]) -> bool:
    """Whether the loads of a part take longer than its computation."""
    return sum(s.busy for s in steps if s.unit == Unit.LOAD) > sum(s.busy for s in steps if s.unit == Unit.COMPUTE)


def _reserve(config: Config, steps: Sequence[_Step]) -> int:
    """The input entries to leave to a part."""
    tiles = (known.tile for step in steps for known in step.tiles)
    largest = max((tile.entries for tile in tiles if tile.buffer == Buffer.INP), default=0)
    return min(_RESERVED_TILES * largest, config.inp_depth // 2)


# --- dependences ---------------------------------------------------------------------------------


def _wait_for_tiles(parts: Sequence[Sequence[_Step]]) -> None:
    """Let every step wait for the last one of each other unit on the same tile."""
    last: dict[int, dict[int, _Step]] = {}
    for steps in parts:
        for step in steps:
            for tile in step.tiles:
                users = last.setdefault(id(tile), {})
                step.waits += [other for unit, other in users.items() if unit != step.unit]
                users[step.unit] = step


def _wait_for_memory(config: Config, parts: Sequence[Part], steps: Sequence[Sequence[_Step]]) -> None:
    """Let every LOAD wait for the STOREs of the beats that it reads."""
    moves = [
        (parts[step.part].tensors.get(op.tensor, f"{step.part}.{op.tensor}"), op.instruction, step)
        for members in steps
        for step in members
        for op in step.group
        if op.tensor is not None
    ]
    rows: list[list[int]] = isa.instruction_columns(config, [instruction for _, instruction, _ in moves]).tolist()
    footprints, writers, sizes = Footprints(config), dict[str, Ints](), dict[str, int]()
    stores = [
        (tensor, _beats(footprints, row), s)
        for (tensor, i, s), row in zip(moves, rows, strict=True)
        if isinstance(i, Store)
    ]
    for tensor, beats, _ in stores:
        sizes[tensor] = max(sizes.get(tensor, 0), int(beats.max(initial=-1)) + 1)
    for index, (tensor, beats, _) in enumerate(stores):
        writers.setdefault(tensor, np.full(sizes[tensor], -1, np.int64))[beats] = index
    for (tensor, instruction, step), row in zip(moves, rows, strict=True):
        if isinstance(instruction, Load) and tensor in writers:
            beats = _beats(footprints, row)
            found = np.unique(writers[tensor][beats[beats < sizes[tensor]]])
            step.stores += [stores[at][2] for at in found[found >= 0].tolist()]
    for members in steps:
        for step in members:
            step.waits += step.stores


def _beats(footprints: Footprints, row: list[int]) -> Ints:
    where = footprints.beats(row)
    return np.arange(where.start, where.stop) if isinstance(where, slice) else where
