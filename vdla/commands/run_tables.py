# SPDX-License-Identifier: Apache-2.0
"""Tables of runs: the figures, the cycles of every unit by cause, the roofline.

Several runs stand side by side, keyed by a label. All percentages are of the run's total cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from rich.table import Table
from rich.text import Text

from vdla.commands import CommandError
from vdla.commands.console import output, table
from vdla.hardware.isa import COL, COUNTERS, UNITS, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats, attained_gops, intensity

Runs = Mapping[str, RunStats]

# Labels of the counters; the arrow points from the unit that pushes the token to the popping one.
COUNTER_LABELS = {
    "busy": "busy",
    "memory_latency": "memory latency",
    "memory_bandwidth": "memory bandwidth",
    "wait_load_to_compute": "token load>compute",
    "wait_compute_to_load": "token compute>load",
    "wait_compute_to_store": "token compute>store",
    "wait_store_to_compute": "token store>compute",
    "commands": "no command yet",
    "idle": "finished",
}

FIGURES: Mapping[str, Callable[[RunStats], str]] = {
    "cycles": lambda stats: f"{stats.total_cycles:,}",
    "time": lambda stats: f"{stats.seconds * 1e3:,.3f} ms",
    "utilisation": lambda stats: _percent(stats.utilisation),
    "instructions": lambda stats: f"{len(stats.starts):,}",
    "bytes moved": lambda stats: f"{stats.bytes_read + stats.bytes_written:,}",
}

ROOFLINE: Mapping[str, Callable[[RunStats], str]] = {
    "operations per byte": lambda stats: f"{intensity(stats):,.1f}",
    "limited by": lambda stats: "memory" if intensity(stats) < ridge(stats) else "compute",
    "roof": lambda stats: f"{roof_gops(stats):,.1f} GOPS",
    "attained": lambda stats: f"{attained_gops(stats):,.1f} GOPS",
    "share of the roof": lambda stats: _percent(attained_gops(stats) / roof_gops(stats)) if stats.macs else "-",
}


def _percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.1f} %"


# --- the roofline ---------------------------------------------------------------------------------


def ridge(stats: RunStats) -> float:
    """The intensity above which the machine is limited by its multipliers."""
    return 2 * stats.config.macs_per_cycle / stats.config.peak_bytes_per_cycle


def roof_gops(stats: RunStats) -> float:
    """The limit of the machine at the intensity of this run."""
    return stats.config.peak_gops * min(1.0, intensity(stats) / ridge(stats))


# --- tables ---------------------------------------------------------------------------------------


def comparison(
    title: str, runs: Runs, rows: Mapping[str, Callable[[RunStats], str]], first: Mapping[str, list[str]] | None = None
) -> Table:
    """One column a run; the rows of `first`, already text, come first."""
    result = table(title, "", *runs)
    for label, cells in (first or {}).items():
        result.add_row(label, *cells)
    for label, show in rows.items():
        result.add_row(label, *(show(stats) for stats in runs.values()))
    return result


def stalls(label: str, stats: RunStats) -> Table:
    """The cycles of each unit by cause, in per cent of the run; every column sums to 100."""
    title = "cycles of each unit" + (f", {label}" if label else "")
    result = table(f"{title} (%)", "", *UNITS)
    for counter in COUNTERS:
        cells = (_share(stats.counters[unit][counter], stats.total_cycles) for unit in UNITS)
        result.add_row(COUNTER_LABELS[counter], *cells)
    return result


def _share(cycles: int, total: int) -> str:
    return f"{100 * cycles / total:.1f}" if cycles else "."


def lines(program: Program, stats: RunStats, most: int) -> Table:
    """The schedule lines at whose instructions compute waited longest, and for what.

    Needs the waits of single instructions, which not every device records.
    """
    if stats.waits is None:
        raise CommandError("--lines: the device must record the waits of instructions, got one that counts by unit")
    waits = np.array(stats.waits, copy=True)
    waits[:, COUNTERS.index("busy")] = 0
    waits[program.columns[:, COL["unit"]] != Unit.COMPUTE] = 0
    by_line = np.zeros((len(program.source_lines) + 1, len(COUNTERS)), np.int64)
    np.add.at(by_line, program.source_of, waits)  # -1, no line, is the last row
    order = np.argsort(-by_line.sum(axis=1), kind="stable")[:most]
    result = table("what compute waited for, by line of the schedule", "cycles", "mostly", "line")
    result.columns[1].justify = result.columns[2].justify = "left"
    for index in order[by_line[order].sum(axis=1) > 0].tolist():
        reason = COUNTER_LABELS[COUNTERS[int(by_line[index].argmax())]]
        result.add_row(f"{by_line[index].sum():,}", reason, _line_text(program, index))
    return result


def _line_text(program: Program, index: int) -> Text:
    """The line cut to the width that the other columns leave; rich would shrink those instead."""
    text = program.source_lines[index].strip() if index < len(program.source_lines) else "(loading micro-ops)"
    others = len("cycles") + 2 + max(map(len, COUNTER_LABELS.values())) + 6
    return Text(text if len(text) <= output().width - others else text[: output().width - others - 1] + "…")
