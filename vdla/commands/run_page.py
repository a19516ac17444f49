# SPDX-License-Identifier: Apache-2.0
"""A page of HTML about runs of one layer: figures, roofline, timelines, shares of cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from vdla.charts.blocks import ChartBlock, Row, RowChart
from vdla.charts.elements import LEFT, RIGHT, html_legend, html_note, html_page, html_table, html_text
from vdla.charts.plots import Roof, roofline
from vdla.commands.run_tables import COUNTER_LABELS, FIGURES, ROOFLINE, Runs
from vdla.hardware.isa import COL, EXTENSION, Buffer, Opcode, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats, attained_gops, intensity

_DETAIL = 0.06  # the share of the longest run that the second timeline shows, from its middle on
_MERGE_BELOW = 0.6  # of the picture; of shorter slices of one kind, no gap between them can be seen

Figures = Sequence[tuple[str, Sequence[str]]]


def run_page(title: str, notes: Sequence[str], first: Figures, runs: Mapping[str, tuple[Program, RunStats]]) -> str:
    """The page; the rows of `first` head the table of figures, each with one cell a run."""
    stats = {label: run for label, (_, run) in runs.items()}
    longest = max(run.total_cycles for run in stats.values())
    begin = longest // 2
    shown = {**FIGURES, **ROOFLINE}.items()
    figures = [*first, *((label, [show(run) for run in stats.values()]) for label, show in shown)]
    parts = [
        html_text("p", *notes),
        html_table(["", *stats], [[label, *cells] for label, cells in figures]),
        html_text("h2", "Roofline"),
        html_note("Attained speed below the limit that the machine has at each ratio of operations to bytes moved."),
        runs_roofline(stats),
        html_text("h2", "Timeline"),
        html_note("The instructions of each unit over time; hover over one for its cycles."),
        timeline_legend(program for program, _ in runs.values()),
        *_timelines(runs, 0, longest),
        html_text("h2", "Timeline in detail"),
        *_timelines(runs, begin, begin + max(1, round(longest * _DETAIL))),
        html_text("h2", "Where the cycles went"),
        html_legend(COUNTER_LABELS),
        *(part for label, run in stats.items() for part in (html_text("h3", label), cycle_shares(run))),
    ]
    return html_page(title, parts)


# --- the roofline ---------------------------------------------------------------------------------


def runs_roofline(runs: Runs) -> str:
    """Runs on one machine below its roof."""
    points, config = [], next(iter(runs.values())).config
    roof = Roof.of(config, config.macs_per_cycle)
    for number, (label, stats) in enumerate(runs.items()):
        at, speed = intensity(stats), attained_gops(stats)
        name = f"{label}: {speed:,.1f} GOPS"
        points.append(replace(roof.point(label, at, speed, f"run{number}", name), radius=6, name_class=""))
    return roofline([roof], points)


# --- the timeline ---------------------------------------------------------------------------------

_KINDS = ("LOAD inp", "LOAD wgt", "LOAD other", "GEMM", "VECTOR", "extension", "STORE", "SYNC")
"""The kinds of instructions, in the order of the legend; each is a CSS class without its space."""


def _timelines(runs: Mapping[str, tuple[Program, RunStats]], begin: int, end: int) -> Iterator[str]:
    """One timeline a run, all over the same cycles."""
    for label, (program, stats) in runs.items():
        yield html_text("h3", label)
        yield timeline(program, stats, begin, end)


def timeline(program: Program, stats: RunStats, begin: int, end: int) -> str:
    """The instructions of every unit in the cycles `begin` to `end`, a row a unit."""
    chart = RowChart(title="timeline", low=begin, high=max(begin + 1, end), unit="cycles")
    least = _MERGE_BELOW * (chart.high - begin) / (RIGHT - LEFT)
    numbers = {unit: (program.columns[:, COL["unit"]] == unit).nonzero()[0].tolist() for unit in Unit}
    blocks = {unit: instruction_blocks(program, stats, numbers[unit], begin, end, least) for unit in Unit}
    return chart.draw([Row(unit.label, [lane]) for unit, lane in blocks.items()])


def instruction_blocks(
    program: Program, stats: RunStats, numbers: Iterable[int], begin: int, end: int, least: float
) -> list[ChartBlock]:
    """Instructions of one unit between two cycles; those shorter than `least` are merged."""
    return _merged(_slices(program, stats, numbers, begin, end), least)


def _slices(program: Program, stats: RunStats, numbers: Iterable[int], begin: int, end: int) -> Iterator[ChartBlock]:
    for number in numbers:
        if stats.ends[number] < begin or stats.starts[number] >= end:
            continue
        first, last, kind = (
            int(stats.starts[number]),
            int(stats.ends[number]),
            instruction_kind(program.columns[number]),
        )
        tip = f"{kind}, instruction {number}: cycles {first:,} to {last:,}"
        yield ChartBlock(max(first, begin), min(last + 1, end), _class(kind), tip)


def instruction_kind(row: Sequence[int]) -> str:
    """What an instruction is called in the legend."""
    opcode = int(row[COL["opcode"]])
    if opcode == EXTENSION:
        return "extension"
    if opcode != Opcode.LOAD:
        return Opcode(opcode).name
    buffer = Buffer(int(row[COL["buffer"]]))
    return f"LOAD {buffer.name.lower()}" if buffer in (Buffer.INP, Buffer.WGT) else "LOAD other"


def _class(kind: str) -> str:
    return kind.replace(" ", "").lower()


def _merged(blocks: Iterable[ChartBlock], least: float) -> list[ChartBlock]:
    """The blocks, where short ones of one kind that follow each other without a gap are one."""
    groups: list[list[ChartBlock]] = []
    for block in blocks:
        last = groups[-1][-1] if groups else None
        if last and last.class_ == block.class_ and max(block.start - last.end, block.end - block.start) < least:
            groups[-1].append(block)
        else:
            groups.append([block])
    return [group[0] if len(group) == 1 else _whole(group) for group in groups]


def _whole(group: Sequence[ChartBlock]) -> ChartBlock:
    first, last = group[0], group[-1]
    kind = first.tip.partition(",")[0]
    tip = f"{kind}, {len(group)} instructions: cycles {first.start:,} to {last.end - 1:,}"
    return ChartBlock(first.start, last.end, first.class_, tip)


def timeline_legend(programs: Iterable[Program]) -> str:
    """The kinds of the programs' instructions."""
    used = {instruction_kind(row) for program in programs for row in program.columns}
    return html_legend({_class(kind): kind for kind in _KINDS if kind in used})


# --- the shares of cycles -------------------------------------------------------------------------


def cycle_shares(stats: RunStats) -> str:
    """What the cycles of every unit went to, a bar a unit."""
    total = max(1, stats.total_cycles)
    chart = RowChart(title="shares of cycles", high=total)
    return chart.draw([Row(unit, [list(_shares(unit, cycles, total))]) for unit, cycles in stats.counters.items()])


def _shares(unit: str, counters: Mapping[str, int], total: int) -> Iterator[ChartBlock]:
    for (counter, cycles), end in zip(counters.items(), accumulate(counters.values()), strict=True):
        if cycles:
            tip = f"{unit}, {COUNTER_LABELS[counter]}: {100 * cycles / total:.1f} %"
            yield ChartBlock(end - cycles, end, counter, tip)
