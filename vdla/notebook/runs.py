# SPDX-License-Identifier: Apache-2.0
"""Runs of programs: the figures, where the cycles went, the timeline, the roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from vdla.charts.elements import html_legend, html_text
from vdla.charts.fragment import html_facts, html_folded, html_fragment, html_listing
from vdla.commands.run_page import cycle_shares, runs_roofline, timeline, timeline_legend
from vdla.commands.run_tables import COUNTER_LABELS, FIGURES, ROOFLINE
from vdla.hardware.program import Program
from vdla.simulator.stats import UNKNOWN, Result, RunStats, RunTrace
from vdla.support.arrays import Array

MOST_INSTRUCTIONS = 300  # in a timeline


def result_html(result: Result) -> str:
    """The outputs and all that was measured."""
    parts = [_outputs(result.outputs)] if result.outputs else []
    if not result.timed:
        return html_fragment(f"result of {result.program.name}, not timed", parts)
    stats = result.statistics
    parts += _shares(stats)
    if len(stats.starts) and (stats.starts != UNKNOWN).all():
        parts += _timeline(result.program, stats)
    parts += _roofline(stats)
    return html_fragment(f"result of {result.program.name} on {stats.config.name}", parts)


def _outputs(outputs: Mapping[str, Array]) -> str:
    rows = [(name, str(array.dtype), str(list(array.shape))) for name, array in outputs.items()]
    return html_listing(("output", "elements", "shape"), rows)


def statistics_html(stats: RunStats) -> str:
    """The figures of a run, the cycles of every unit, the roofline."""
    return html_fragment(f"run of {stats.program} on {stats.config.name}", [*_shares(stats), *_roofline(stats)])


def _shares(stats: RunStats) -> Iterator[str]:
    """The figures, and where the cycles of each unit went."""
    yield html_facts((label, show(stats)) for label, show in FIGURES.items())
    if stats.total_cycles:
        yield html_text("p", "where the cycles of each unit went")
        yield html_legend({name: label for name, label in COUNTER_LABELS.items() if _occurs(stats, name)})
        yield cycle_shares(stats)


def _roofline(stats: RunStats) -> Iterator[str]:
    if stats.macs and stats.total_cycles:
        figures = html_facts((label, show(stats)) for label, show in ROOFLINE.items())
        yield html_folded("roofline", figures, runs_roofline({stats.program: stats}))


def _occurs(stats: RunStats, counter: str) -> bool:
    return any(counters[counter] for counters in stats.counters.values())


def trace_html(trace: RunTrace) -> str:
    """The timeline."""
    return html_fragment(f"trace of {trace.program.name}", _timeline(trace.program, trace.statistics))


def _timeline(program: Program, stats: RunStats) -> Iterator[str]:
    """The instructions of each unit, of a long run those in its middle."""
    begin, end = _window(stats)
    whole = (begin, end) == (0, stats.total_cycles)
    part = "all" if whole else f"{begin:,} to {end:,} of"
    yield html_text("p", f"instructions of each unit over {part} {stats.total_cycles:,} cycles")
    yield timeline_legend([program])
    yield timeline(program, stats, begin, end)


def _window(stats: RunStats) -> tuple[int, int]:
    """The cycles to show."""
    count = len(stats.starts)
    if count <= MOST_INSTRUCTIONS:
        return 0, stats.total_cycles
    first = (count - MOST_INSTRUCTIONS) // 2
    order = np.sort(stats.starts)
    return int(order[first]), int(order[first + MOST_INSTRUCTIONS])
