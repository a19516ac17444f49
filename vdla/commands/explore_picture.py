"""The picture of an exploration as SVG text: speed against LUTs, one circle a machine.

The area of a circle is in proportion to the machine's DSP slices. Machines of the front that no
smaller one overtakes are joined; the others of the front save DSP slices or memories.
"""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise

from vdla.commands.chart_labels import LABEL_STYLE, ChartPoint, chart_labels
from vdla.commands.explore_tables import machine_cells
from vdla.commands.run_charts import LEFT, RIGHT, chart_line, chart_svg, chart_text, element
from vdla.runtime.studies.explore import Exploration, ExploredMachine

_HEIGHT, _TOP, _BOTTOM = 420.0, 40.0, 376.0
_LARGEST = 14.0  # radius of the machine of most DSP slices
_TICKS = 6
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 } .small { font-size: 11px; fill: #5c6470 }
.grid { stroke: #d9dde3; stroke-width: 1 } .front { fill: #d55e00; fill-opacity: 0.85 }
.beaten { fill: #8a8f98; fill-opacity: 0.5 } .partial { fill-opacity: 0.15; stroke-dasharray: 4 3 }
.partial.front { stroke: #d55e00 } .partial.beaten { stroke: #8a8f98 } .line { stroke: #d55e00; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .name { stroke: #14171b } .small { fill: #9aa3ad } .grid { stroke: #333a42 }
}
"""


def exploration_picture(found: Exploration) -> str:
    """The picture; empty axes where no machine was measured."""
    title = f"{found.name} on {found.part.name}: frames a second against LUTs; the front is orange"
    if any(machine.area is not None and not machine.area.complete for machine in found.measured):
        title += "; dashed: without the LUTs of extensions"
    parts = [element("style", LABEL_STYLE + _STYLE), chart_text(LEFT, 22, title)]
    if found.measured:
        scale = _Scale(found)
        parts.append(scale.grid())
        parts += [chart_line(*scale.at(one), *scale.at(other), "line") for one, other in pairwise(_stairs(found))]
        drawn = [machine for machine in found.measured if machine not in found.front]
        parts += [scale.circle(machine, "beaten") for machine in drawn]
        parts += [scale.circle(machine, "front") for machine in found.front]
        placed = [scale.point(machine, _name(machine)) for machine in found.front]
        parts.append(chart_labels([*placed, *(scale.point(machine) for machine in drawn)], _TOP, _BOTTOM))
    return chart_svg(_HEIGHT, "".join(parts), title) + "\n"


def _name(machine: ExploredMachine) -> str:
    return ", ".join(f"{name}={str(value).rpartition('/')[2]}" for name, value in machine.point.items())


def _stairs(found: Exploration) -> list[ExploredMachine]:
    """The machines of the front that are faster than all with fewer LUTs, in that order."""
    stairs: list[ExploredMachine] = []
    for machine in sorted(found.front, key=lambda machine: machine.objectives[1]):
        if not stairs or machine.frames_per_second > stairs[-1].frames_per_second:
            stairs.append(machine)
    return stairs


class _Scale:
    """Both axes begin at 0."""

    def __init__(self, found: Exploration) -> None:
        areas = [machine.area.usage for machine in found.measured if machine.area is not None]
        self._luts, self._dsp = 1.1 * max(area.lut for area in areas), max(1, *(area.dsp for area in areas))
        self._speed = 1.1 * found.measured[0].frames_per_second

    def at(self, machine: ExploredMachine) -> tuple[float, float]:
        """The place of a machine."""
        assert machine.area is not None
        x = LEFT + (RIGHT - LEFT) * machine.area.usage.lut / self._luts
        return x, _BOTTOM - (_BOTTOM - _TOP) * machine.frames_per_second / self._speed

    def circle(self, machine: ExploredMachine, class_: str) -> str:
        """A machine; its figures appear where a browser points at it."""
        assert machine.area is not None
        point = self.point(machine)
        title = element("title", escape(f"{_name(machine)}: {', '.join(machine_cells(machine)[len(machine.point) :])}"))
        class_ += "" if machine.area.complete else " partial"
        return element("circle", title, cx=point.x, cy=point.y, r=point.radius, class_=class_)

    def point(self, machine: ExploredMachine, name: str = "") -> ChartPoint:
        """A machine's circle and its name."""
        assert machine.area is not None
        radius = max(3.0, _LARGEST * math.sqrt(machine.area.usage.dsp / self._dsp))
        return ChartPoint(*self.at(machine), radius, name)

    def grid(self) -> str:
        """Lines at round numbers."""
        parts = []
        for luts in _round_ticks(self._luts):
            x = LEFT + (RIGHT - LEFT) * luts / self._luts
            parts.append(chart_line(x, _TOP, x, _BOTTOM, "grid"))
            parts.append(chart_text(x, _BOTTOM + 16, f"{luts:,.0f}", "small", "middle"))
        for speed in _round_ticks(self._speed):
            y = _BOTTOM - (_BOTTOM - _TOP) * speed / self._speed
            parts.append(chart_line(LEFT, y, RIGHT, y, "grid"))
            parts.append(chart_text(LEFT - 6, y + 4, f"{speed:,g}", "small", "end"))
        parts.append(chart_text((LEFT + RIGHT) / 2, _HEIGHT - 8, "LUTs", "small", "middle"))
        return "".join([*parts, chart_text(0, _TOP - 6, "frames/s", "small")])


def _round_ticks(most: float) -> list[float]:
    """About `_TICKS` multiples of 1, 2 or 5 times a power of ten, from 0."""
    power = 10 ** math.floor(math.log10(most / _TICKS))
    step = next(part * power for part in (1, 2, 5, 10) if most <= _TICKS * part * power)
    return [round(number * step, 9) for number in range(int(most / step) + 1)]
