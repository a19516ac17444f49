# SPDX-License-Identifier: Apache-2.0
"""A stream of words in memory, run by the simulator as the hardware runs it: any words at all.

Unlike a program on a device, a stream that reaches a board's fabric is not verified: it may have
invalid instructions, leave its buffers, or hang. The outcome has the error that the hardware
reports; memory beyond the windows is never read or written. A stream that ends has the exact
cycles and counters. One that is stopped by an error or hangs has the exact code and, but for
ties of two errors within some cycles, the exact position; its counters are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from vdla.boards.virtual.page_map import PageMap
from vdla.hardware import timing as contract
from vdla.hardware.config import Config
from vdla.hardware.generate.registers import ErrorCode
from vdla.hardware.isa import COL, QUEUES, IsaError, Opcode, Unit, check, columns, instruction_bytes
from vdla.simulator.function import Engine, token_order
from vdla.simulator.stats.moved_bytes import entry_beats
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import Timing, attempt_columns, column_stalls
from vdla.simulator.timing.layout import DONE, T_A, T_C, T_D, T_E, T_Q, T_S, UNKNOWN
from vdla.support.arrays import Bools, Bytes, Ints

MOST_INSTRUCTIONS = 1 << 19
"""Instructions of a stream that the simulator takes: it needs half a kilobyte for each."""
MOST_WORK = 1 << 31
"""Iterations, and beats, of a stream that the simulator runs; one with more stays busy."""
_SLICE = 256  # instructions between two looks at whether the run is cancelled
_NEVER = 1 << 62
_GOOD = -1  # of rows: none leaves the windows
_FETCHED_AHEAD = 256  # words beyond the valid ones: no buffer of fetch holds more
_REPORT_DELAY = 2  # from an error's beat to the stop
_MOST_ROWS = 1 << 20  # of a LOAD or STORE that lies in several windows
_WINDOW = ("z_size", "y_size", "x_size", "dram", "z_stride", "y_stride")
_SIZES = (
    "loop0", "loop1", "uop_begin", "uop_end",
    "z_size", "y_before", "y_size", "y_after", "x_before", "x_size", "x_after",
)  # fmt: skip
_UNIT_ERRORS = (ErrorCode.LOAD, ErrorCode.COMPUTE, ErrorCode.STORE)


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A stream to run: where its words are, and how many."""

    address: int
    count: int


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """How a stream ended: `over` is False for one that never does.

    `started` and `ended` are by unit, `tokens` and `commands` by queue, `counters` by unit and
    counter, fetch first.
    """

    over: bool
    error: ErrorCode = ErrorCode.NONE
    error_index: int = 0
    cycles: int = 0
    dispatched: int = 0
    started: tuple[int, ...] = (0, 0, 0)
    ended: tuple[int, ...] = (0, 0, 0)
    commands: tuple[int, ...] = (0, 0, 0)
    tokens: tuple[int, ...] = (0, 0, 0, 0)
    counters: tuple[tuple[int, ...], ...] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class _Stop:
    """An error that stops the machine, and the cycle in which it does."""

    cycle: int
    error: ErrorCode
    index: int


def run_stream(
    config: Config, memory: Bytes, pages: PageMap, request: StreamRequest, cancelled: Callable[[], bool]
) -> StreamOutcome:
    """Run a stream on the memory; what it has written when it is cancelled stays."""
    words = _fetched(config, memory, pages, request)
    if len(words) > MOST_INSTRUCTIONS:
        return StreamOutcome(over=False)
    valid = _valid_words(config, words)
    linked = columns(config, words[:valid])
    if _work(config, linked) > MOST_WORK:
        return StreamOutcome(over=False)
    first_bad = _first_bad_rows(config, pages, linked)
    placed = _placed(linked, pages.shift // config.axi_bytes)
    stalls = column_stalls(config, placed, lambda k: memory if first_bad[k] == _GOOD else memory[:0])
    ahead = min(request.count - valid, _FETCHED_AHEAD)  # what fetch requests beyond the valid words
    stalls = np.concatenate([stalls, np.zeros(ahead, np.int64)])
    beat = request.address // config.axi_bytes
    status, timing = attempt_columns(config, _with_syncs(linked, ahead), beat, stalls)
    times = timing.times[:valid]
    stops = list(_bus_errors(config, linked, times, first_bad))
    if valid < request.count:
        stops += _word_error(config, timing.times, valid, invalid=valid < len(words))
    stop = min(stops, key=lambda stop: stop.cycle, default=None)
    done = status == DONE and stop is None
    happened = (times != UNKNOWN) & (times <= (stop.cycle if stop else _NEVER))
    happened[first_bad != _GOOD, T_E] = False  # what leaves the windows is never executed
    order = token_order(linked) if done else _by_end(times, happened)
    _execute(_Lenient(config, placed, memory), order, cancelled)
    return _outcome(linked, happened, stop, timing if done else None)


# --- what is to be run ----------------------------------------------------------------------------


def _fetched(config: Config, memory: Bytes, pages: PageMap, request: StreamRequest) -> Bytes:
    """The words of the stream that lie in memory, `uint8[n, instruction_bytes]`."""
    nbytes = instruction_bytes(config)
    count = min(request.count, pages.reach(request.address) // nbytes, MOST_INSTRUCTIONS + 1)
    begin = request.address - pages.shift
    return memory[begin : begin + count * nbytes].reshape(count, nbytes).copy() if count else _none(nbytes)


def _none(nbytes: int) -> Bytes:
    return np.zeros((0, nbytes), np.uint8)


def _valid_words(config: Config, words: Bytes) -> int:
    """The number of words before the first invalid one."""
    low, high = 0, len(words)
    if _is_valid(config, words):
        return high
    while high - low > 1:  # words[:low] are valid, words[:high] are not
        middle = (low + high) // 2
        low, high = (middle, high) if _is_valid(config, words[low:middle]) else (low, middle)
    return low


def _is_valid(config: Config, words: Bytes) -> bool:
    try:
        check(config, words)
    except IsaError:
        return False
    return True


def _moves(linked: Ints) -> Bools:
    """The instructions that access DRAM."""
    moves = np.isin(linked[:, COL["opcode"]], (Opcode.LOAD, Opcode.STORE))
    return np.asarray(moves & (linked[:, COL["x_size"]] > 0) & (linked[:, COL["y_size"]] > 0), np.bool_)


def _placed(linked: Ints, shift_beats: int) -> Ints:
    """The instructions with places in the memory array instead of addresses."""
    placed = linked.copy()
    placed[:, COL["dram"]] -= np.where(_moves(linked), shift_beats, 0)
    return placed


def _work(config: Config, linked: Ints) -> float:
    """Iterations, entries and beats, roughly; a float, because hostile products overflow."""
    c = {name: linked[:, COL[name]].astype(np.float64) for name in _SIZES}
    iterations = c["loop0"] * c["loop1"] * np.maximum(c["uop_end"] - c["uop_begin"], 0)
    rows = c["z_size"] * (c["y_before"] + c["y_size"] + c["y_after"])
    columns_ = c["x_before"] + c["x_size"] * entry_beats(config, linked) + c["x_after"]
    return float(iterations.sum() + (rows * np.maximum(columns_, 1)).sum())


def _with_syncs(linked: Ints, count: int) -> Ints:
    """The instructions, and as many behind them that do nothing: words whose arrival is of
    interest.
    """
    syncs = np.zeros((count, len(COL)), np.int64)
    syncs[:, COL["opcode"]] = Opcode.SYNC
    return np.concatenate([linked, syncs])


# --- errors ---------------------------------------------------------------------------------------


def _word_error(config: Config, times: Ints, index: int, *, invalid: bool) -> list[_Stop]:
    """The error of the first word that cannot be executed, if the machine comes to it."""
    stop = _invalid_word(times, index) if invalid else _missing_word(config, times, index)
    return [stop] if stop else []


def _invalid_word(times: Ints, index: int) -> _Stop | None:
    """An invalid word stops the machine when all before it are dispatched."""
    arrival, before = times[index, T_A], times[index - 1, T_D] if index else 0
    if UNKNOWN in (arrival, before):
        return None
    return _Stop(int(max(arrival, before + 1)) + _REPORT_DELAY, ErrorCode.INSTRUCTION, index)


def _missing_word(config: Config, times: Ints, index: int) -> _Stop | None:
    """A word that is not in memory stops the machine when its first beat arrives."""
    if times[index, T_A] == UNKNOWN:
        return None
    beats = instruction_bytes(config) // config.axi_bytes
    spacing = config.axi_ports * config.dram.beat_cycles
    cycle = int(times[index, T_A]) - contract.DISPATCH_DELAY - (beats - 1) * spacing + _REPORT_DELAY
    dispatched = times[:index, T_D]
    return _Stop(cycle, ErrorCode.FETCH, int(((dispatched != UNKNOWN) & (dispatched < cycle)).sum()))


def _bus_errors(config: Config, linked: Ints, times: Ints, first_bad: Ints) -> Iterator[_Stop]:
    """The first access of each unit that leaves the windows."""
    for unit in Unit:
        mine = np.flatnonzero(linked[:, COL["unit"]] == unit)
        bad = np.flatnonzero(first_bad[mine] != _GOOD)
        if not len(bad) or times[mine[bad[0]], T_C] == UNKNOWN:
            continue
        before, k = mine[: bad[0]], int(mine[bad[0]])
        cycle = _error_cycle(config, linked[k : k + 1], times[k], int(first_bad[k]))
        ends = times[before, T_E]
        yield _Stop(cycle, _UNIT_ERRORS[unit], int(((ends != UNKNOWN) & (ends < cycle)).sum()))


def _error_cycle(config: Config, row: Ints, times: Ints, first_bad: int) -> int:
    """About when the first beat beyond the windows is answered: between the first and the last."""
    end = int(times[T_C]) + 1
    if row[0, COL["opcode"]] == Opcode.STORE:
        return end
    rows = int(row[0, COL["z_size"]] * row[0, COL["y_size"]])
    beats = rows * int(row[0, COL["x_size"]] * entry_beats(config, row)[0])
    latency = config.dram.read_latency + contract.read_delay(config) + _REPORT_DELAY
    whole = (beats - 1) * config.axi_ports * config.dram.beat_cycles  # of beats one behind the other
    begin = max(end - whole, int(times[T_Q]) + latency)
    return begin + max(0, end - begin) * first_bad // rows


def _first_bad_rows(config: Config, pages: PageMap, linked: Ints) -> Ints:
    """The first row of each LOAD or STORE that leaves the windows, _GOOD where none does."""
    unit = config.axi_bytes
    z, y, x, begin, z_stride, y_stride = (linked[:, COL[name]] for name in _WINDOW)
    row = x * entry_beats(config, linked)
    last = begin + (z - 1) * z_stride + (y - 1) * y_stride
    good = ~_moves(linked) | pages.holds(begin * unit, (last + row) * unit)  # one window for all rows
    first = np.where(good, _GOOD, 0)
    for k in np.flatnonzero(~good).tolist():
        if z[k] * y[k] <= _MOST_ROWS:
            rows = begin[k] + (np.arange(z[k])[:, None] * z_stride[k] + np.arange(y[k]) * y_stride[k]).reshape(-1)
            held = pages.holds(rows * unit, (rows + row[k]) * unit)
            first[k] = _GOOD if held.all() else int(held.argmin())
    return first


# --- function -------------------------------------------------------------------------------------


class _Lenient(Engine):
    """An engine that leaves out instructions which leave a buffer: what they do on the hardware is
    undefined, and no error.
    """

    def execute(self, index: int) -> None:
        with suppress(SimulationError):
            super().execute(index)


def _by_end(times: Ints, happened: Bools) -> Ints:
    """The instructions that ended, by the cycle of it."""
    ended = np.flatnonzero(happened[:, T_E])
    return np.asarray(ended[np.argsort(times[ended, T_E], kind="stable")], np.int64)


def _execute(engine: Engine, order: Ints, cancelled: Callable[[], bool]) -> None:
    for begin in range(0, len(order), _SLICE):
        if cancelled():
            return
        engine.run(order[begin : begin + _SLICE])


# --- the outcome ----------------------------------------------------------------------------------


def _outcome(linked: Ints, happened: Bools, stop: _Stop | None, timing: Timing | None) -> StreamOutcome:
    unit = linked[:, COL["unit"]]
    started, ended = (tuple(int(happened[unit == u, at].sum()) for u in Unit) for at in (T_S, T_E))
    dispatched = tuple(int(happened[unit == u, T_D].sum()) for u in Unit)
    pushed = [int((happened[:, T_E] & (unit == q.producer) & (linked[:, COL[q.push]] > 0)).sum()) for q in QUEUES]
    popped = [int((happened[:, T_S] & (unit == q.consumer) & (linked[:, COL[q.pop]] > 0)).sum()) for q in QUEUES]
    return StreamOutcome(
        over=stop is not None or timing is not None,
        error=stop.error if stop else ErrorCode.NONE,
        error_index=stop.index if stop else 0,
        cycles=timing.total if timing else stop.cycle if stop else 0,
        dispatched=sum(dispatched),
        started=started,
        ended=ended,
        commands=tuple(d - s for d, s in zip(dispatched, started, strict=True)),
        tokens=tuple(push - pop for push, pop in zip(pushed, popped, strict=True)),
        counters=tuple(map(tuple, timing.counters.tolist())) if timing else (),
    )
