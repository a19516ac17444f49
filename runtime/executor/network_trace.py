"""The trace of a run of a whole network over both devices, for ui.perfetto.dev.

Chrome's JSON trace: one process for the CPU, one for the accelerator; steps follow each other as
the executor runs them. Time is real: microseconds of this machine for the CPU, of the machine's
clock for the accelerator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from vdla.runtime.artifact import Artifact, ProgramStep
from vdla.runtime.executor.executor import NetworkResult, StepRun
from vdla.simulator.stats import UNKNOWN, RunStats, RunTrace
from vdla.support.atomic import write_text

_Event = dict[str, Any]
_CPU = 2  # the process; RunTrace has 1
_STEPS = 99  # a track of the accelerator, beside those of its units


def write_network_trace(artifact: Artifact, result: NetworkResult, path: str | PathLike[str]) -> None:
    """Write the trace as JSON, atomically."""
    events = list(network_events(artifact, result))
    write_text(Path(path), json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))


def network_events(artifact: Artifact, result: NetworkResult) -> Iterator[_Event]:
    """The events of the JSON trace."""
    yield {"ph": "M", "name": "process_name", "pid": _CPU, "tid": 0, "args": {"name": f"cpu ({artifact.cpu.name})"}}
    yield {"ph": "M", "name": "thread_name", "pid": _CPU, "tid": 0, "args": {"name": "steps"}}
    yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": _STEPS, "args": {"name": "programs"}}
    now, named = 0.0, False
    for number, run in enumerate(result.steps):
        if run.statistics is None:
            duration = 1e6 * run.seconds
            yield _slice(run, _CPU, 0, now, duration)
        else:
            duration = 1e6 * run.statistics.seconds
            yield _slice(run, 1, _STEPS, now, duration)
            yield from _program_events(artifact, run, number, now, named)
            named = True
        now += duration


def _slice(run: StepRun, process: int, track: int, start: float, duration: float) -> _Event:
    operators = [f"{operator.op} {operator.name}" for operator in run.step.placement.operators]
    fields = {"operators": operators, "bytes": run.step.placement.nbytes}
    return {
        "ph": "X",
        "name": run.step.name,
        "pid": process,
        "tid": track,
        "ts": start,
        "dur": duration,
        "args": fields,
    }


def _program_events(artifact: Artifact, run: StepRun, number: int, start: float, named: bool) -> Iterator[_Event]:
    """The events of a program in real time; none if the device recorded no times."""
    assert isinstance(run.step, ProgramStep) and run.statistics is not None
    if _unknown(run.statistics):
        return
    scale = 1 / run.statistics.config.clock_mhz
    for event in RunTrace(artifact.programs[run.step.program], run.statistics).events():
        if event["ph"] == "M":
            if not named:
                yield event | (
                    {"args": {"name": run.statistics.config.name}} if event["name"] == "process_name" else {}
                )
            continue
        moved = {"ts": start + event["ts"] * scale}
        if "dur" in event:
            moved["dur"] = event["dur"] * scale
        if "id" in event:
            moved["id"] = f"{number}.{event['id']}"
        yield event | moved


def _unknown(stats: RunStats) -> bool:
    return bool((stats.starts == UNKNOWN).any())
