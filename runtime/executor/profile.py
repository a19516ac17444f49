# SPDX-License-Identifier: Apache-2.0
"""A profile of a network: what every operator took, of one run or of several; the trace of a run.

The trace is Chrome's JSON, for ui.perfetto.dev: one process for the CPU, one for the accelerator;
steps follow each other as the executor runs them. Time is real: microseconds of this machine for
the CPU, of the machine's clock for the accelerator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from statistics import median
from typing import Any

from vdla.hardware.config import Config
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.executor import NetworkResult, StepRun
from vdla.runtime.executor.operator_cycles import OperatorCycles, operator_cycles
from vdla.runtime.executor.plan import Placement, Plan, ProgramStep
from vdla.simulator.stats import UNKNOWN, RunStats, RunTrace
from vdla.support.atomic import write_text
from vdla.support.html_repr import shown_by

ACCELERATOR = "vdla"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProfile:
    """What an operator took; `cycles` and `utilisation` on the accelerator only.

    `macs` are those of its definition. `utilisation`, from 0 to 1, is the share of its cycles in
    which the matrix unit multiplies: programs leave out products with padding, and compute blocks
    of channels whole. `step` is the index of its step; `stalls` has the cycles in which the compute
    unit waited, by counter. `nbytes` are those that its step reads and writes; on the accelerator
    those that the channels read and write in its cycles, which `bytes_read` and `bytes_written`
    have apart.
    """

    op: str
    name: str
    device: str
    step: int
    seconds: float
    macs: int
    cycles: int | None = None
    utilisation: float | None = None
    nbytes: int = 0
    bytes_read: int | None = None
    bytes_written: int | None = None
    stalls: Mapping[str, int] = field(default_factory=dict)

    def executed_operations(self, config: Config) -> float:
        """Multiplications and additions of the matrix unit; 0 on the CPU."""
        return 2 * (self.utilisation or 0.0) * (self.cycles or 0) * config.macs_per_cycle

    def operations_a_byte(self, config: Config) -> float:
        """Those for each byte of the busier direction: reads and writes have a channel each."""
        return self.executed_operations(config) / max(1, self.bytes_read or 0, self.bytes_written or 0)

    @property
    def main_stall(self) -> str | None:
        """The counter under which the compute unit waited longest; None where it never did."""
        return max(self.stalls, key=self.stalls.__getitem__) if self.stalls else None


@dataclass(frozen=True, slots=True)
class NetworkProfile:
    """The operators in order; `images` is the number of images in one run."""

    model: str
    config: Config | None
    cpu: str
    images: int
    operators: tuple[OperatorProfile, ...]

    _repr_html_ = shown_by("networks", "profile_html")

    def __repr__(self) -> str:
        return f"<NetworkProfile of {self.model}: {len(self.operators)} operators; {self.cycles:,} cycles>"

    @property
    def cycles(self) -> int:
        """The cycles of all programs."""
        return sum(operator.cycles or 0 for operator in self.operators)

    @property
    def accelerator_seconds(self) -> float:
        """The time of all programs, at the machine's clock."""
        return sum(operator.seconds for operator in self.operators if operator.device == ACCELERATOR)

    @property
    def cpu_seconds(self) -> float:
        """The time of all other steps, on the machine that measured."""
        return sum(operator.seconds for operator in self.operators if operator.device != ACCELERATOR)

    @property
    def seconds(self) -> float:
        """The time of a run, whose steps follow each other."""
        return self.accelerator_seconds + self.cpu_seconds

    @property
    def frames_per_second(self) -> float:
        """Images a second."""
        return self.images / self.seconds if self.seconds else 0.0

    @property
    def utilisation(self) -> float | None:
        """That of all programs together; None without one."""
        if not self.cycles:
            return None
        return sum((operator.utilisation or 0.0) * (operator.cycles or 0) for operator in self.operators) / self.cycles

    def to_dict(self) -> dict[str, Any]:
        """All figures as JSON-compatible values."""
        return {
            "model": self.model,
            "machine": self.config.name if self.config else None,
            "config_fingerprint": self.config.fingerprint if self.config else None,
            "cpu": self.cpu,
            "images": self.images,
            "cycles": self.cycles,
            "utilisation": self.utilisation,
            "accelerator_seconds": self.accelerator_seconds,
            "cpu_seconds": self.cpu_seconds,
            "seconds": self.seconds,
            "frames_per_second": self.frames_per_second,
            "operators": [self._operator(operator) for operator in self.operators],
        }

    def _operator(self, profile: OperatorProfile) -> dict[str, Any]:
        return {
            "operator": profile.op,
            "name": profile.name,
            "device": profile.device,
            "seconds": profile.seconds,
            "share": profile.seconds / self.seconds if self.seconds else 0.0,
            "macs": profile.macs,
            "cycles": profile.cycles,
            "utilisation": profile.utilisation,
            "bytes": profile.nbytes,
            "bytes_read": profile.bytes_read,
            "bytes_written": profile.bytes_written,
            "stalls": dict(profile.stalls),
        }


def profile_of(artifact: Artifact, results: Sequence[NetworkResult]) -> NetworkProfile:
    """The profile of runs of one plan of a network; there must be at least one."""
    operators: list[OperatorProfile] = []
    plan = results[0].plan
    for index in range(len(plan.steps)):
        operators += _of_step(artifact, index, [result.steps[index] for result in results])
    return NetworkProfile(plan.name, artifact.config, artifact.cpu.name, _images(plan), tuple(operators))


def _images(plan: Plan) -> int:
    """The first extent of the first input with several dimensions; 1 where it is unknown."""
    shape = plan.values[plan.inputs[0]].shape if plan.inputs else None
    return shape[0] if shape is not None and len(shape) > 1 and shape[0] else 1


def _of_step(artifact: Artifact, index: int, runs: Sequence[StepRun]) -> Iterator[OperatorProfile]:
    step, stats = runs[0].step, runs[0].statistics
    placement = step.placement
    if not isinstance(step, ProgramStep) or stats is None:
        yield _whole(placement, index, median(run.seconds for run in runs))
        return
    program = artifact.programs[step.program]
    line_cycles = operator_cycles(program, stats, step.lines)
    if line_cycles is None:
        row = _whole(placement, index, stats.seconds)
        whole = OperatorCycles(stats.total_cycles, stats.macs, stats.bytes_read, stats.bytes_written, {})
        yield _on_accelerator(row, whole, program.config)
        return
    for operator, cycles in zip(placement.operators, line_cycles, strict=True):
        row = OperatorProfile(
            op=operator.op, name=operator.name, device=ACCELERATOR, step=index, seconds=0.0, macs=operator.macs
        )
        yield _on_accelerator(row, cycles, program.config)


def _whole(placement: Placement, index: int, seconds: float) -> OperatorProfile:
    """One row for all operators of a step."""
    return OperatorProfile(
        op="+".join(operator.op for operator in placement.operators),
        name=placement.operators[-1].name if placement.operators else "",
        device=placement.device,
        step=index,
        seconds=seconds,
        macs=placement.macs,
        nbytes=placement.nbytes,
    )


def _on_accelerator(row: OperatorProfile, cycles: OperatorCycles, config: Config) -> OperatorProfile:
    possible = config.macs_per_cycle * cycles.cycles
    return OperatorProfile(
        op=row.op,
        name=row.name,
        device=ACCELERATOR,
        step=row.step,
        seconds=cycles.cycles / (config.clock_mhz * 1e6),
        macs=row.macs,
        cycles=cycles.cycles,
        utilisation=cycles.macs / possible if possible else 0.0,
        nbytes=cycles.bytes_read + cycles.bytes_written,
        bytes_read=cycles.bytes_read,
        bytes_written=cycles.bytes_written,
        stalls=cycles.stalls,
    )


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
