"""Best so far against trials as SVG, after figure 12 of the TVM paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 740, 44, 372
_COLOURS = ("#2a6fb0", "#2a6fb0", "#3a8f4d", "#3a8f4d", "#7a3fa0", "#c2571a", "#777777")
_DASHES = ("", "7 3", "", "7 3", "2 3", "", "")
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 } .grid { stroke: #ccc; stroke-width: 0.6 }
polyline { fill: none; stroke-width: 2.2 } rect.page { fill: #fff }
"""


@dataclass(frozen=True, slots=True)
class SearchCurve:
    """A search: its name, and the share of the best known performance after each trial."""

    name: str
    shares: Sequence[float]


def convergence_picture(curves: Sequence[SearchCurve], layers: int) -> str:
    """The curves of searches, a mean over so many layers."""
    low = int(min(curve.shares[0] for curve in curves) * 10) / 10
    title = f"Best so far over the best known, mean of {layers} layers and 10 seeds"
    parts = [f"<style>{_STYLE}</style>", f'<rect class="page" width="{_WIDTH}" height="{_HEIGHT}"/>']
    parts.append(_text(_LEFT, 24, title))
    parts += _grid(low, len(curves[0].shares))
    parts += [_polyline(curve, number, low) for number, curve in enumerate(curves)]
    parts += [_label(curve, number) for number, curve in enumerate(curves)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
    return f'{head} aria-label="{escape(title)}">{"".join(parts)}</svg>\n'


def _x(trial: float, trials: int) -> float:
    return _LEFT + (_RIGHT - _LEFT) * trial / trials


def _y(share: float, low: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * (share - low) / (1 - low)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _grid(low: float, trials: int) -> list[str]:
    """Lines with their values, and the titles of the axes."""
    parts = []
    for step in range(round(low * 10), 11):
        at = _y(step / 10, low)
        parts += [_line(_LEFT, at, _RIGHT, at), _text(_LEFT - 8, at + 4, f"{10 * step} %", "end")]
    for trial in range(0, trials + 1, trials // 8):
        at = _x(trial, trials)
        parts += [_line(at, _TOP, at, _BOTTOM), _text(at, _BOTTOM + 18, str(trial), "middle")]
    return [*parts, _text((_LEFT + _RIGHT) / 2, _BOTTOM + 38, "trials", "middle")]


def _stroke(number: int) -> str:
    return f'stroke="{_COLOURS[number]}" stroke-dasharray="{_DASHES[number]}"'


def _polyline(curve: SearchCurve, number: int, low: float) -> str:
    count = len(curve.shares)
    points = " ".join(f"{_x(trial, count):.1f},{_y(share, low):.1f}" for trial, share in enumerate(curve.shares, 1))
    return f'<polyline points="{points}" {_stroke(number)}/>'


def _label(curve: SearchCurve, number: int) -> str:
    """A line of the legend, at the lower right."""
    y = _BOTTOM - 150 + 20 * number
    line = f'<line x1="{_RIGHT - 230}" y1="{y}" x2="{_RIGHT - 190}" y2="{y}" {_stroke(number)} stroke-width="2.2"/>'
    return line + _text(_RIGHT - 182, y + 4, curve.name)
