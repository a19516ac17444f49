# SPDX-License-Identifier: Apache-2.0
"""A page of HTML about a profile: figures, operators as bars, roofline, memory, where they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from vdla.charts.blocks import THINNEST, ChartBlock, Row, RowChart
from vdla.charts.elements import (
    LEFT,
    RIGHT,
    TITLE,
    chart_mark,
    chart_svg,
    element,
    html_legend,
    html_note,
    html_page,
    html_table,
    html_text,
)
from vdla.charts.plot import AXIS, Plot, Scale
from vdla.charts.plots import Roof, roofline
from vdla.commands.device_times import device_names, milliseconds
from vdla.commands.placement_tables import sentence, share, shortened
from vdla.commands.profile_tables import operator_label, stall_text, summary

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.plan import Plan
    from vdla.runtime.executor.profile import NetworkProfile, OperatorProfile

_COLUMNS = (
    "operator", "name", "device", "cycles", "time", "share", "utilised", "bytes", "read", "written", "waits for"
)  # fmt: skip
_NAMES, _TIMES = 250.0, 90.0  # width of the names before the bars, and of the times behind them
_ARENA = 240.0  # height
_STEPS = 20  # with a number, at most


def profile_page(artifact: Artifact, profile: NetworkProfile) -> str:
    """The page."""
    title, config = f"{profile.model} on {profile.config.name if profile.config else profile.cpu}", profile.config
    devices = device_names(artifact)
    parts = [
        html_text("p", sentence(artifact), *summary(profile)),
        html_text("h2", "Operators"),
        html_note("Time of each operator; the full colour is the share of its cycles in which it multiplies."),
        html_legend({operator.device: devices[operator.device] for operator in profile.operators}),
        operator_bars(profile),
    ]
    if config is not None and any(operator.utilisation for operator in profile.operators):
        parts += [
            html_text("h2", "Roofline"),
            html_note(
                "Speed of each operator below the machine's limit, by operations for each byte of the busier "
                "direction, read or written in its cycles."
            ),
            operators_roofline(config, profile.operators),
        ]
    parts += [
        html_text("h2", "Memory"),
        html_note(_memory(artifact.plan)),
        arena_chart(artifact.plan),
        html_text("h2", "All figures"),
        element("div", html_table(_COLUMNS, operator_rows(profile)), class_="scroll"),
    ]
    return html_page(title, parts)


def _memory(plan: Plan) -> str:
    whole = f"{plan.arena_bytes:,} bytes hold all values between steps"
    return f"{whole}, {share(plan.arena_bytes, plan.arena_bytes_without_reuse)} of their sum."


def operator_rows(profile: NetworkProfile) -> Iterator[list[str]]:
    """The cells of `_COLUMNS` for every operator."""
    for operator in profile.operators:
        used = f"{100 * operator.utilisation:.1f} %" if operator.utilisation else ""
        counts = (operator.nbytes, operator.bytes_read, operator.bytes_written)
        cycles, *moved = ("" if count is None else f"{count:,}" for count in (operator.cycles, *counts))
        times = (milliseconds(operator.seconds), share(operator.seconds, profile.seconds))
        names = (operator_label(operator), operator.name, operator.device)
        yield [*names, cycles, *times, used, *moved, stall_text(operator)]


# --- charts ---------------------------------------------------------------------------------------


def operator_bars(profile: NetworkProfile) -> str:
    """A bar an operator, as long as its time; full in colour where it multiplies."""
    longest = max((operator.seconds for operator in profile.operators), default=0.0) or 1.0
    title, right = "time of each operator", RIGHT - _TIMES
    chart = RowChart(title=title, high=longest, left=_NAMES, right=right, pitch=22, bar=16)
    cells = operator_rows(profile)
    return chart.draw([_bar(*item) for item in zip(profile.operators, cells, strict=True)])


def _bar(operator: OperatorProfile, cells: Sequence[str]) -> Row:
    time, used = operator.seconds, min(1.0, operator.utilisation or 0.0)
    tip = ", ".join(f"{column} {cell}" for column, cell in zip(_COLUMNS, cells, strict=True) if cell)
    blocks = [
        ChartBlock(0.0, time, f"{operator.device} faint", tip),
        ChartBlock(0.0, time * used, operator.device, tip),
    ]
    return Row(f"{cells[0]} {shortened(operator.name, 22)}", [blocks[: 1 + (used > 0)]], milliseconds(time))


def operators_roofline(config: Config, operators: Iterable[OperatorProfile]) -> str:
    """The operations of each accelerator operator a second, over those for each byte.

    Both are of its cycles, so that no point is above the roof.
    """
    roof, points = Roof.of(config, config.macs_per_cycle), []
    for operator in operators:
        if operator.utilisation:
            speed = operator.executed_operations(config) / operator.seconds / 1e9
            name, intensity = shortened(operator.name, 18), operator.operations_a_byte(config)
            points.append(roof.point(operator.name, intensity, speed, "vdla", name))
    return roofline([roof], points)


def arena_chart(plan: Plan) -> str:
    """Addresses over steps: each value a rectangle where and while it lives.

    Inputs live from before the first step on, outputs until behind the last one.
    """
    from vdla.runtime.executor.arena_blocks import arena_blocks

    steps, bottom, top = len(plan.steps), _ARENA - AXIS, TITLE
    plot = Plot(Scale(-1.5, steps + 0.5, LEFT, RIGHT), Scale(0.0, max(1, plan.arena_bytes), bottom, top))
    parts = [element("rect", x=LEFT, y=top, width=RIGHT - LEFT, height=bottom - top, class_="track")]
    parts.append(plot.grid("steps", "bytes", range(0, steps, -(-steps // _STEPS) or 1)))
    for number, block in enumerate(arena_blocks(plan)):
        tip = f"{block.name}: {block.end - block.start:,} bytes, steps {max(0, block.first)} to {block.last}"
        (x, y), (right, low) = plot.place(block.first - 0.5, block.end), plot.place(block.last + 0.5, block.start)
        size = {"x": x, "y": y, "width": max(THINNEST, right - x - 0.5), "height": max(THINNEST, low - y - 0.5)}
        parts.append(chart_mark("rect", block.name, tip, class_=f"value{number % 4}", **size))
    return chart_svg(_ARENA, parts, "memory over time")
