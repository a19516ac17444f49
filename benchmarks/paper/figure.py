# SPDX-License-Identifier: Apache-2.0
"""A figure of the paper: what it compares, on which machine, and which claims it carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vdla.benchmarks.harness import Row
from vdla.charts.blocks import ChartBlock, RowChart
from vdla.charts.blocks import Row as ChartRow
from vdla.charts.elements import RIGHT
from vdla.support.progress import Progress

_LABELS, _FIGURES = 190.0, 200.0  # widths beside a plot
_BAR = 18.0  # height of one


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A statement of the paper, its number there and here; it holds from `least` on."""

    text: str
    paper: str
    here: float
    least: float

    @property
    def holds(self) -> bool:
        """Whether the number here is large enough."""
        return self.here >= self.least

    def row(self) -> Row:
        """The claim as a row of the result."""
        return {"claim": self.text, "paper": self.paper, "here": round(self.here, 3), "holds": int(self.holds)}


@dataclass(frozen=True, slots=True)
class PaperMeasurement:
    """Rows of one kind, the claims, the picture as SVG, and what the receipt has besides."""

    rows: Sequence[Row]
    claims: Sequence[PaperClaim]
    picture: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A figure: its number and subject, the machine of the paper and the one that stands for it.

    `measure(progress, seed, small)`; `small` takes smaller networks and layers.
    """

    number: int
    subject: str
    paper: str
    here: str
    measure: Callable[[Progress, int, bool], PaperMeasurement]

    @property
    def name(self) -> str:
        """As the command takes it."""
        return f"figure{self.number}"


def bars(title: str, unit: str, rows: Sequence[Row], label: str, sides: Mapping[str, str]) -> str:
    """Bars of the columns of `sides`, each with its name, for every row."""
    high = max(row[column] for row in rows for column in sides if column in row)
    right, bar = RIGHT - _FIGURES, _BAR * len(sides)
    chart = RowChart(title=title, high=high, left=_LABELS, right=right, pitch=bar + 10, bar=bar, unit=unit)
    return chart.draw([_bars_of(row, label, sides, unit) for row in rows], alone=True)


def _bars_of(row: Row, label: str, sides: Mapping[str, str], unit: str) -> ChartRow:
    shown = {column: side for column, side in sides.items() if column in row}
    tips = {column: f"{row[label]}, {side}: {row[column]:,.4g} {unit}" for column, side in shown.items()}
    lanes = [[ChartBlock(0, row[column], f"series{n}", tips[column])] for n, column in enumerate(shown)]
    figure = ", ".join(f"{side} {_number(row[column])}" for column, side in shown.items())
    return ChartRow(str(row[label]), lanes, figure)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
