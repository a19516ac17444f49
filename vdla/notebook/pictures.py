# SPDX-License-Identifier: Apache-2.0
"""Pictures of figures that a notebook has computed: rooflines of runs, bars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vdla.charts.blocks import ChartBlock, Row, RowChart
from vdla.charts.fragment import html_fragment
from vdla.charts.plots import Roof
from vdla.charts.plots import roofline as drawn_roofline
from vdla.simulator.stats.run_stats import attained_gops, intensity

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.simulator.stats import RunStats

COLOURS = 8  # of points
_LABELS, _RIGHT = 190.0, 780.0  # where bars begin, and the longest one ends


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as SVG, which a notebook shows."""

    title: str
    svg: str

    def __repr__(self) -> str:
        return f"<Picture {self.title}>"

    def _repr_html_(self) -> str:
        return html_fragment(self.title, [self.svg])


def roofline(runs: Mapping[str, RunStats], *machines: Config) -> Picture:
    """Runs by name below the roofs of machines, by default of that of the first run."""
    configs = machines or (next(iter(runs.values())).config,)
    roofs = [Roof.of(config, config.macs_per_cycle) for config in configs]
    points = []
    for number, (name, stats) in enumerate(runs.items()):
        roof = Roof.of(stats.config, stats.config.macs_per_cycle)
        points.append(roof.point(name, intensity(stats), attained_gops(stats), f"series{number % COLOURS}", name))
    return Picture(f"roofline of {' and '.join(config.name for config in configs)}", drawn_roofline(roofs, points))


def bars(title: str, unit: str, figures: Mapping[str, float]) -> Picture:
    """A bar for each figure, from 0."""
    chart = RowChart(title=title, high=max(figures.values()), left=_LABELS, right=_RIGHT, unit=unit)
    rows = [Row(name, [[ChartBlock(0, value, "value0", f"{name}: {_number(value)} {unit}")]], _number(value))
            for name, value in figures.items()]  # fmt: skip
    return Picture(title, chart.draw(rows))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
