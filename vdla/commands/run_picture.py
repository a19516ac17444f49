# SPDX-License-Identifier: Apache-2.0
"""A run as a picture: the schedule's loops and intrinsics, and when the instructions of each
execute.

Every intrinsic of the schedule has a row, with the instructions that it became over the cycles of
the run. Lines between rows are tokens, from the end of the instruction that pushes one to the start
of the instruction that pops it. Below are the same instructions by unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vdla.charts.blocks import THINNEST, ChartBlock
from vdla.charts.elements import RIGHT, TITLE, chart_line, chart_mark, chart_svg, chart_text, element
from vdla.charts.plot import AXIS, Scale, x_axis
from vdla.commands.run_page import instruction_blocks
from vdla.hardware.isa import COL, QUEUES, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats
from vdla.simulator.stats.tokens import queue_ends

_TOP = TITLE + 14.0
_PITCH = 17.0  # of rows
_BAR = 12.0  # height of an instruction
_LEFT = 268.0  # of the plot; the schedule stands to its left
_INDENT = 9.0
_CHARACTERS = 38  # of a line of the schedule
_TICKS = 8
_MOST_TOKENS = 120  # with lines; more would hide the instructions

_LOOP = re.compile(r"( *)(for \w+ in (\w+)\((\d+)\)).*")
_INTRINSIC = re.compile(r"( *)block (\w+)\(.*intrinsic=(\w+)")


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """A loop, or an intrinsic, whose instructions name the line `source` of the program."""

    text: str
    depth: int
    source: int | None = None


def run_picture(program: Program, stats: RunStats) -> str:
    """The picture as SVG text."""
    lines = schedule_lines(program)
    rows = {line.source: number for number, line in enumerate(lines) if line.source is not None}
    units = len(lines) + 0.5
    bottom = _TOP + _PITCH * (units + len(Unit))
    scale = Scale(0, max(1, stats.total_cycles), _LEFT, RIGHT)
    parts = [x_axis(scale, scale.ticks(_TICKS, least=1), (_TOP, bottom), "cycles")]
    for number, line in enumerate(lines):
        parts.append(_label(number, line.text, line.depth, "small" if line.source is None else "small strong"))
        if line.source is not None:
            parts += _row(scale, number, np.flatnonzero(program.source_of == line.source).tolist(), program, stats)
    for unit in Unit:
        of_unit = np.flatnonzero(program.columns[:, COL["unit"]] == unit).tolist()
        parts.append(_label(units + unit, f"{unit.label} unit", 0, "small strong"))
        parts += _row(scale, units + unit, of_unit, program, stats)
    parts += _tokens(scale, rows, program, stats)
    return chart_svg(bottom + AXIS, parts, _title(program, stats), alone=True)


def _title(program: Program, stats: RunStats) -> str:
    figures = f"{stats.total_cycles:,} cycles, {len(program):,} instructions, utilisation {stats.utilisation:.1%}"
    return f"{program.name} on {program.config.name}: {figures}"


# --- the schedule ---------------------------------------------------------------------------------


def schedule_lines(program: Program) -> list[ScheduleLine]:
    """The intrinsics and the loops around them; loops of one iteration are left out.

    The first line has the instructions of no line, which load micro-ops.
    """
    lines = [ScheduleLine("micro-ops", 0, -1)] if (program.source_of < 0).any() else []
    open_loops: list[tuple[int, str]] = []  # indentation and text of the loops around the next line
    shown = 0  # those of them that are in the result
    used = set(program.source_of.tolist())
    for number, line in enumerate(program.source_lines):
        indent = len(line) - len(line.lstrip())
        open_loops = [loop for loop in open_loops if loop[0] < indent]
        shown = min(shown, len(open_loops))
        if (loop := _LOOP.fullmatch(line)) and loop[4] != "1" and "tensorize=" not in line:
            open_loops.append((indent, loop[2]))
        elif "tensorize=" in line:
            open_loops.append((indent, ""))
        elif (block := _INTRINSIC.match(line)) and number in used:
            outside = _outside([text for _, text in open_loops])
            lines += [ScheduleLine(text, depth) for depth, text in enumerate(outside) if depth >= shown]
            shown = len(outside)
            lines.append(ScheduleLine(f"{block[2]}: {block[3]}", shown, number))
    return lines


def _outside(loops: Sequence[str]) -> Sequence[str]:
    """The loops outside the intrinsic, whose own loops begin with an empty text."""
    return loops[: loops.index("")] if "" in loops else loops


# --- rows -----------------------------------------------------------------------------------------


def _label(row: float, text: str, depth: int, class_: str) -> str:
    cut = text if len(text) + depth <= _CHARACTERS else f"{text[: _CHARACTERS - depth - 1]}…"
    return chart_text(12 + _INDENT * depth, _TOP + _PITCH * row + _BAR - 2, cut, f"{class_} code")


def _row(scale: Scale, row: float, numbers: Sequence[int], program: Program, stats: RunStats) -> Iterator[str]:
    y, width = _TOP + _PITCH * row, scale.end - scale.begin
    yield element("rect", x=scale.begin, y=y, width=width, height=_BAR, class_="track")
    least = THINNEST * scale.high / width
    for block in instruction_blocks(program, stats, numbers, 0, stats.total_cycles, least):
        yield _mark(scale, block, y, row)


def _mark(scale: Scale, block: ChartBlock, y: float, row: float) -> str:
    x, end = scale(block.start), scale(block.end)
    size = {"x": x, "y": y, "width": max(THINNEST, end - x), "height": _BAR}
    return chart_mark("rect", f"{row:g}", block.tip, class_=f"{block.class_} slice", **size)


# --- tokens ---------------------------------------------------------------------------------------


def _tokens(scale: Scale, rows: dict[int, int], program: Program, stats: RunStats) -> Iterator[str]:
    """A line a token, between the rows of its instructions."""
    pairs: list[tuple[int, int]] = []
    for queue in QUEUES:
        pushes, pops = queue_ends(program.columns, queue)
        pairs += zip(pushes.tolist(), pops.tolist(), strict=False)
    if len(pairs) > _MOST_TOKENS:
        return
    for sender, receiver in pairs:
        places = [int(program.source_of[number]) for number in (sender, receiver)]
        ends = zip((stats.ends[sender] + 1, stats.starts[receiver]), places, strict=True)
        for (x1, y1), (x2, y2) in pairwise([(scale(float(at)), _middle(rows[place])) for at, place in ends]):
            yield chart_line(x1, y1, x2, y2, "line faint")


def _middle(row: int) -> float:
    return _TOP + _PITCH * row + _BAR / 2
