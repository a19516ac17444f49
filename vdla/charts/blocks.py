# SPDX-License-Identifier: Apache-2.0
"""Charts of blocks in rows: bars, shares of a whole, slices of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.charts.elements import LEFT, RIGHT, TITLE, chart_mark, chart_svg, chart_text, element
from vdla.charts.plot import AXIS, Scale, x_axis

THINNEST = 0.5  # a block that shows
_TICKS = 9
_SMALL = 20.0  # bars with small labels are lower


@dataclass(frozen=True, slots=True)
class ChartBlock:
    """What takes `start..end` of an axis."""

    start: float
    end: float
    class_: str
    tip: str


@dataclass(frozen=True, slots=True)
class Row:
    """Blocks beside a label, in lanes one above the other, and a figure behind the last one."""

    label: str
    lanes: Sequence[Sequence[ChartBlock]]
    figure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChart:
    """How rows are drawn: from 0 or `low` to `high` in so wide a plot.

    With a `unit`, there is an axis, and a track behind each row.
    """

    title: str
    high: float
    low: float = 0.0
    left: float = LEFT
    right: float = RIGHT
    pitch: float = 30.0
    bar: float = 22.0
    unit: str = ""

    def draw(self, rows: Sequence[Row], *, alone: bool = False) -> str:
        """The rows from the top, or below the title."""
        top = TITLE + 10 if alone else 0.0
        bottom, scale = top + self.pitch * len(rows), Scale(self.low, self.high, self.left, self.right)
        parts = [x_axis(scale, scale.ticks(_TICKS, least=1), (top, bottom), self.unit)] * bool(self.unit)
        parts += [self._row(scale, number, row, top + number * self.pitch) for number, row in enumerate(rows)]
        return chart_svg(bottom + AXIS * bool(self.unit), parts, self.title, alone=alone)

    def _row(self, scale: Scale, number: int, row: Row, top: float) -> str:
        lane, baseline = self.bar / len(row.lanes), top + self.bar / 2 + 4
        text = chart_text(self.left - 8, baseline, row.label, "small strong" if self.bar < _SMALL else "", "end")
        width = self.right - self.left
        track = element("rect", x=self.left, y=top, width=width, height=self.bar, class_="track")
        parts = [text, track] if self.unit else [text]
        end = self.left
        for place, blocks in enumerate(row.lanes):
            for block in blocks:
                x, width = scale(block.start), scale(block.end) - scale(block.start)
                size = {"x": x, "y": top + place * lane, "width": max(THINNEST, width), "height": lane}
                parts.append(chart_mark("rect", number, block.tip, class_=block.class_, **size))
                end = max(end, x + width)
        return "".join([*parts, chart_text(end + 6, baseline, row.figure, "small")])
