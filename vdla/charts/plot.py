# SPDX-License-Identifier: Apache-2.0
"""Scales, axes and points of charts, and the names beside points.

Of everything drawn, positions grow to the right and downwards; `Scale` turns values into them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vdla.charts.elements import chart_line, chart_mark, chart_text, element

AXIS = 34.0  # height below a plot: ticks and the title of the axis
_MOST_POWERS = 12  # ticks of a logarithmic scale
_SAMPLES = 150  # of a part of a line

Place = tuple[float, float]


# --- scales ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scale:
    """From the values `low..high` to the positions `begin..end`; `log`: in equal ratios."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The position of a value; of one outside the scale, the nearer end."""
        limits = (self.low, self.high, min(max(value, self.low), self.high))
        low, high, inside = map(math.log, limits) if self.log else limits
        return self.begin + (self.end - self.begin) * (inside - low) / (high - low or 1.0)

    def text(self, value: float) -> str:
        """A value as text."""
        return f"{value:.4g}" if self.log and value < 1 else f"{value:,.10g}"

    def ticks(self, most: int, least: float = 0.0) -> list[float]:
        """Round values within the scale, at most about `most`: multiples of `least` or more."""
        if self.log:
            first, last = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
            return [2.0**power for power in range(first, last + 1, -(-(last - first + 1) // _MOST_POWERS))]
        step = max(least, _round_step((self.high - self.low) / most))
        return [round(step * k, 10) for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20 and so on, times a power of ten."""
    unit = 10.0 ** math.floor(math.log10(max(least, 1e-9)))
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= least)


@dataclass(frozen=True, slots=True)
class Plot:
    """Two scales."""

    x: Scale
    y: Scale

    def place(self, x: float, y: float) -> Place:
        """The position of two values."""
        return self.x(x), self.y(y)

    def grid(self, x_title: str, y_title: str, x_ticks: Sequence[float]) -> str:
        """Lines at values of x and at round values of y, with these and the titles of the axes."""
        parts = [x_axis(self.x, x_ticks, (self.y.end, self.y.begin), x_title)]
        for value in self.y.ticks(8):
            y = self.y(value)
            parts.append(chart_line(self.x.begin, y, self.x.end, y, "grid"))
            parts.append(chart_text(self.x.begin - 6, y + 4, self.y.text(value), "small", "end", data_axis="y"))
        return "".join([*parts, chart_text(0, self.y.end - 8, y_title, "small")])


def x_axis(scale: Scale, ticks: Iterable[float], rows: Place, title: str) -> str:
    """Lines at values, from the top to the bottom of rows, with their values and a title below."""
    top, bottom = rows
    parts = []
    for value in ticks:
        x = scale(value)
        parts.append(chart_line(x, top, x, bottom, "grid"))
        parts.append(chart_text(x, bottom + 14, scale.text(value), "small", "middle", data_axis="x"))
    middle = (scale.begin + scale.end) / 2
    return "".join([*parts, chart_text(middle, bottom + AXIS - 3, title, "small", "middle")])


# --- points ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPoint:
    """A circle at two values; `name` stands beside it, if it has one and there is room."""

    x: float
    y: float
    row: str
    tip: str
    class_: str
    name: str = ""
    radius: float = 5
    name_class: str = "small"


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line through positions."""

    corners: Sequence[Place]
    class_: str


def chart_points(
    plot: Plot, points: Sequence[ChartPoint], lines: Sequence[ChartLine] = (), labels: Iterable[ChartLabel] = ()
) -> str:
    """Lines, points, then `labels` and the names of points, each where it covers nothing.

    The first ones choose first; one without room is left out.
    """
    parts = [element("polyline", points=polyline(line.corners), class_=line.class_) for line in lines]
    names, covered = [*labels], [(x, y, x, y) for line in lines for x, y in _along(line.corners)]
    for point in points:
        (x, y), r = plot.place(point.x, point.y), point.radius
        parts.append(chart_mark("circle", point.row, point.tip, cx=x, cy=y, r=r, class_=point.class_))
        covered.append((x - r, y - r, x + r, y + r))
        if point.name:
            names.append(ChartLabel(point.name, point.name_class, tuple(_beside(x, y, r + _GAP))))
    return "".join([*parts, *_placed(plot, names, covered)])


def polyline(corners: Iterable[Place]) -> str:
    """The corners of a line as SVG has them."""
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in corners)


def _along(corners: Sequence[Place]) -> Iterator[Place]:
    """Places on a line that are too close together for text between them."""
    for (x, y), (to_x, to_y) in pairwise(corners):
        for share in (step / _SAMPLES for step in range(_SAMPLES)):
            yield x + share * (to_x - x), y + share * (to_y - y)


# --- labels ---------------------------------------------------------------------------------------

_GAP, _ABOVE, _BELOW = 5.0, 8.0, 4.0  # from a point to its name; of text from its baseline
CHARACTER = 7.2  # width of one, about
_WIDTHS = {"": CHARACTER, "small": 6.0}
_ANCHORS = {"start": 0.0, "middle": 0.5, "end": 1.0}

_Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, slots=True)
class ChartLabel:
    """Text, and where it may begin, end or have its middle, the best place first."""

    text: str
    class_: str
    places: Sequence[tuple[float, float, str]]


def _placed(plot: Plot, labels: Iterable[ChartLabel], covered: list[_Box]) -> Iterator[str]:
    """Labels in their first places within the plot that cover nothing; others are left out."""
    for label in labels:
        width = _WIDTHS[label.class_] * len(label.text)
        for x, y, anchor in label.places:
            x_left = x - _ANCHORS[anchor] * width
            box = (x_left, y - _ABOVE, x_left + width, y + _BELOW)
            if _holds(plot, box) and not any(_meet(box, other) for other in covered):
                covered.append(box)
                yield chart_text(x, y, label.text, f"{label.class_} name".strip(), anchor)
                break


def _holds(plot: Plot, box: _Box) -> bool:
    left, top, right, bottom = box
    return plot.x.begin <= left and right <= plot.x.end and plot.y.end <= top and bottom <= plot.y.begin


def _meet(one: _Box, other: _Box) -> bool:
    left, top, right, bottom = other
    return one[0] < right and left < one[2] and one[1] < bottom and top < one[3]


def _beside(x: float, y: float, far: float) -> Iterator[tuple[float, float, str]]:
    """The places of a name beside a point."""
    for dy in (4.0, -far, far + _ABOVE, -far - 12, far + _ABOVE + 12):
        yield x + far, y + dy, "start"
        yield x - far, y + dy, "end"
        if dy != 4.0:
            yield x, y + dy, "middle"
