"""Names beside the points of a picture, each in the first place where it covers nothing.

A name that has no such place is left out; a browser shows it where one points at its point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vdla.commands.run_charts import LEFT, RIGHT, chart_text

LABEL_STYLE = ".name { paint-order: stroke; stroke: #fff; stroke-width: 3px; stroke-linejoin: round }"
"""Lines do not cross the text."""
_GAP, _ABOVE, _BELOW = 5.0, 8.0, 4.0  # from a point to its name; of text from its baseline
_WIDTHS = {"": 7.2, "small": 6.0}  # of a character, about


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A circle, and the name that stands beside it if it has one."""

    x: float
    y: float
    radius: float
    name: str = ""
    class_: str = "small"


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def chart_labels(points: Sequence[ChartPoint], top: float, bottom: float) -> str:
    """The names of points as SVG, within the plot."""
    taken, parts = [_circle(point) for point in points], []
    inside = _Box(left=LEFT, top=top, right=RIGHT, bottom=bottom)
    for point in points:
        for x, y, anchor in _places(point) if point.name else ():
            box = _text(point, x, y, anchor)
            if _holds(inside, box) and not any(box.meets(other) for other in taken):
                taken.append(box)
                parts.append(chart_text(x, y, point.name, f"{point.class_} name".strip(), anchor))
                break
    return "".join(parts)


def _places(point: ChartPoint) -> Iterator[tuple[float, float, str]]:
    """Where a name can begin, end or have its middle, the best place first."""
    far, x, y = point.radius + _GAP, point.x, point.y
    for dy in (4.0, -far, far + _ABOVE, -far - 12, far + _ABOVE + 12):
        yield x + far, y + dy, "start"
        yield x - far, y + dy, "end"
        if dy != 4.0:
            yield x, y + dy, "middle"


def _text(point: ChartPoint, x: float, y: float, anchor: str) -> _Box:
    width = _WIDTHS[point.class_] * len(point.name)
    left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width
    return _Box(left=left, top=y - _ABOVE, right=left + width, bottom=y + _BELOW)


def _circle(point: ChartPoint) -> _Box:
    x, y, r = point.x, point.y, point.radius
    return _Box(left=x - r, top=y - r, right=x + r, bottom=y + r)


def _holds(outer: _Box, inner: _Box) -> bool:
    return (
        outer.left <= inner.left
        and inner.right <= outer.right
        and outer.top <= inner.top
        and inner.bottom <= outer.bottom
    )
