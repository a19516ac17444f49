# SPDX-License-Identifier: Apache-2.0
"""The trace of a run: the times of every instruction, for ui.perfetto.dev, for Konata, as a table.

For Perfetto, the format is Chrome's JSON trace: a track per unit, a slice from each instruction's
start to its end, an arrow per token, a counter per token queue. One cycle is one microsecond, so
the viewer's ruler reads in cycles.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vdla.hardware.isa import COL, QUEUES, Format, Opcode, Unit, isa_of
from vdla.hardware.program import Program
from vdla.simulator.stats.konata import konata_lines
from vdla.simulator.stats.run_stats import RunStats
from vdla.simulator.stats.times import UNKNOWN
from vdla.simulator.stats.tokens import queue_ends
from vdla.simulator.support.errors import SimulationError
from vdla.support.arrays import Ints
from vdla.support.atomic import write_text
from vdla.support.html_repr import shown_by

_Event = dict[str, Any]

_FETCH_TRACK = len(Unit)  # its slices are dispatches
_PROCESS = 1


@dataclass(frozen=True, slots=True, eq=False)
class RunTrace:
    """The trace of one run; SimulationError unless the times of all instructions are known."""

    program: Program
    statistics: RunStats

    def __post_init__(self) -> None:
        where, count, starts = f"trace {self.program.name}", len(self.program), self.statistics.starts
        if len(starts) != count:
            raise SimulationError(f"{where}: run must have {count} instructions, got {len(starts)}")
        if (starts == UNKNOWN).any():
            raise SimulationError(f"{where}: the device must record the time of each instruction, got totals only")

    def __repr__(self) -> str:
        return f"<RunTrace {self.program.name}: {len(self.program)} instructions>"

    _repr_html_ = shown_by("runs", "trace_html")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON, atomically."""
        write_text(Path(path), json.dumps({"traceEvents": list(self.events()), "displayTimeUnit": "ms"}))

    def events(self) -> Iterator[_Event]:
        """The events of the JSON trace."""
        program, stats = self.program, self.statistics
        yield _meta("process_name", 0, f"{program.name} on {stats.config.name}")
        for unit in Unit:
            yield _meta("thread_name", unit, unit.label)
        yield _meta("thread_name", _FETCH_TRACK, "fetch")
        yield from _slices(program, stats)
        columns = program.columns
        for queue in QUEUES:
            pushes, pops = queue_ends(columns, queue)
            yield from _arrows(columns, stats, queue.name, pushes, pops)
            yield from _occupancy(queue.name, stats.ends[pushes], stats.starts[pops])

    def write_konata(self, path: str | os.PathLike[str]) -> None:
        """Write a log for Konata, the viewer of pipelines, atomically."""
        write_text(Path(path), "".join(f"{line}\n" for line in konata_lines(self.program, self.statistics)))

    def table(self) -> str:
        """A line per instruction: number, unit, opcode, dispatch, start, end, schedule line."""
        return "".join(f"{line}\n" for line in _table_lines(self.program, self.statistics))


def _meta(what: str, track: int, name: str) -> _Event:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": int(track), "args": {"name": name}}


def _slices(program: Program, stats: RunStats) -> Iterator[_Event]:
    rows, isa = program.columns.tolist(), isa_of(program.config)
    times = zip(stats.starts.tolist(), stats.ends.tolist(), stats.dispatches.tolist(), strict=True)
    for k, (row, (start, end, dispatch)) in enumerate(zip(rows, times, strict=True)):
        encoding = isa.format_at(row)
        named = zip(encoding.values, encoding.value_columns, strict=True)
        fields: dict[str, Any] = {slot.field.name: row[column] for slot, column in named if row[column]}
        source = int(program.source_of[k])
        if source >= 0:
            fields["line"] = program.source_lines[source].strip()
        name = _name(encoding, fields)
        yield _slice(row[COL["unit"]], name, start, end + 1 - start, {"index": k, **fields})
        yield _slice(_FETCH_TRACK, f"dispatch {k}", dispatch, 1, {"index": k})


def _name(encoding: Format, fields: dict[str, Any]) -> str:
    if encoding.code != Opcode.LOAD:
        return encoding.name
    return f"LOAD {('inp', 'wgt', 'scl', 'uop', 'acc')[fields.get('buffer', 0)]}"


def _slice(track: int, name: str, start: int, cycles: int, fields: dict[str, Any]) -> _Event:
    return {"ph": "X", "name": name, "pid": _PROCESS, "tid": track, "ts": start, "dur": cycles, "args": fields}


def _arrows(columns: Ints, stats: RunStats, queue: str, pushes: Ints, pops: Ints) -> Iterator[_Event]:
    """From the end of the instruction that pushes a token to the start of the one that pops it."""
    unit = columns[:, COL["unit"]]
    for number, (a, b) in enumerate(zip(pushes.tolist(), pops.tolist(), strict=False)):
        common = {"name": queue, "cat": "token", "id": f"{queue}{number}", "pid": _PROCESS}
        yield {**common, "ph": "s", "tid": int(unit[a]), "ts": int(stats.ends[a])}
        yield {**common, "ph": "f", "bp": "e", "tid": int(unit[b]), "ts": int(stats.starts[b])}


def _occupancy(queue: str, pushes: Ints, pops: Ints) -> Iterator[_Event]:
    """The number of tokens in a queue, in each cycle in which it changes."""
    cycles = np.concatenate([pushes + 1, pops + 1])
    change = np.concatenate([np.ones(len(pushes), np.int64), -np.ones(len(pops), np.int64)])
    when, where = np.unique(cycles, return_inverse=True)
    tokens = np.cumsum(np.bincount(where, change, minlength=len(when))).astype(np.int64)
    for cycle, count in zip(when.tolist(), tokens.tolist(), strict=True):
        yield {"ph": "C", "name": queue, "pid": _PROCESS, "ts": cycle, "args": {"tokens": count}}


def _table_lines(program: Program, stats: RunStats) -> Iterator[str]:
    yield f"{'number':>7}  {'unit':<8}{'opcode':<8}{'dispatch':>10}{'start':>10}{'end':>10}  line"
    rows = program.columns
    for k in range(len(program)):
        unit = Unit(int(rows[k, COL["unit"]])).label
        opcode = isa_of(program.config).format_at(rows[k]).name
        source = int(program.source_of[k])
        line = program.source_lines[source].strip() if source >= 0 else ""
        cycles = f"{stats.dispatches[k]:>10}{stats.starts[k]:>10}{stats.ends[k]:>10}"
        yield f"{k:>7}  {unit:<8}{opcode:<8}{cycles}  {line}".rstrip()
