# SPDX-License-Identifier: Apache-2.0
"""Charts read back from their SVG, by what a reader sees: the numbers on the axes.

Positions become values through the labels of the ticks as drawn, not through the scale that drew
them; the axes must have the directions that a reader expects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
PIXEL = 0.03  # positions have two digits, and a mark and two ticks are rounded
THINNEST = 0.5  # width of a rectangle without extent
LONGEST = 100  # width of the longest bar, at least


@dataclass(frozen=True)
class Axis:
    """The ticks of an axis: positions, which grow to the right and downwards, and values."""

    ticks: Sequence[tuple[float, float]]
    log: bool

    def value(self, position: float) -> float:
        """The value at a position."""
        (first, low), (last, high) = self.ticks[0], self.ticks[-1]
        share = (position - first) / (last - first)
        return low * (high / low) ** share if self.log else low + share * (high - low)

    def check(self, position: float, value: float, tolerance: float, what: str) -> None:
        """Requires a mark at a value, which the table gives with a tolerance."""
        drawn = (self.value(position - PIXEL), self.value(position + PIXEL))
        assert min(drawn) - tolerance <= value <= max(drawn) + tolerance, f"{what}: {value}, drawn at {drawn}"


def axis(tree: ElementTree.Element, name: str) -> Axis:
    """The axis x or y of a chart: the lines of the grid, and the labels beside them."""
    lines = [line for line in tree.iter(f"{SVG}line") if line.get(f"{name}1") == line.get(f"{name}2")]
    places = [float(line.get(f"{name}1", "")) for line in lines if line.get("class") == "grid"]
    ticks = []
    for text in tree.iter(f"{SVG}text"):
        if text.get("data-axis") == name:
            near = float(text.get(name, ""))
            ticks.append((min(places, key=lambda place: abs(place - near)), float(str(text.text).replace(",", ""))))
    ticks.sort()
    values = [value for _, value in ticks]
    assert len(ticks) >= 2, f"{name}: two ticks make a scale"
    assert values == sorted(values, reverse=name == "y"), f"{name}: values grow to the right and upwards"
    scales = [Axis(ticks, log) for log in (False, True) if not log or min(values) > 0]
    return min(scales, key=lambda scale: max(abs(scale.value(at) - value) / abs(value or 1) for at, value in ticks))


@dataclass(frozen=True)
class Drawn:
    """A mark: its row of the table, class and title, and its attributes as numbers."""

    row: str
    class_: str
    title: str
    at: dict[str, float]


def drawn_marks(tree: ElementTree.Element, shape: str) -> list[Drawn]:
    """The marks of a shape that show figures."""
    marks = []
    for item in tree.iter(f"{SVG}{shape}"):
        if item.get("data-row") is not None:
            at = {key: float(value) for key, value in item.items() if re.fullmatch(r"-?[\d.]+", value)}
            marks.append(Drawn(item.get("data-row", ""), item.get("class", ""), str(item.findtext(f"{SVG}title")), at))
    return marks


# --- checks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """A row of a table: where its mark must be, with what the digits of the table leave open."""

    row: str
    x: float
    y: float
    x_digits: float = 1e-9
    y_digits: float = 1e-9


def check_points(svg: str, rows: Sequence[Expected]) -> list[Drawn]:
    """Requires one circle a row, in their order, at the figures of the row."""
    tree = ElementTree.fromstring(svg)
    marks, x, y = drawn_marks(tree, "circle"), axis(tree, "x"), axis(tree, "y")
    assert [mark.row for mark in marks] == [row.row for row in rows]
    for mark, row in zip(marks, rows, strict=True):
        x.check(mark.at["cx"], row.x, row.x_digits, f"{row.row}, x")
        y.check(mark.at["cy"], row.y, row.y_digits, f"{row.row}, y")
    return marks


def check_bars(svg: str, rows: Sequence[tuple[str, float, float]]) -> list[Drawn]:
    """Requires one bar for each (class, start, length), and starts and lengths in one proportion.

    With an axis, it must give the lengths; without one, the longest bar is the measure, and what
    begins first has the start 0.
    """
    tree = ElementTree.fromstring(svg)
    marks = drawn_marks(tree, "rect")
    assert [mark.class_ for mark in marks] == [class_ for class_, _, _ in rows]
    if any(text.get("data-axis") for text in tree.iter(f"{SVG}text")):
        scale = axis(tree, "x").value
        unit = 1 / (scale(1.0) - scale(0.0))
        origin = -scale(0.0) * unit
    else:
        longest = max(mark.at["width"] for mark in marks)
        assert longest > LONGEST, f"the longest bar is {longest} wide"
        unit = longest / max(length for _, _, length in rows)
        origin = min(mark.at["x"] for mark in marks)
    for mark, (_, start, length) in zip(marks, rows, strict=True):
        width, x = max(THINNEST, length * unit), origin + start * unit
        assert abs(mark.at["width"] - width) <= PIXEL, f"{mark.title}: {length}, {mark.at['width']} wide"
        assert abs(mark.at["x"] - x) <= PIXEL, f"{mark.title}: from {start}, drawn from {mark.at['x']}"
    return marks


def check_steps(svg: str, row: str, values: Sequence[float]) -> None:
    """Requires that a curve has the value after each trial, from where it enters the plot."""
    tree = ElementTree.fromstring(svg)
    x, y = axis(tree, "x"), axis(tree, "y")
    (line,) = (
        item
        for item in tree.iter(f"{SVG}polyline")
        if item.get("data-row") == row and "curve" in str(item.get("class"))
    )
    corners = [tuple(map(float, corner.split(","))) for corner in line.get("points", "").split()]
    seen = {round(x.value(at)): height for at, height in corners}  # the last corner of a trial
    assert sorted(seen) == list(range(min(seen), len(values) + 1)), f"{row}: one step a trial"
    for trial, height in seen.items():
        y.check(height, values[trial - 1], 1e-9, f"{row}, trial {trial}")
    hidden = [value for value in values[: min(seen) - 1] if math.isfinite(value)]
    top = y.value(min(height for _, height in corners) + PIXEL)
    assert all(value >= top for value in hidden), f"{row}: only values above the plot are hidden"


def check_texts(svg: str) -> None:
    """Requires that texts, of about this width, are in the picture and cover no other."""
    tree = ElementTree.fromstring(svg)
    _, _, width, height = map(float, tree.get("viewBox", "").split())
    boxes: list[tuple[float, float, float, float, str]] = []
    for text in tree.iter(f"{SVG}text"):
        if not text.text:
            continue
        small = "small" in text.get("class", "")
        extent = (5.8 if small else 7.0) * len(text.text)
        left = (
            float(text.get("x", "")) - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "")] * extent
        )
        box = (left, float(text.get("y", "")) - 8, left + extent, float(text.get("y", "")), text.text)
        assert box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= height, f"{text.text!r} leaves the picture"
        for other in boxes:
            apart = box[0] >= other[2] or other[0] >= box[2] or box[1] >= other[3] or other[1] >= box[3]
            assert apart, f"{text.text!r} covers {other[4]!r}"
        boxes.append(box)


# --- pages ----------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The tables and charts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.charts = [svg for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL) if "xmlns" in svg]
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins tables, rows and cells."""
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        """Ends cells."""
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        """Adds to the cell."""
        if self._cell:
            self.tables[-1][-1][-1] += data

    def rows(self, table: int) -> list[dict[str, str]]:
        """The rows of a table by the titles of its columns."""
        head, *rows = self.tables[table]
        return [dict(zip(head, row, strict=True)) for row in rows]


def number(cell: str) -> float:
    """The number that a cell begins with."""
    return float(re.match(r"-?[\d,]+(\.\d+)?", cell)[0].replace(",", ""))  # type: ignore[index]  # a number


def changed(svg: str, shape: str, change: Callable[[ElementTree.Element], None]) -> str:
    """A chart with its marks of a shape changed."""
    ElementTree.register_namespace("", SVG[1:-1])
    tree = ElementTree.fromstring(svg)
    for item in tree.iter(f"{SVG}{shape}"):
        if item.get("data-row") is not None:
            change(item)
    return ElementTree.tostring(tree, encoding="unicode")
