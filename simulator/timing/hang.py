"""What every unit was doing when a run did not end: the text of the error."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Unit
from vdla.simulator.support.errors import name_of
from vdla.simulator.support.jit import Int
from vdla.simulator.timing.layout import T_C, T_D, T_E, T_S, UNKNOWN
from vdla.simulator.timing.wait_table import POP_QUEUE, PUSH_QUEUE, QUEUES, F, Work

Ints = NDArray[np.int64]


def describe(config: Config, columns: Ints, work: Work, times: Ints, cycle: int, timeout: bool) -> str:
    """One line of the cause, then one a unit and one of the queues."""
    what = "must end in time, got a timeout" if timeout else "must end, got a deadlock"
    cycle = cycle if timeout else int(times[:, T_D : T_E + 1].max())
    dispatched = int((times[:, T_D] != UNKNOWN).sum())
    lines = [f"timing: the program {what} after cycle {cycle}"]
    lines.append(
        f"  fetch: {dispatched} of {len(columns)} instructions dispatched{_full(config, columns, times, dispatched)}"
    )
    lines += [f"  {unit.name.lower()}: {_unit(columns, work, times, unit)}" for unit in Unit]
    return "\n".join([*lines, f"  queues: {_queues(config, columns, times)}"])


def _full(config: Config, columns: Ints, times: Ints, dispatched: int) -> str:
    if dispatched == len(columns):
        return ""
    unit = columns[dispatched, COL["unit"]]
    queued = (columns[:dispatched, COL["unit"]] == unit) & (times[:dispatched, T_S] == UNKNOWN)
    if queued.sum() < config.command_depth:
        return ""
    return f", the command queue of {Unit(int(unit)).name.lower()} is full at {name_of(columns, dispatched)}"


def _unit(columns: Ints, work: Work, times: Ints, unit: Unit) -> str:
    mine = np.flatnonzero(columns[:, COL["unit"]] == unit)
    open_ = mine[times[mine, T_E] == UNKNOWN]
    if len(open_) == 0:
        return f"all {len(mine)} instructions ended"
    head = int(open_[0])
    return f"{name_of(columns, head)} {_state(work, times, int(unit), head)}"


def _state(work: Work, times: Ints, unit: int, head: int) -> str:
    if times[head, T_D] == UNKNOWN:
        return "is not dispatched"
    if times[head, T_S] == UNKNOWN:
        missing = [_queue(POP_QUEUE, unit, side) for side in range(2) if _open(work, times, head, "pop", side, T_E)]
        return f"waits for a token of {' and of '.join(missing)}" if missing else "waits for the instructions before it"
    if times[head, T_C] == UNKNOWN:
        return "waits for memory"
    full = [_queue(PUSH_QUEUE, unit, side) for side in range(2) if _open(work, times, head, "room", side, T_S)]
    return f"waits for room in {' and in '.join(full)}" if full else "runs"


def _queue(queues: Ints, unit: int, side: int) -> str:
    return QUEUES[int(queues[unit, side])]


def _open(work: Work, times: Ints, head: int, what: str, side: int, event: Int) -> bool:
    """Whether the event that the head waits for has not happened; -2 is one that never does."""
    other = int(work.table[head, F[f"{what}_{('prev', 'next')[side]}"]])
    return other != -1 and (other == -2 or bool(times[other, event] == UNKNOWN))


def _queues(config: Config, columns: Ints, times: Ints) -> str:
    ended, started = times[:, T_E] != UNKNOWN, times[:, T_S] != UNKNOWN
    texts = []
    for queue, name in enumerate(QUEUES):
        tokens = _moved(columns, PUSH_QUEUE, "push", queue, ended) - _moved(columns, POP_QUEUE, "pop", queue, started)
        texts.append(f"{name} {tokens}/{config.token_depth}")
    return ", ".join(texts)


def _moved(columns: Ints, queues: Ints, what: str, queue: int, done: NDArray[np.bool_]) -> int:
    unit, side = (int(i) for i in np.argwhere(queues == queue)[0])
    bits = columns[:, COL[f"{what}_{('prev', 'next')[side]}"]] > 0
    return int((bits & done & (columns[:, COL["unit"]] == unit)).sum())
