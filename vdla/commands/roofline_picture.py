"""The roofline of an evaluation as SVG text: each layer before and after, below both roofs.

Colours are of its own, so that the picture stands alone; the roof of the machine with the extension
is dashed where it differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from vdla.commands import CommandError
from vdla.commands.chart_labels import LABEL_STYLE, ChartPoint, chart_labels
from vdla.commands.run_charts import LEFT, RIGHT, LogScale, chart_grid, chart_svg, chart_text, element
from vdla.hardware.config import Config
from vdla.runtime.studies.report import Point, network_point, point_of
from vdla.runtime.studies.verdict import ExtensionVerdict
from vdla.support.atomic import write_bytes, write_text

_HEIGHT, _TOP, _AXIS = 420.0, 28, 34
_MOST_NAMED = 12  # layers; of more, those in which the extension is used have names
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 } .small { font-size: 11px; fill: #5c6470 }
.grid { stroke: #d9dde3; stroke-width: 1 } .roof { fill: none; stroke: #222; stroke-width: 2 }
.later { stroke: #d55e00; stroke-dasharray: 6 4 } .move { stroke: #8a8f98; stroke-width: 1 }
.before { fill: #0072b2 } .after { fill: #d55e00 } .whole { stroke: #222; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .name { stroke: #14171b } .small { fill: #9aa3ad } .grid { stroke: #333a42 }
  .roof, .whole { stroke: #ddd } .later { stroke: #d55e00 }
}
"""


@dataclass(frozen=True, slots=True)
class _Moved:
    """A layer, or all of them, from before to after."""

    name: str
    before: Point | None
    after: Point | None
    named: bool = True
    whole: bool = False

    @property
    def radius(self) -> float:
        return 7 if self.whole else 5

    @property
    def points(self) -> list[Point]:
        return [point for point in (self.before, self.after) if point is not None]


def roofline_picture(verdict: ExtensionVerdict) -> str:
    """The picture."""
    moved = list(_moved(verdict))
    config, rates = verdict.before, (verdict.steps_before, verdict.steps_after)
    peaks = [_gops(rate, config) for rate in rates]
    points = [point for one in moved for point in one.points]
    knees = [peak * 1000 / config.clock_mhz / config.peak_bytes_per_cycle for peak in peaks]
    at, height = [*(point.intensity for point in points), *knees], [point.gops(config) for point in points]
    x = LogScale(min(at) / 2, max(at) * 2, LEFT, RIGHT)
    y = LogScale(min([*height, peaks[0] / 8]) / 1.5, max(peaks) * 1.5, _HEIGHT - _AXIS, _TOP)
    parts = [element("style", LABEL_STYLE + _STYLE), chart_grid(x, y, _HEIGHT, _TOP)]
    parts += [_roof(x, y, *pair, f"roof{' later' * late}") for late, pair in enumerate(_roofs(knees, peaks))]
    parts += [_drawn(one, x, y, config) for one in moved]
    placed = [point for one in moved for point in _placed(one, x, y, config)]
    parts.append(chart_labels(placed, _TOP, _HEIGHT - _AXIS))
    title = f"{', '.join(each.name for each in verdict.added)} on {config.name}: before (blue) and after (orange)"
    return chart_svg(_HEIGHT, "".join([*parts, chart_text(LEFT, 16, title)]), title) + "\n"


def _moved(verdict: ExtensionVerdict) -> Iterator[_Moved]:
    if len(verdict.compared) > 1:
        yield _Moved("all layers", network_point(verdict, after=False), network_point(verdict, after=True), whole=True)
    few = len(verdict.layers) <= _MOST_NAMED
    for layer in verdict.layers:
        found = ((layer.steps_before, layer.before.cost), (layer.steps, layer.after.cost))
        before, after = (None if one is None else point_of(steps, one) for steps, one in found)
        yield _Moved(layer.name, before, after, named=few or layer.helps)


def _gops(steps_a_cycle: float, config: Config) -> float:
    return 2 * steps_a_cycle * config.clock_mhz / 1000


def _roofs(knees: Sequence[float], peaks: Sequence[float]) -> list[tuple[float, float]]:
    """Knee and peak of each machine; one where they are equal."""
    return list(dict.fromkeys(zip(knees, peaks, strict=True)))


def _roof(x: LogScale, y: LogScale, knee: float, peak: float, class_: str) -> str:
    low = max(x.low, knee * y.low / peak)  # where the slope leaves the picture
    line = [(low, peak * low / knee), (knee, peak), (x.high, peak)]
    points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line)
    label = chart_text(RIGHT, y(peak) - 6, f"peak {peak:,.1f} GOPS", "small", "end")
    return element("polyline", points=points, class_=class_) + label


def _drawn(one: _Moved, x: LogScale, y: LogScale, config: Config) -> str:
    parts = []
    places = [(x(point.intensity), y(point.gops(config))) for point in one.points]
    if len(places) == 2:
        (x1, y1), (x2, y2) = places
        parts.append(element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="move"))
    for class_, point in (("before", one.before), ("after", one.after)):
        if point is not None:
            title = f"{one.name} {class_}: {point.gops(config):,.1f} GOPS, {point.intensity:,.1f} operations a byte"
            place = {"cx": x(point.intensity), "cy": y(point.gops(config)), "r": one.radius}
            class_ += " whole" * one.whole
            parts.append(element("circle", element("title", escape(title)), **place, class_=class_))
    return "".join(parts)


def _placed(one: _Moved, x: LogScale, y: LogScale, config: Config) -> Iterator[ChartPoint]:
    """The circles, of which the last one has the name."""
    for number, point in enumerate(one.points, 1):
        name = one.name if one.named and number == len(one.points) else ""
        class_ = "" if one.whole else "small"
        yield ChartPoint(x(point.intensity), y(point.gops(config)), one.radius, name, class_)


def write_picture(path: Path, svg: str) -> None:
    """Write a picture as SVG, or as PNG by the suffix; CommandError without the extra."""
    if path.suffix == ".svg":
        write_text(path, svg)
        return
    try:
        import resvg_py
        from font_roboto import Roboto
    except ImportError as error:
        missing = str(error.name).replace("_", "-")
        raise CommandError(f"picture: PNG needs the package {missing}, got none (pip install 'vdla[png]')") from None
    svg = svg.replace("system-ui", "Roboto")
    content = resvg_py.svg_to_bytes(
        svg_string=svg, background="#fff", zoom=2, font_files=[Roboto], skip_system_fonts=True
    )
    write_bytes(path, bytes(content))
