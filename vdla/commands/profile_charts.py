"""Charts of profiles as SVG text: operators as bars, the roofline, the memory of values over time.

Colours are CSS classes, which `profile_page` defines for light and for dark backgrounds. Lengths
are in units of the view box.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from vdla.commands.placement_tables import milliseconds, share, shortened
from vdla.commands.profile_tables import operator_label, stall_text
from vdla.commands.run_charts import LEFT, RIGHT, LogScale, chart_grid, chart_line, chart_svg, chart_text, element

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.executor.plan import Plan
    from vdla.runtime.executor.profile import NetworkProfile, OperatorProfile

_NAMES = 250  # width of the names beside the bars
_PITCH, _BAR = 22, 16
_LABEL = 110  # width of a label in the roofline
_HEIGHT = 320.0
_AXIS = 34


# --- operators ------------------------------------------------------------------------------------


def operator_bars(profile: NetworkProfile) -> str:
    """A bar an operator, as long as its time; full in colour where it multiplies."""
    longest = max((each.seconds for each in profile.operators), default=0.0) or 1.0
    parts = []
    for row, each in enumerate(profile.operators):
        top = row * _PITCH
        width = (RIGHT - _NAMES - 90) * each.seconds / longest
        used = width * min(1.0, each.utilisation or 0.0)
        label = f"{operator_label(each)} {shortened(each.name, 22)}"
        parts.append(chart_text(_NAMES - 8, top + 12, label, "small name", "end"))
        bars = _bar(_NAMES, top, max(width, 0.5), f"{each.device} faint") + _bar(_NAMES, top, used, each.device)
        parts.append(element("g", element("title", escape(_hover(profile, each))) + bars))
        parts.append(chart_text(_NAMES + width + 6, top + 12, milliseconds(each.seconds), "small"))
    return chart_svg(_PITCH * len(profile.operators) + 4, "".join(parts), "time of each operator")


def _bar(x: float, y: float, width: float, class_: str) -> str:
    return element("rect", x=x, y=y, width=width, height=_BAR, class_=class_)


def _hover(profile: NetworkProfile, each: OperatorProfile) -> str:
    parts = [f"{each.op} {each.name} on {each.device}: {milliseconds(each.seconds)}"]
    parts.append(share(each.seconds, profile.seconds))
    if each.cycles is not None:
        parts.append(f"{each.cycles:,} cycles, utilisation {100 * (each.utilisation or 0):.1f} %")
        parts.append(f"waits: {stall_text(each)}")
    return ", ".join(parts)


# --- the roofline ---------------------------------------------------------------------------------


def operator_roofline(config: Config, operators: Iterable[OperatorProfile]) -> str:
    """The operations of each accelerator operator a second, over those for each byte.

    Both are of its cycles, so that no point is above the roof.
    """
    points = [each for each in operators if each.utilisation]
    knee = 2 * config.macs_per_cycle / config.peak_bytes_per_cycle
    at = [each.operations_a_byte(config) for each in points]
    speeds = [each.executed_operations(config) / each.seconds / 1e9 for each in points]
    x = LogScale(min([*at, knee]) / 4, max([*at, knee]) * 4, LEFT, RIGHT)
    y = LogScale(min([*speeds, config.peak_gops / 16]) / 2, config.peak_gops * 2, _HEIGHT - _AXIS, 12)
    begin = max(x.low, knee * y.low / config.peak_gops)
    roof = [(begin, config.peak_gops * begin / knee), (knee, config.peak_gops), (x.high, config.peak_gops)]
    line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in roof)
    parts = [chart_grid(x, y, _HEIGHT), element("polyline", points=line, class_="roof")]
    parts.append(chart_text(RIGHT, y(config.peak_gops) - 6, f"peak {config.peak_gops:,.1f} GOPS", "small", "end"))
    labelled: list[tuple[float, float]] = []  # labels that would overlap one are left to the hover text
    for each, where, speed in zip(points, at, speeds, strict=True):
        limit = config.peak_gops * min(1.0, where / knee)
        title = f"{each.name}: {speed:,.1f} GOPS, {where:,.1f} operations a byte, {share(speed, limit)} of the roof"
        hover = element("title", escape(title))
        parts.append(element("circle", hover, cx=x(where), cy=y(speed), r=5, class_="vdla"))
        if all(abs(x(where) - a) > _LABEL or abs(y(speed) - b) > 12 for a, b in labelled):
            labelled.append((x(where), y(speed)))
            parts.append(chart_text(x(where), y(speed) + 18, shortened(each.name, 18), "small", "middle"))
    return chart_svg(_HEIGHT, "".join(parts), "roofline")


# --- memory ---------------------------------------------------------------------------------------


def arena_chart(plan: Plan) -> str:
    """Addresses over steps: each value a rectangle where and while it lives."""
    from vdla.runtime.executor.arena_blocks import arena_blocks

    steps, height, nbytes = len(plan.steps) + 2, 240.0, max(1, plan.arena_bytes)
    bottom, column = height - _AXIS, (RIGHT - LEFT) / (len(plan.steps) + 2)
    parts = [element("rect", x=LEFT, y=0, width=RIGHT - LEFT, height=bottom, class_="track")]
    for number, block in enumerate(arena_blocks(plan)):
        top, low = bottom * (1 - block.end / nbytes), bottom * (1 - block.start / nbytes)
        left, right = LEFT + (block.first + 1) * column, LEFT + (block.last + 2) * column
        words = f"{block.name}: {block.end - block.start:,} bytes, steps {max(0, block.first)} to {block.last}"
        title = element("title", escape(words))
        size = {"width": max(0.5, right - left - 0.5), "height": max(0.5, low - top - 0.5)}
        parts.append(element("rect", title, x=left, y=top, class_=f"value{number % 4}", **size))
    parts.append(_live_axis(steps, column, bottom))
    parts.append(chart_text(LEFT - 6, 10, _kib(nbytes), "small", "end"))
    parts.append(chart_text(LEFT - 6, bottom, "0", "small", "end"))
    return chart_svg(height, "".join(parts), "memory over time")


def _live_axis(steps: int, column: float, bottom: float) -> str:
    """The numbers of the steps; the first column is before them, the last behind."""
    every = max(1, math.ceil(steps / 20))
    ticks = (
        chart_text(LEFT + (step + 1.5) * column, bottom + 14, str(step), "small", "middle")
        for step in range(0, steps - 2, every)
    )
    return "".join(ticks) + chart_text((LEFT + RIGHT) / 2, bottom + 30, "steps", "small", "middle")


def _kib(nbytes: int) -> str:
    return f"{nbytes / 1024:,.1f} KiB"


# --- stalls ---------------------------------------------------------------------------------------


def stall_totals(operators: Sequence[OperatorProfile]) -> Mapping[str, int]:
    """The cycles that the compute unit waited, by counter, over all operators."""
    totals: dict[str, int] = {}
    for each in operators:
        for counter, cycles in each.stalls.items():
            totals[counter] = totals.get(counter, 0) + cycles
    return totals


__all__ = ["arena_chart", "chart_line", "operator_bars", "operator_roofline"]
