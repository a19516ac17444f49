"""The error text of a run that does not end: the cause and the state of the machine."""

from __future__ import annotations

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, QUEUES, Unit
from vdla.simulator.stats import MachineState
from vdla.simulator.timing.layout import T_C, T_D, T_E, T_S, UNKNOWN
from vdla.support.arrays import Bools, Ints


def hang_text(config: Config, columns: Ints, times: Ints, cycle: int, *, timeout: bool) -> str:
    """The cause on one line, then the state of the machine."""
    what = "has not ended" if timeout else "is deadlocked"
    cycle = cycle if timeout else int(times[:, T_D : T_E + 1].max())
    state = _machine_state(columns, times != UNKNOWN)
    return f"timing: the program {what} after cycle {cycle}\n{state.describe(config, columns)}"


def _machine_state(columns: Ints, happened: Bools) -> MachineState:
    started, ended, executed = (_by_unit(columns, happened[:, event]) for event in (T_S, T_E, T_C))
    pushes = [_count(columns, happened[:, T_E], queue.producer, queue.push) for queue in QUEUES]
    pops = [_count(columns, happened[:, T_S], queue.consumer, queue.pop) for queue in QUEUES]
    tokens = tuple(pushed - popped for pushed, popped in zip(pushes, pops, strict=True))
    return MachineState(int(happened[:, T_D].sum()), started, ended, tokens, executed)


def _by_unit(columns: Ints, chosen: Bools) -> tuple[int, ...]:
    """The number of chosen instructions of each unit."""
    return tuple(int((chosen & (columns[:, COL["unit"]] == unit)).sum()) for unit in Unit)


def _count(columns: Ints, chosen: Bools, unit: Unit, token: str) -> int:
    """The number of chosen instructions of a unit that have a token bit set."""
    return int((chosen & (columns[:, COL["unit"]] == unit) & (columns[:, COL[token]] > 0)).sum())
