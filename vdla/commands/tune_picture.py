"""The picture of tuning runs as SVG text: the best cost so far against trials, a line an operator.

Costs are over the bound where it is known, else over the best of the run, so that lines of
different operators can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from vdla.commands.run_charts import element

_WIDTH, _HEIGHT = 960, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 790, 40, 376
_TICKS = 5
_COLOURS = ("#2a6fb0", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b3f8c", "#8a8f98")
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 } .small { font-size: 11px; fill: #5c6470 }
.title { font-size: 15px } .grid { stroke: #d9dde3; stroke-width: 1 }
.best { fill: none; stroke-width: 2; stroke-linejoin: round } .untuned { stroke-width: 1; stroke-dasharray: 4 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .small { fill: #9aa3ad } .grid { stroke: #333a42 }
}
"""


@dataclass(frozen=True, slots=True)
class Curve:
    """`costs[k]`: the best of the first k + 1 trials; `untuned` is the cost without tuning."""

    label: str
    costs: Sequence[float]
    reference: float
    untuned: float | None = None

    def ratios(self) -> list[tuple[int, float]]:
        """(trial, cost over the reference) from the first success on."""
        return [(k + 1, cost / self.reference) for k, cost in enumerate(self.costs) if math.isfinite(cost)]


def picture(title: str, quantity: str, curves: Sequence[Curve]) -> str:
    """The picture; `quantity` says what the reference is, as `cycles over the bound`.

    The scale leaves out the worst first trials: it ends where every line has had a tenth of them.
    """
    trials = max(len(curve.costs) for curve in curves)
    shown = [ratio for curve in curves for at, ratio in curve.ratios() if at > len(curve.costs) // 10]
    shown += [curve.untuned / curve.reference for curve in curves if curve.untuned is not None]
    low, high = _range(min(shown), max(shown))
    scale = _Scale(trials, low, high)
    parts = [element("style", _STYLE), element("text", escape(title), x=_LEFT, y=22, class_="title")]
    parts += [scale.grid(quantity), _clip()]
    for number, curve in enumerate(curves):
        parts.append(_drawn(curve, scale, _COLOURS[number % len(_COLOURS)]))
    parts.append(_labels(curves, scale))
    content = "".join(parts)
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    svg = element("svg", content, xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img", aria_label=title)
    return svg + "\n"


def _range(low: float, high: float) -> tuple[float, float]:
    margin = max(0.06 * (high - low), 0.0005)
    return low - margin, high + margin


@dataclass(frozen=True, slots=True)
class _Scale:
    trials: int
    low: float
    high: float

    def x(self, trial: float) -> float:
        """The position of a trial; the first is at the left end."""
        return _LEFT + (_RIGHT - _LEFT) * (trial - 1) / max(1, self.trials - 1)

    def y(self, ratio: float) -> float:
        """The position of a ratio."""
        return _BOTTOM - (_BOTTOM - _TOP) * (ratio - self.low) / (self.high - self.low)

    def grid(self, quantity: str) -> str:
        """Lines and numbers."""
        parts = []
        for ratio in _ticks(self.low, self.high):
            y = self.y(ratio)
            parts.append(element("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_="grid"))
            parts.append(element("text", f"{ratio:.10g}", x=_LEFT - 8, y=y + 4, text_anchor="end", class_="small"))
        for trial in sorted({1, *(int(tick) for tick in _ticks(1, self.trials) if tick >= 1)}):
            x = self.x(trial)
            parts.append(element("text", str(trial), x=x, y=_BOTTOM + 18, text_anchor="middle", class_="small"))
        middle = (_LEFT + _RIGHT) / 2
        parts.append(element("text", "trials", x=middle, y=_BOTTOM + 36, text_anchor="middle", class_="small"))
        parts.append(element("text", escape(quantity), x=_RIGHT, y=22, text_anchor="end", class_="small"))
        return "".join(parts)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two values, about five."""
    rough = max((high - low) / _TICKS, 1e-9)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _clip() -> str:
    area = element("rect", x=_LEFT, y=_TOP, width=_RIGHT - _LEFT + 1, height=_BOTTOM - _TOP)
    return element("clipPath", area, id="plot")


def _drawn(curve: Curve, scale: _Scale, colour: str) -> str:
    """The steps of a line, and a dashed one at the untuned cost."""
    points = [(scale.x(trial), scale.y(ratio)) for trial, ratio in curve.ratios()]
    corners = points[:1] + [corner for (_, y), (x, low) in pairwise(points) for corner in ((x, y), (x, low))]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    tip = element("title", escape(f"{curve.label}: best {curve.costs[-1]:,.10g} after {len(curve.costs)} trials"))
    parts = [element("polyline", tip, points=path, class_="best", stroke=colour, clip_path="url(#plot)")]
    if curve.untuned is not None:
        y = scale.y(curve.untuned / curve.reference)
        parts.append(element("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_="untuned", stroke=colour))
    return "".join(parts)


def _labels(curves: Sequence[Curve], scale: _Scale) -> str:
    """The names at the ends of the lines, moved apart where they would overlap."""
    ends = sorted((scale.y(curve.ratios()[-1][1]), number) for number, curve in enumerate(curves) if curve.ratios())
    parts, last = [], 0.0
    for y, number in ends:
        last = max(y, last + 15)
        curve = curves[number]
        text = f"{curve.label} {curve.ratios()[-1][1]:.4f}"
        parts.append(
            element("text", escape(text), x=_RIGHT + 10, y=last + 4, style=f"fill: {_COLOURS[number % len(_COLOURS)]}")
        )
    if any(curve.untuned is not None for curve in curves):
        parts.append(element("text", "dashed: untuned", x=_WIDTH - 8, y=_HEIGHT - 8, text_anchor="end", class_="small"))
    return "".join(parts)
