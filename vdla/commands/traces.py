"""The trace of a run as a file, in the two forms that the simulator knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vdla.simulator.stats import trace
from vdla.support.atomic import write_text, write_with

if TYPE_CHECKING:
    from vdla.hardware.program import Program
    from vdla.simulator.stats import RunStats


def write_trace(path: Path, program: Program, stats: RunStats) -> None:
    """Chrome trace events, which ui.perfetto.dev opens: a row a unit, a slice an instruction, an arrow a token."""
    write_with(path, lambda temporary: trace.write_trace(temporary, program, stats))


def write_table(path: Path, program: Program, stats: RunStats) -> None:
    """Dispatch, start and end of every instruction as text."""
    write_text(path, "\n".join(trace.table_lines(program, stats)) + "\n")
