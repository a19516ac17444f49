# SPDX-License-Identifier: Apache-2.0
"""Charts with two scales: the roofline, points of two figures, and the convergence of searches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from vdla.charts.elements import LEFT, RIGHT, TITLE, WIDTH, chart_line, chart_mark, chart_svg, chart_text, element
from vdla.charts.plot import (
    AXIS,
    CHARACTER,
    ChartLabel,
    ChartLine,
    ChartPoint,
    Place,
    Plot,
    Scale,
    chart_points,
    polyline,
)
from vdla.hardware.config import Config

_HEIGHT, _BOTTOM = 380.0, 380.0 - AXIS
_TOP = 48.0  # of a plot below a title

Link = tuple[ChartPoint, ChartPoint]


# --- the roofline ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Roof:
    """The limit of a machine: a slope of `bytes_a_cycle` up to `ridge`, then the peak."""

    peak_gops: float
    ridge: float
    bytes_a_cycle: float

    @staticmethod
    def of(config: Config, steps_a_cycle: float) -> Roof:
        """Of a machine whose steps, of two operations each, are multiply-accumulates or others."""
        bandwidth = config.peak_bytes_per_cycle
        return Roof(2 * steps_a_cycle * config.clock_mhz / 1000, 2 * steps_a_cycle / bandwidth, bandwidth)

    def gops(self, intensity: float) -> float:
        """The limit at an intensity, in operations a byte."""
        return self.peak_gops * min(1.0, intensity / self.ridge)

    def point(self, row: str, intensity: float, gops: float, class_: str, name: str = "") -> ChartPoint:
        """What was attained below it, by its figures."""
        share = f"{100 * gops / self.gops(intensity):.1f} % of the roof" if intensity else "no operations"
        tip = f"{row}: {gops:,.1f} GOPS, {intensity:,.1f} operations a byte, {share}"
        return ChartPoint(x=intensity, y=gops, row=row, tip=tip, class_=class_, name=name)

    def labels(self, plot: Plot) -> Iterator[ChartLabel]:
        """Its figures, at its right end and beside its slope."""
        right, (x, y) = plot.x.end, plot.place(self.ridge, self.peak_gops)
        yield ChartLabel(f"peak {self.peak_gops:,.1f} GOPS", "small", [(right, y - 6, "end"), (right, y + 14, "end")])
        low = plot.y(self.peak_gops / 3)
        yield ChartLabel(f"{self.bytes_a_cycle:g} bytes a cycle", "small", [(x - 8, low, "end"), (x, low, "start")])


def roofline(roofs: Sequence[Roof], points: Sequence[ChartPoint], links: Sequence[Link] = (), title: str = "") -> str:
    """Operations a second (1e9) over operations a byte; roofs after the first one are dashed."""
    intensities = [point.x for point in points if point.x > 0] + [roof.ridge for roof in roofs]
    speeds = [point.y for point in points if point.y > 0] + [roof.peak_gops / 8 for roof in roofs]
    x = Scale(min(intensities) / 4, max(intensities) * 4, LEFT, RIGHT, log=True)
    top = max(roof.peak_gops for roof in roofs) * 2
    plot = Plot(x, Scale(min(speeds) / 2, top, _BOTTOM, _TOP if title else TITLE, log=True))
    lines, labels = list[ChartLine](), list[ChartLabel]()
    for roof in dict.fromkeys(roofs):
        start = max(x.low, roof.ridge * plot.y.low / roof.peak_gops)  # where the slope enters the plot
        corners = [plot.place(at, roof.gops(at)) for at in (start, roof.ridge, x.high)]
        lines.append(ChartLine(corners, "roof later" if lines else "roof"))
        labels += roof.labels(plot)
    lines += [ChartLine([plot.place(point.x, point.y) for point in link], "line") for link in links]
    grid = plot.grid("operations per byte", "GOPS", x.ticks(8))
    return chart_svg(_HEIGHT, [grid, chart_points(plot, points, lines, labels)], title or "roofline", alone=bool(title))


# --- two figures ----------------------------------------------------------------------------------


def scatter(
    title: str, axes: tuple[str, str], points: Sequence[ChartPoint], links: Sequence[Link] = (), *, alone: bool = True
) -> str:
    """Points of two figures, whose axes begin at 0."""
    x, y = (1.1 * max(values, default=0) or 1.0 for values in ([p.x for p in points], [p.y for p in points]))
    plot = Plot(Scale(0.0, x, LEFT, RIGHT), Scale(0.0, y, _BOTTOM, _TOP))
    lines = [ChartLine([plot.place(point.x, point.y) for point in link], "line") for link in links]
    return chart_svg(
        _HEIGHT, [plot.grid(*axes, plot.x.ticks(8)), chart_points(plot, points, lines)], title, alone=alone
    )


# --- growth ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Growth:
    """A cost by size; of one `series`, the colour."""

    name: str
    points: Sequence[Place]
    series: int = 0


def growth(title: str, axes: tuple[str, str], curves: Sequence[Growth]) -> str:
    """Costs against sizes on logarithmic scales, where what is linear rises as a dashed line."""
    sizes, costs = ([point[side] for curve in curves for point in curve.points] for side in (0, 1))
    right = WIDTH - 24 - CHARACTER * max(len(curve.name) for curve in curves)
    x = Scale(min(sizes) / 1.2, max(sizes) * 1.2, LEFT, right, log=True)
    plot = Plot(x, Scale(min(costs) / 2, max(costs) * 2, _BOTTOM, _TOP, log=True))
    powers = range(math.ceil(math.log10(x.low)), math.floor(math.log10(x.high)) + 1)
    steepest = min(x.high / x.low, plot.y.high / plot.y.low)
    linear = [plot.place(x.low, plot.y.low), plot.place(x.low * steepest, plot.y.low * steepest)]
    parts = [plot.grid(*axes, [10.0**power for power in powers])]
    parts.append(element("polyline", points=polyline(linear), class_="curve dashed"))
    heights = _apart([plot.y(curve.points[-1][1]) for curve in curves])
    for curve, height in zip(curves, heights, strict=True):
        corners, colour = [plot.place(*point) for point in curve.points], f"series{curve.series}"
        tip = ", ".join(f"{size:,.10g}: {cost:.4g}" for size, cost in curve.points)
        points = polyline(corners)
        parts.append(chart_mark("polyline", curve.name, f"{curve.name} {tip}", points=points, class_=f"curve {colour}"))
        parts += [element("circle", cx=at, cy=y, r=3, class_=colour) for at, y in corners]
        parts.append(chart_text(plot.x.end + 8, height + 4, curve.name, colour))
    return chart_svg(_HEIGHT, parts, title, alone=True)


def _apart(heights: Sequence[float]) -> list[float]:
    """Heights of names, in order moved down, and up from the bottom, until none overlap."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    moved = list(accumulate((heights[n] for n in order), lambda last, y: max(y, last + _PITCH)))
    limits = [_BOTTOM - _PITCH * (len(order) - place) for place in range(1, len(order) + 1)]
    placed = {n: min(y, limit) for n, y, limit in zip(order, moved, limits, strict=True)}
    return [placed[n] for n in range(len(heights))]


# --- convergence ----------------------------------------------------------------------------------

_PITCH = 15.0  # of the names of curves
_SAMPLE = 20.0  # length of a curve beside its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The best value after each trial, not finite before the first success.

    Curves of one `series` have one colour.
    """

    name: str
    values: Sequence[float]
    series: int = 0
    dashed: bool = False

    @property
    def points(self) -> list[Place]:
        """Trials, from 1 on, and their values."""
        return [(trial, value) for trial, value in enumerate(self.values, 1) if math.isfinite(value)]

    @property
    def label(self) -> str:
        """The name and the last value."""
        return f"{self.name} {self.values[-1]:.5g}"

    @property
    def line_class(self) -> str:
        """Of its steps."""
        return f"curve series{self.series}{' dashed' * self.dashed}"


def convergence(title: str, quantity: str, curves: Sequence[Curve], hidden: float = 0.1) -> str:
    """The best value so far against trials.

    The worst values of the first trials, a share `hidden` of each curve, may lie outside the plot.
    """
    shown = [value for curve in curves for trial, value in curve.points if trial > hidden * len(curve.values)]
    margin = max(0.06 * (max(shown) - min(shown)), 0.0005)
    right = WIDTH - _SAMPLE - 24 - CHARACTER * max(len(curve.label) for curve in curves)
    x = Scale(0.0, max(len(curve.values) for curve in curves), LEFT, max(right, WIDTH / 2))
    plot = Plot(x, Scale(min(shown) - margin, max(shown) + margin, _BOTTOM, _TOP))
    parts = [plot.grid("trials", quantity, x.ticks(8, least=1)), *(_curve(plot, curve) for curve in curves)]
    return chart_svg(_HEIGHT, [*parts, *_ends(plot, curves)], title, alone=True)


def _curve(plot: Plot, curve: Curve) -> str:
    """The steps of a curve from where it enters the plot, and a point at its last value."""
    points = curve.points
    steps = [points[:1], *([(trial, before), (trial, value)] for (_, before), (trial, value) in pairwise(points))]
    inside = [plot.place(*corner) for step in steps for corner in step if step[-1][1] <= plot.y.high]
    tip = f"{curve.name}: {curve.values[-1]:,.10g} after {len(curve.values)} trials"
    parts = [chart_mark("polyline", curve.name, tip, points=polyline(inside), class_=curve.line_class)]
    ends = [element("circle", cx=x, cy=y, r=3, class_=f"series{curve.series}") for x, y in inside[-1:]]
    return "".join([*parts, *ends])


def _ends(plot: Plot, curves: Sequence[Curve]) -> Iterator[str]:
    """The names beside the ends of the curves, moved apart where they would overlap."""
    ends = [curve for curve in curves if curve.points]
    begin, end = plot.x.end + 8, plot.x.end + 8 + _SAMPLE
    for curve, y in zip(ends, _apart([plot.y(curve.values[-1]) for curve in ends]), strict=True):
        yield chart_line(begin, y, end, y, curve.line_class)
        yield chart_text(end + 6, y + 4, curve.label, f"series{curve.series}")
