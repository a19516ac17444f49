# SPDX-License-Identifier: Apache-2.0
"""The steps of a chain that `list_schedule` orders: groups of operations in columns.

Steps are numbered over all parts, in the order of the parts and of their groups; so are tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import MacroOp, field_unit
from vdla.compiler.codegen.vdla.macro_ops import NO_TILE, TiledOps
from vdla.compiler.codegen.vdla.state_loads import contents, is_state_load
from vdla.hardware import isa, timing
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Extended, Footprints, Gemm, Load, Store, Unit, Vector, Where
from vdla.hardware.isa.index_set import end, shift
from vdla.support.arrays import occurrences

Ints = NDArray[np.int64]
NO_STEP = -1


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """One function of a chain; `tensors` are the chain's names of its tensors in DRAM.

    `wholes` has, by the chain's names of parts, the name and the beats of what they lie in.
    """

    ops: TiledOps
    tensors: Mapping[str, str]
    wholes: Mapping[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """Columns over all steps, and over all tiles.

    A step keeps its `unit` busy for `busy` cycles, and ends `tail` cycles later. Unless the stage
    has its `state`, loads of it take `copy` cycles before; 0 is a state that is not known.
    `tiles[s]` are the tiles that step `s` uses, with NO_TILE in unused columns. `waits` has (step,
    earlier step) for all that must have ended; `stores` has the pairs of a LOAD and the STOREs that
    it waits for. `partners` has pairs of tiles of the accumulator that a VECTOR reads together.
    """

    part: Ints
    unit: Ints
    busy: Ints
    tail: Ints
    copy: Ints
    state: Ints
    tiles: Ints
    waits: Ints
    stores: Ints
    buffer: Ints
    entries: Ints
    align: Ints
    partners: Ints


def steps_of(config: Config, parts: Sequence[Part]) -> Steps:
    """The steps of all parts and what they wait for."""
    part_steps = [_PartSteps.of(config, part.ops) for part in parts]
    width = max(item.tiles.shape[1] for item in part_steps)
    first_tile = np.cumsum([0, *(len(part.ops.entries) for part in parts)])
    tiles = [_shifted(item.tiles, first, width) for item, first in zip(part_steps, first_tile.tolist(), strict=False)]
    unit = np.concatenate([item.unit for item in part_steps])
    used = np.concatenate(tiles)
    stores = _store_waits(config, parts)
    return Steps(
        part=np.repeat(np.arange(len(parts)), [len(item.unit) for item in part_steps]),
        unit=unit,
        busy=np.concatenate([item.busy for item in part_steps]),
        tail=np.concatenate([item.tail for item in part_steps]),
        copy=np.concatenate([item.copy for item in part_steps]),
        state=np.concatenate(
            [_states(part.ops, first) for part, first in zip(parts, first_tile.tolist(), strict=False)]
        ),
        tiles=used,
        waits=np.unique(np.concatenate([_tile_waits(unit, used), _state_waits(config, parts), stores]), axis=0),
        stores=stores,
        buffer=np.array([tile.buffer for part in parts for tile in part.ops.origin], np.int64),
        entries=np.concatenate([part.ops.entries for part in parts]),
        align=np.concatenate([item.align for item in part_steps]),
        partners=np.concatenate([_partners(part.ops) + first for part, first in zip(parts, first_tile, strict=False)]),
    )


def _shifted(tiles: Ints, first: int, width: int) -> Ints:
    """The tiles numbered from `first` on, in `width` columns."""
    result = np.full((len(tiles), width), NO_TILE, np.int64)
    result[:, : tiles.shape[1]] = np.where(tiles == NO_TILE, NO_TILE, tiles + first)
    return result


@dataclass(frozen=True, eq=False, slots=True)
class _PartSteps:
    """The columns of the steps of one part."""

    unit: Ints
    busy: Ints
    tail: Ints
    copy: Ints
    tiles: Ints
    align: Ints

    @staticmethod
    def of(config: Config, ops: TiledOps) -> _PartSteps:
        starts = ops.starts
        rates = [(isa.unit_of(f.instruction), busy_cycles(config, f), tail_cycles(config, f)) for f in ops.ops.forms]
        unit, busy, tail = np.array(rates, np.int64)[ops.ops.form].T
        loads = _loads_before(ops)
        firsts = starts[:-1]
        align = np.ones(len(ops.entries), np.int64)
        for number, rows in ops.ops.rows():
            form = ops.ops.forms[number]
            for position, name in enumerate(form.bases):
                np.maximum.at(align, ops.tile[rows, position], field_unit(config, form.instruction, name).numerator)
        return _PartSteps(
            unit=unit[firsts],
            busy=np.add.reduceat(np.where(loads, 0, busy), firsts),
            tail=tail[starts[1:] - 1],
            copy=np.add.reduceat(np.where(loads, busy + tail, 0), firsts),
            tiles=_without_duplicates(_tiles_of_groups(ops, loads)),
            align=align,
        )


def _loads_before(ops: TiledOps) -> NDArray[np.bool_]:
    """Of each operation, whether it loads state for the one behind it, of the same group."""
    loads = is_state_load(ops.ops)
    loads[ops.starts[1:] - 1] = False
    return loads


def _states(ops: TiledOps, first: int) -> Ints:
    """What the loads of state of each group load, by the numbers of tiles from `first` on."""
    result = np.zeros(ops.groups, np.int64)
    loads = _loads_before(ops)
    result[ops.group[loads]] = contents(ops, first)[loads]
    return result


def _partners(ops: TiledOps) -> Ints:
    """Pairs of tiles of the accumulator that a VECTOR reads together, int64[n, 2]."""
    pairs = [np.zeros((0, 2), np.int64)]
    for number, rows in ops.ops.rows():
        form = ops.ops.forms[number]
        if isinstance(form.instruction, Vector) and {"acc", "src"} <= form.bases.keys():
            acc, src = (list(form.bases).index(name) for name in ("acc", "src"))
            if form.bases["src"][0].buffer == Buffer.ACC:
                pairs.append(ops.tile[rows][:, [acc, src]])
    return np.unique(np.concatenate(pairs), axis=0)


def _tiles_of_groups(ops: TiledOps, loads: NDArray[np.bool_]) -> Ints:
    """The tiles of each group: of its loads of state, and of the operation behind them, whose parts
    have the same.
    """
    firsts, lasts = ops.starts[:-1], ops.starts[1:] - 1
    most = int(occurrences(ops.group[loads]).max(initial=0))
    return np.concatenate([ops.tile[np.minimum(firsts + at, lasts)] for at in range(most + 1)], axis=1)


def _without_duplicates(tiles: Ints) -> Ints:
    """The rows with only the first of equal tiles."""
    result = tiles.copy()
    for position in range(1, tiles.shape[1]):
        again = (tiles[:, :position] == tiles[:, position, None]).any(axis=1)
        result[again, position] = NO_TILE
    return result


# --- dependences ---------------------------------------------------------------------------------


def _tile_waits(unit: Ints, tiles: Ints) -> Ints:
    """(step, the last one before it of another unit on one of its tiles)."""
    step, position = np.nonzero(tiles != NO_TILE)
    order = np.argsort(tiles[step, position], kind="stable")
    step, tile = step[order], tiles[step, position][order]
    place, units = np.arange(len(step)), unit[step]
    first = np.searchsorted(tile, tile)
    pairs = [np.zeros((0, 2), np.int64)]
    for other in Unit:
        last = np.maximum.accumulate(np.where(units == other, place, NO_STEP))
        waiting = (last >= first) & (units != other)
        pairs.append(np.stack([step[waiting], step[last[waiting]]], axis=1))
    return np.concatenate(pairs)


def _state_waits(config: Config, parts: Sequence[Part]) -> Ints:
    """(first step of a part on a private state, last one before it of another part).

    The state of a stage is loaded again before each of its readers.
    """
    stage = set() if config.stage is None else {port.state for port in config.stage.states}
    last, pairs, first = dict[object, int](), list[tuple[int, int]](), 0
    for part in parts:
        spans = {state: span for state, span in _state_spans(part).items() if state not in stage}
        pairs += [(first + low, last[state]) for state, (low, _) in spans.items() if state in last]
        last |= {state: first + high for state, (_, high) in spans.items()}
        first += part.ops.groups
    return np.array(pairs, np.int64).reshape(-1, 2)


def _state_spans(part: Part) -> dict[object, tuple[int, int]]:
    """The first and the last group that uses each private state."""
    result: dict[object, tuple[int, int]] = {}
    for number, rows in part.ops.ops.rows():
        match part.ops.ops.forms[number].instruction:
            case Extended(plug_in=plug_in):
                groups = part.ops.group[rows]
                for port in plug_in.states:
                    low, high = result.get(port.state, (int(groups[0]), int(groups[-1])))
                    result[port.state] = min(low, int(groups[0])), max(high, int(groups[-1]))
    return result


@dataclass(frozen=True, eq=False, slots=True)
class _Moves:
    """LOADs or STOREs of one form of a part: step `step[i]` moves `beats`, shifted by `dram[i]`."""

    part: int
    tensor: str
    stores: bool
    beats: Where
    dram: Ints
    step: Ints


def _store_waits(config: Config, parts: Sequence[Part]) -> Ints:
    """(LOAD, STORE of beats that it reads): the last STORE of each part that writes some of them.

    A part has all its STOREs in order, so that its last one ends after the others.
    """
    moves, writers = list(_moves(config, parts)), dict[str, dict[int, Ints]]()
    sizes: dict[str, int] = {}
    for move in moves:
        if move.stores:
            sizes[move.tensor] = max(sizes.get(move.tensor, 0), end(move.beats) + int(move.dram.max()))
    for move in moves:
        if move.stores:
            empty = np.full(sizes[move.tensor], NO_STEP, np.int64)
            last = writers.setdefault(move.tensor, {}).setdefault(move.part, empty)
            for beats, step in _beats_of_steps(move):
                last[beats] = np.maximum(last[beats], step)
    result = []
    for move in moves:
        for last in () if move.stores else writers.get(move.tensor, {}).values():
            for beats, step in _beats_of_steps(move):
                read = beats if isinstance(beats, slice) else beats[beats < len(last)]
                result.append((step, int(last[read].max(initial=NO_STEP))))
    pairs = np.array(result, np.int64).reshape(-1, 2)
    return np.unique(pairs[pairs[:, 1] != NO_STEP], axis=0)


def _moves(config: Config, parts: Sequence[Part]) -> Iterator[_Moves]:
    footprints, first = Footprints(config), 0
    for number, part in enumerate(parts):
        ops = part.ops.ops
        table = isa.instruction_columns(config, [form.instruction for form in ops.forms]).tolist()
        for index, rows in ops.rows():
            form = ops.forms[index]
            if form.tensor is not None:
                name = part.tensors.get(form.tensor, f"{number}.{form.tensor}")
                whole, count = part.wholes.get(name, ("", 0))
                yield _Moves(
                    part=number,
                    tensor=whole or name,
                    stores=isinstance(form.instruction, Store),
                    beats=slice(0, count) if whole else footprints.beats(table[index]),
                    dram=np.zeros(len(rows), np.int64) if whole else ops.dram[rows],
                    step=first + part.ops.group[rows],
                )
        first += part.ops.groups


def _beats_of_steps(moves: _Moves) -> Iterator[tuple[Where, int]]:
    """The beats of each step."""
    for dram, step in zip(moves.dram.tolist(), moves.step.tolist(), strict=True):
        yield shift(moves.beats, dram), step


# --- estimated cycles of single operations --------------------------------------------------------


def busy_cycles(config: Config, op: MacroOp) -> int:
    """Cycles until the operation's unit can start the next one."""
    match op.instruction:
        case Load() as load:
            cycles = _padding(load) + _transfer_cycles(config, load)
            on_compute = isa.unit_of(load) == Unit.COMPUTE
            return cycles + (config.dram.read_latency if on_compute else 0)
        case Store() as store:
            entries = store.z_size * store.y_size * store.x_size
            beats = entries * config.out_entry_bytes // config.axi_bytes
            return beats * config.axi_ports * config.dram.beat_cycles + timing.STORE_SETUP
        case Gemm() as loops:
            return loops.loop0 * loops.loop1 * len(op.uops)
        case Vector() as loops:
            return loops.loop0 * loops.loop1 * len(op.uops) + timing.ISSUE_DELAY
        case Extended(plug_in=plug_in) as extended:
            field = partial(getattr, extended)
            return int(timing.extension_cycles(plug_in, field, field("loop0") * field("loop1") * len(op.uops)))
    return 1


def tail_cycles(config: Config, op: MacroOp) -> int:
    """Cycles from there to the operation's end."""
    match op.instruction:
        case Load():
            return timing.read_delay(config) + config.dram.read_latency + timing.LOAD_TAIL
        case Store():
            return config.dram.write_latency + timing.STORE_TAIL
        case Gemm():
            return timing.ISSUE_DELAY + timing.compute_depth(config)
        case Vector() | Extended():
            return timing.compute_depth(config)
    return 1


def _padding(load: Load) -> int:
    """Entries of padding."""
    rows = load.y_before + load.y_size + load.y_after
    columns = load.x_before + load.x_size + load.x_after
    return load.z_size * (rows * columns - load.y_size * load.x_size)


def _transfer_cycles(config: Config, load: Load) -> int:
    """Cycles of all bursts: of their beats, or of latencies where short bursts cannot hide them."""
    dram = config.dram
    entry = config.entry_bytes[Buffer.OUT if load.widen else load.buffer] // config.axi_bytes
    run, runs = load.x_size * entry, load.y_size * load.z_size
    if load.y_size == 1 or load.y_stride == run:
        run, runs = run * load.y_size, load.z_size
    if not run * runs:
        return 1
    bursts = -(-run // config.burst_beats) * runs
    beats = run * runs * dram.beat_cycles + bursts * dram.burst_gap
    return max(beats, (bursts * dram.read_latency + beats) // timing.outstanding_reads(config))
