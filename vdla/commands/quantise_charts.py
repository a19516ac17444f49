"""The layers of a quantised network as SVG text: bars of their signal-to-noise ratios.

The upper bar of a layer is its ratio in the network, where errors add up from layer to layer; the
lower one is that of the network's outputs if only this layer is quantised.
"""

from __future__ import annotations

from html import escape

from vdla.commands.run_charts import element
from vdla.runtime.network.quantisation_report import LayerReport, QuantisationReport

_WIDTH, _LEFT, _RIGHT = 960, 240, 900
_PITCH, _BAR, _TOP = 26, 9, 44
_MOST_DB = 60.0  # beyond it, errors are those of float32 for all purposes
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222 }
.network { fill: #2a6fb0 } .alone { fill: #e0992a } .grid { stroke: #bbb; stroke-width: 0.5 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .grid { stroke: #555 } }
"""


def layer_chart(report: QuantisationReport) -> str:
    """One row a layer, from 0 to 60 dB."""
    height = _TOP + _PITCH * len(report.layers) + 12
    rows = [_row(layer, _TOP + _PITCH * i) for i, layer in enumerate(report.layers)]
    content = element("style", _STYLE) + _axis(height) + _legend(report) + "".join(rows)
    return element(
        "svg", content, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH} {height}", role="img",
        aria_label=f"signal-to-noise ratios of the layers of {report.network}",
    ) + "\n"  # fmt: skip


def _x(ratio: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * min(max(ratio, 0.0), _MOST_DB) / _MOST_DB


def _axis(height: int) -> str:
    lines = []
    for ratio in range(0, int(_MOST_DB) + 1, 10):
        x = _x(ratio)
        lines.append(element("line", x1=x, x2=x, y1=_TOP - 6, y2=height - 8, class_="grid"))
        lines.append(element("text", f"{ratio} dB", x=x, y=_TOP - 12, text_anchor="middle"))
    return "".join(lines)


def _legend(report: QuantisationReport) -> str:
    marks = [("network", "in the network"), ("alone", "quantised alone")]
    if all(layer.alone_db is None for layer in report.layers):
        marks = marks[:1]
    parts = []
    for i, (name, text) in enumerate(marks):
        parts.append(element("rect", x=8 + 115 * i, y=8, width=10, height=10, class_=name))
        parts.append(element("text", text, x=22 + 115 * i, y=17))
    return "".join(parts)


def _row(layer: LayerReport, y: int) -> str:
    """The name and the bars of a layer; its figures appear where a browser points at it."""
    bars = [_bar(layer.snr_db, y, "network")]
    if layer.alone_db is not None:
        bars.append(_bar(layer.alone_db, y + _BAR, "alone"))
    tip = f"{layer.op}: {layer.snr_db:.1f} dB, {100 * layer.saturated:.3f} % saturated"
    name = element("text", escape(layer.name), x=_LEFT - 8, y=y + 13, text_anchor="end")
    return element("g", element("title", escape(tip)) + name + "".join(bars))


def _bar(ratio: float, y: int, kind: str) -> str:
    return element("rect", x=_LEFT, y=y, width=_x(ratio) - _LEFT, height=_BAR - 1, class_=kind)
