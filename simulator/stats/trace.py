"""The times of every instruction for people: a trace for ui.perfetto.dev and a table of text.

The trace is Chrome's JSON format: a track a unit, a slice from each instruction's start to its end, an arrow for
each token, a counter for each token queue. One cycle is one microsecond of the viewer, so that its ruler reads in
cycles.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import COL, FORMATS, Opcode, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats.run_stats import RunStats
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.verify.naming import LINKS, QUEUES
from vdla.support.atomic import write_text

Ints = NDArray[np.int64]
Event = dict[str, Any]

FETCH_TRACK = len(Unit)  # its slices are dispatches
PROCESS = 1


def write_trace(path: str | os.PathLike[str], program: Program, stats: RunStats) -> None:
    """Write the trace of a run, whole or not at all."""
    text = json.dumps({"traceEvents": list(events(program, stats)), "displayTimeUnit": "ms"})
    write_text(Path(path), text)


def events(program: Program, stats: RunStats) -> Iterator[Event]:
    """The trace events of a run."""
    if len(stats.starts) != len(program):
        raise SimulationError(
            f"trace {program.name}: run must have {len(program)} instructions, got {len(stats.starts)}"
        )
    yield _meta("process_name", 0, f"{program.name} on {stats.config.name}")
    for unit in Unit:
        yield _meta("thread_name", unit, unit.name.lower())
    yield _meta("thread_name", FETCH_TRACK, "fetch")
    yield from _slices(program, stats)
    columns = program.columns
    for queue, pusher, push, popper, pop in LINKS:
        name, pushed, popped = QUEUES[queue], _moving(columns, pusher, push), _moving(columns, popper, pop)
        yield from _arrows(columns, stats, name, pushed, popped)
        yield from _occupancy(name, stats.ends[pushed], stats.starts[popped])


def _meta(what: str, track: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": int(track), "args": {"name": name}}


def _slices(program: Program, stats: RunStats) -> Iterator[Event]:
    rows = program.columns.tolist()
    times = zip(stats.starts.tolist(), stats.ends.tolist(), stats.dispatches.tolist(), strict=True)
    for k, (row, (start, end, dispatch)) in enumerate(zip(rows, times, strict=True)):
        opcode = Opcode(row[COL["opcode"]])
        fields = {f.name: row[COL[f.name]] for f in FORMATS[opcode][1:] if row[COL[f.name]]}
        source = int(program.source_of[k])
        if source >= 0:
            fields["line"] = program.source_lines[source].strip()
        name = _name(opcode, fields)
        yield _slice(row[COL["unit"]], name, start, end + 1 - start, {"index": k, **fields})
        yield _slice(FETCH_TRACK, f"dispatch {k}", dispatch, 1, {"index": k})


def _name(opcode: Opcode, fields: dict[str, Any]) -> str:
    return (
        f"LOAD {('inp', 'wgt', 'scl', 'uop', 'acc')[fields.get('buffer', 0)]}" if opcode == Opcode.LOAD else opcode.name
    )


def _slice(track: int, name: str, start: int, cycles: int, fields: dict[str, Any]) -> Event:
    return {"ph": "X", "name": name, "pid": PROCESS, "tid": track, "ts": start, "dur": cycles, "args": fields}


def _moving(columns: Ints, unit: Unit, token: str) -> Ints:
    """The instructions of a unit that have a token bit set."""
    return np.flatnonzero((columns[:, COL[token]] > 0) & (columns[:, COL["unit"]] == unit)).astype(np.int64)


def _arrows(columns: Ints, stats: RunStats, queue: str, pushed: Ints, popped: Ints) -> Iterator[Event]:
    """From the end of the instruction that gives a token to the start of the one that takes it."""
    unit = columns[:, COL["unit"]]
    for number, (a, b) in enumerate(zip(pushed.tolist(), popped.tolist(), strict=False)):
        common = {"name": queue, "cat": "token", "id": f"{queue}{number}", "pid": PROCESS}
        yield {**common, "ph": "s", "tid": int(unit[a]), "ts": int(stats.ends[a])}
        yield {**common, "ph": "f", "bp": "e", "tid": int(unit[b]), "ts": int(stats.starts[b])}


def _occupancy(queue: str, pushes: Ints, pops: Ints) -> Iterator[Event]:
    """Tokens in a queue from each cycle on in which their number changes."""
    cycles = np.concatenate([pushes + 1, pops + 1])
    change = np.concatenate([np.ones(len(pushes), np.int64), -np.ones(len(pops), np.int64)])
    when, where = np.unique(cycles, return_inverse=True)
    tokens = np.cumsum(np.bincount(where, change, minlength=len(when))).astype(np.int64)
    for cycle, count in zip(when.tolist(), tokens.tolist(), strict=True):
        yield {"ph": "C", "name": queue, "pid": PROCESS, "ts": cycle, "args": {"tokens": count}}


def table_lines(program: Program, stats: RunStats) -> Iterator[str]:
    """A line for each instruction: number, unit, opcode, dispatch, start, end, schedule line."""
    yield f"{'number':>7}  {'unit':<8}{'opcode':<8}{'dispatch':>10}{'start':>10}{'end':>10}  line"
    rows = program.columns
    for k in range(len(program)):
        unit = Unit(int(rows[k, COL["unit"]])).name.lower()
        opcode = Opcode(int(rows[k, COL["opcode"]])).name
        source = int(program.source_of[k])
        line = program.source_lines[source].strip() if source >= 0 else ""
        cycles = f"{stats.dispatches[k]:>10}{stats.starts[k]:>10}{stats.ends[k]:>10}"
        yield f"{k:>7}  {unit:<8}{opcode:<8}{cycles}  {line}".rstrip()
