"""Charts of runs as SVG text: the roofline, the timeline of the units, the shares of their cycles.

Colours are CSS classes, which `run_page` defines for light and for dark backgrounds.
Lengths are in units of the view box, which is `_WIDTH` wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape

from vdla.commands.run_tables import COUNTER_LABELS, Runs, attained_gops, intensity, ridge, roof_gops
from vdla.hardware.isa import COL, EXTENSION, Buffer, Opcode, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats

_WIDTH = 960
LEFT = 72  # of the plot; labels stand to its left
RIGHT = _WIDTH - 28  # the last tick's label is centred below the end
_ROW = 22  # height of a bar
_PITCH = 30  # from a bar to the next
_AXIS = 34  # below the plot: ticks and the title of the axis
MOST_TICKS = 9
_MERGE_BELOW = 0.6  # shorter slices of one kind are drawn as one when no gap can be seen between them


def element(name: str, content: str = "", **attributes: object) -> str:
    """An element of SVG or HTML; `_` in a name of an attribute is `-`, and `class_` is `class`."""
    words = (f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for key, value in attributes.items())
    return f"<{name}{''.join(words)}>{content}</{name}>"


def _attribute(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))


def chart_svg(height: float, content: str, label: str) -> str:
    """A picture of the full width."""
    box = f"0 0 {_WIDTH} {height:g}"
    return element("svg", content, viewBox=box, xmlns="http://www.w3.org/2000/svg", role="img", aria_label=label)


def chart_text(x: float, y: float, text: str, class_: str = "", anchor: str = "start") -> str:
    """Text at a point."""
    return element("text", escape(text), x=x, y=y, class_=class_, text_anchor=anchor)


def chart_line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


# --- the roofline ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogScale:
    """A logarithmic scale from the values `low..high` to the positions `begin..end`."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """The position of a value."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> Iterator[float]:
        """The powers of two within the scale."""
        first, last = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
        return (2.0**exponent for exponent in range(first, last + 1))


def roofline(runs: Runs) -> str:
    """Operations a second over operations a byte, of runs on one machine, below the roof."""
    height, stats = 320.0, list(runs.values())
    knee, peak = ridge(stats[0]), stats[0].config.peak_gops
    at = [max(intensity(run), 1e-3) for run in stats]
    x = LogScale(min(*at, knee) / 8, max(*at, knee) * 4, LEFT, RIGHT)
    y = LogScale(peak / 32, peak * 2, height - _AXIS, 12)
    parts = [chart_grid(x, y, height)]
    roof = [(x.low, peak * x.low / knee), (knee, peak), (x.high, peak)]
    points = " ".join(f"{x(a):.1f},{max(12.0, min(height - _AXIS, y(b))):.1f}" for a, b in _clipped(roof, y.low))
    parts.append(element("polyline", points=points, class_="roof"))
    bytes_per_cycle = stats[0].config.peak_bytes_per_cycle
    parts.append(chart_text(RIGHT, y(peak) - 6, f"peak {peak:,.1f} GOPS", "small", "end"))
    parts.append(chart_text(x(knee) - 8, y(peak / 3), f"{bytes_per_cycle:g} bytes a cycle", "small", "end"))
    for index, (label, run) in enumerate(runs.items()):
        parts.append(_point(x(at[index]), y(max(attained_gops(run), y.low)), label, run, index))
    return chart_svg(height, "".join(parts), "roofline")


def _clipped(line: list[tuple[float, float]], low: float) -> list[tuple[float, float]]:
    """The roof from where it rises above `low`: its first segment goes through the origin."""
    (x0, y0), *others = line
    return [(x0 * low / y0, low) if y0 < low else (x0, y0), *others]


def chart_grid(x: LogScale, y: LogScale, height: float, top: float = 12) -> str:
    """The grid and the axes of a roofline, below `top`."""
    bottom = height - _AXIS
    parts = []
    for tick in x.ticks():
        parts.append(chart_line(x(tick), top, x(tick), bottom, "grid"))
        parts.append(chart_text(x(tick), bottom + 14, f"{tick:g}", "small", "middle"))
    for tick in y.ticks():
        parts.append(chart_line(LEFT, y(tick), RIGHT, y(tick), "grid"))
        parts.append(chart_text(LEFT - 6, y(tick) + 4, f"{tick:g}", "small", "end"))
    parts.append(chart_text((LEFT + RIGHT) / 2, height - 2, "operations per byte", "small", "middle"))
    parts.append(chart_text(0, top - 2, "GOPS", "small"))
    return "".join(parts)


def _point(x: float, y: float, label: str, stats: RunStats, index: int) -> str:
    share = f"{100 * attained_gops(stats) / roof_gops(stats):.1f} % of the roof" if stats.macs else "no GEMM"
    dot = element("circle", element("title", escape(f"{label}: {share}")), cx=x, cy=y, r=6, class_=f"run{index}")
    below = 22 + 16 * (index // 2)  # every other label, so that two points near each other can be told apart
    return dot + chart_text(
        x,
        y + (below if index % 2 else -below + 10),
        f"{label}: {attained_gops(stats):,.1f} GOPS, {share}",
        "",
        "middle",
    )


# --- the timeline ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Slice:
    """`count` instructions of one kind drawn as one bar, from `start` to `end` in the view box."""

    kind: str
    start: float
    end: float
    title: str
    count: int = 1


_KINDS = ("LOAD inp", "LOAD wgt", "LOAD other", "GEMM", "VECTOR", "extension", "STORE", "SYNC")
"""The kinds of slices, in the order of the legend; each is a CSS class without its space."""


def timeline(program: Program, stats: RunStats, begin: int, end: int) -> str:
    """The instructions of every unit in the cycles `begin` to `end`, a row a unit."""
    bottom = len(Unit) * _PITCH
    tracks = [element("rect", x=LEFT, y=u * _PITCH, width=RIGHT - LEFT, height=_ROW, class_="track") for u in Unit]
    parts = [*tracks, _cycle_axis(begin, end, bottom)]
    for unit in Unit:
        top = unit * _PITCH
        parts.append(chart_text(0, top + _ROW * 0.7, unit.label))
        parts += [_bar(item, top) for item in _merge(_slices(program, stats, unit, begin, end))]
    return chart_svg(bottom + _AXIS, "".join(parts), "timeline")


def _slices(program: Program, stats: RunStats, unit: Unit, begin: int, end: int) -> Iterator[_Slice]:
    columns, scale = program.columns, (RIGHT - LEFT) / max(1, end - begin)
    chosen = (columns[:, COL["unit"]] == unit) & (stats.ends >= begin) & (stats.starts < end)
    for number in chosen.nonzero()[0].tolist():
        first, last = int(stats.starts[number]), int(stats.ends[number]) + 1
        kind = _kind(columns[number])
        left = LEFT + (max(first, begin) - begin) * scale
        right = LEFT + (min(last, end) - begin) * scale
        yield _Slice(kind, left, right, f"{kind}, instruction {number}: cycles {first:,} to {last - 1:,}")


def _kind(row: object) -> str:
    fields = list(row)  # type: ignore[call-overload]  # a row of the program's table
    if fields[COL["opcode"]] == EXTENSION:
        return "extension"
    opcode = Opcode(int(fields[COL["opcode"]]))
    if opcode is not Opcode.LOAD:
        return opcode.name
    buffer = Buffer(int(fields[COL["buffer"]]))
    return f"LOAD {buffer.name.lower()}" if buffer in (Buffer.INP, Buffer.WGT) else "LOAD other"


def _merge(slices: Iterator[_Slice]) -> Iterator[_Slice]:
    """The slices, short neighbours of one kind as one."""
    current: _Slice | None = None
    for item in slices:
        if current is None:
            current = item
        elif item.kind == current.kind and _adjoin(current, item):
            count = current.count + 1
            current = replace(current, end=item.end, count=count, title=f"{item.kind}, {count} instructions")
        else:
            yield current
            current = item
    if current is not None:
        yield current


def _adjoin(one: _Slice, other: _Slice) -> bool:
    """Whether `other` is short, and too close to `one` for a gap to be seen."""
    return max(other.start - one.end, other.end - other.start) < _MERGE_BELOW


def _bar(item: _Slice, top: float) -> str:
    width = max(0.4, item.end - item.start)
    title = element("title", escape(item.title))
    return element("rect", title, x=item.start, y=top, width=width, height=_ROW, class_=_class(item.kind))


def _class(kind: str) -> str:
    return kind.replace(" ", "").replace(">", "").lower()


def _cycle_axis(begin: int, end: int, top: float) -> str:
    """Ticks at round numbers of cycles."""
    span = max(1, end - begin)
    magnitude = 10 ** max(0, math.floor(math.log10(span)) - 1)
    step = next(part * magnitude for part in (1, 2, 5, 10, 20, 50, 100) if span <= MOST_TICKS * part * magnitude)
    parts = []
    for cycle in range(-(-begin // step) * step, end + 1, step):
        x = LEFT + (cycle - begin) * (RIGHT - LEFT) / span
        parts.append(chart_line(x, 0, x, top, "tick"))
        parts.append(chart_text(x, top + 10, f"{cycle:,}", "small", "middle"))
    parts.append(chart_text((LEFT + RIGHT) / 2, top + 28, "cycles", "small", "middle"))
    return "".join(parts)


# --- the shares of cycles -------------------------------------------------------------------------


def shares(stats: RunStats) -> str:
    """What the cycles of every unit went to, a bar a unit."""
    parts = []
    for row, (unit, counters) in enumerate(stats.counters.items()):
        top, left = row * _PITCH, float(LEFT)
        parts.append(chart_text(0, top + _ROW * 0.7, unit))
        for counter, cycles in counters.items():
            width = (RIGHT - LEFT) * cycles / max(1, stats.total_cycles)
            if cycles:
                title = f"{unit}, {COUNTER_LABELS[counter]}: {100 * cycles / stats.total_cycles:.1f} %"
                parts.append(_share(left, top, width, title, counter))
            left += width
    return chart_svg(len(stats.counters) * _PITCH, "".join(parts), "shares of cycles")


def _share(left: float, top: float, width: float, title: str, counter: str) -> str:
    hover = element("title", escape(title))
    return element("rect", hover, x=left, y=top, width=max(0.2, width), height=_ROW, class_=counter)


# --- legends --------------------------------------------------------------------------------------


def legend(labels: Mapping[str, str]) -> str:
    """A line of coloured squares with their labels, by CSS class."""
    items = (
        element(
            "span", element("svg", element("rect", width=12, height=12, class_=class_), width=12, height=12) + label
        )
        for class_, label in ((class_, " " + escape(label)) for class_, label in labels.items())
    )
    return element("p", " ".join(items), class_="legend")


def timeline_legend(programs: Iterable[Program]) -> str:
    """The kinds of the programs' instructions."""
    used = {_kind(row) for program in programs for row in program.columns}
    return legend({_class(kind): kind for kind in _KINDS if kind in used})


def shares_legend() -> str:
    """The causes under which a unit's cycles are counted."""
    return legend(COUNTER_LABELS)
