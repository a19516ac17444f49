# SPDX-License-Identifier: Apache-2.0
"""`view`: a run, or two side by side, as a page that steps through it.

vdla.view(program).save("view.html")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path

from vdla.hardware.program import Program
from vdla.runtime.diagnosis.comparison import Comparison
from vdla.runtime.diagnosis.network_comparison import NetworkComparison
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import ProgramStep
from vdla.simulator.stats import Result
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_program
from vdla.simulator.verify import require_verified
from vdla.support.atomic import write_text
from vdla.viewer.page import viewer_page
from vdla.viewer.recording import Recording, ViewedProgram, recording

Viewable = Program | Result | Artifact | Model | Comparison
_FRAME = '<iframe srcdoc="{page}" style="width: 100%; height: 780px; border: 0"></iframe>'


@dataclass(frozen=True, slots=True, eq=False)
class RunView:
    """The recordings that a page shows; a notebook shows the page."""

    recordings: tuple[Recording, ...]

    def __repr__(self) -> str:
        return f"<RunView of {' and '.join(one.title for one in self.recordings)}>"

    def page(self) -> str:
        """The page as HTML, which refers to nothing outside."""
        return viewer_page(self.recordings)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, whole or not at all."""
        write_text(Path(path), self.page())

    def _repr_html_(self) -> str:
        return _FRAME.format(page=escape(self.page()))


def view(run: Viewable, other: Viewable | None = None) -> RunView:
    """The page of a run: its instructions, tokens, waits and buffers in every cycle.

    A program or a network is timed on the simulator; a result is the run that it comes from, on any
    device that records the times of instructions. With `other`, the page has both runs; that of a
    comparison has the runs on its devices.

    Raises:
        VerifyError: an unsafe program.
        SimulationError: anything else, a run without times, or a network without programs.
    """
    if isinstance(run, Comparison) and other is None:
        return RunView(tuple(compared(run)))
    runs = (run,) if other is None else (run, other)
    return RunView(tuple(map(_recording, runs)))


def _recording(run: Viewable) -> Recording:
    match run:
        case Program():
            return recording(run.name, [simulated(run)])
        case Result():
            return recording(run.program.name, [ViewedProgram(run.program, run.statistics)])
        case Artifact():
            return recording(run.plan.name, network_parts(run))
        case Model():
            return recording(run.name, network_parts(run.artifact))
    raise SimulationError(f"view: run must be a Program, a Result, a Comparison or a compiled network, got {run!r}")


def compared(comparison: Comparison) -> Iterator[Recording]:
    """The runs of a program on two devices; SimulationError for one that did not end."""
    program = comparison.program
    for run in comparison.runs:
        if run.statistics is None:
            raise SimulationError(
                f"view {program.name}: both runs must end, got an error on {run.device}: {run.failure}"
            )
        yield recording(f"{program.name} on {run.device}", [ViewedProgram(program, run.statistics)])


def compared_network(artifact: Artifact, comparison: NetworkComparison) -> RunView:
    """The page of all programs of a network on two devices, which both ran them all."""
    recordings = []
    for device, runs in zip(comparison.devices, comparison.runs, strict=True):
        parts = [
            ViewedProgram(artifact.programs[run.step.program], run.statistics, _operators(run.step))
            for run in runs
            if isinstance(run.step, ProgramStep) and run.statistics is not None
        ]
        recordings.append(recording(f"{comparison.name} on {device}", parts))
    return RunView(tuple(recordings))


def simulated(program: Program, operators: tuple[tuple[str, int], ...] = ()) -> ViewedProgram:
    """A program with its run on the simulator."""
    require_verified(program)
    return ViewedProgram(program, time_program(program), operators)


def network_parts(artifact: Artifact) -> Sequence[ViewedProgram]:
    """The programs of a network in the order of its steps, with their runs on the simulator."""
    programs = network_programs(artifact)
    return [simulated(program, operators) for program, operators in programs]


def network_programs(artifact: Artifact) -> list[tuple[Program, tuple[tuple[str, int], ...]]]:
    """The programs of a network in the order of its steps; the operators of each, with the number
    of their lines.

    SimulationError for a network without programs.
    """
    steps = [step for step in artifact.plan.steps if isinstance(step, ProgramStep)]
    if not steps:
        name = artifact.plan.name
        raise SimulationError(f"view {name}: the network must have programs for the accelerator, got none")
    return [(artifact.programs[step.program], _operators(step)) for step in steps]


def _operators(step: ProgramStep) -> tuple[tuple[str, int], ...]:
    names = [operator.name for operator in step.placement.operators]
    return tuple(zip(names, step.lines, strict=True))
