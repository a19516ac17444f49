# SPDX-License-Identifier: Apache-2.0
"""Elements of SVG and HTML, and the style of pages and pictures.

Colours are CSS classes. A picture that stands alone contains the style itself; a page has it once.
Pages are single files without scripts or references, so they work offline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from string import Template

WIDTH = 960  # of every picture, in units of its view box
LEFT = 72.0  # of a plot; labels stand to its left
RIGHT = WIDTH - 28.0  # the last tick's label is centred below the end
TITLE = 20.0  # the baseline of a title


# --- style ----------------------------------------------------------------------------------------

_LIGHT = {"text": "#1c1f24", "back": "#ffffff", "faint": "#5c6470", "rule": "#d9dde3", "track": "#f1f3f6"}
_DARK = {"text": "#e6e8eb", "back": "#14171b", "faint": "#9aa3ad", "rule": "#333a42", "track": "#1f242a"}

_COLOURS = {
    "#0072b2": "loadinp wait_load_to_compute vdla before run1 value0 network series0",
    "#d55e00": "gemm memory_bandwidth cpu after alone run0 front series1",
    "#009e73": "store busy gpu value2 series2",
    "#cc79a7": "vector wait_compute_to_store numpy series3",
    "#e69f00": "extension memory_latency copy value3 series4",
    "#56b4e9": "loadwgt wait_compute_to_load value1 series5",
    "#7b3f8c": "wait_store_to_compute series6",
    "#8a8f98": "loadother commands beaten series7",
    "#f0e442": "sync",
}
"""colour: the classes of its marks. Readers of any colour vision can tell these colours apart."""

_CHART = """
text { font: 13px system-ui, sans-serif } .small { font-size: 11px } .name { paint-order: stroke;
  stroke-width: 3px; stroke-linejoin: round } .grid, .line { stroke-width: 1 } .whole { stroke-width: 1.5 }
.roof, .curve { fill: none; stroke-width: 2; stroke-linejoin: round } .line { fill: none }
.curve, .partial { stroke: currentColor } .later, .dashed { stroke-dasharray: 6 4 }
.partial { fill-opacity: 0.15; stroke-dasharray: 4 3 } .beaten { opacity: 0.6 } .faint { opacity: 0.35 }
.code { font-family: ui-monospace, monospace }
"""
_CHART_COLOURS = Template("""
text { fill: $text } .small { fill: $faint } .name { stroke: $back } .grid { stroke: $rule } .line { stroke: $faint }
.track { fill: $track } .idle { fill: $rule } .roof, .whole { stroke: $text } .later { stroke: #d55e00 }
.strong { fill: $text } .back { fill: $back } .slice { stroke: $back; stroke-width: 0.6 }
""")
_PAGE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem } h3 { font-size: 1rem; margin: 1rem 0 .25rem }
p { margin: .25rem 0 .75rem } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem 1rem .2rem 0; border-bottom: 1px solid; text-align: right; font-weight: 400 }
th:first-child { text-align: left } svg { display: block; width: 100%; height: auto }
.legend { font-size: .85rem } .legend span { margin-right: 1rem; white-space: nowrap }
.legend svg { display: inline; width: 12px; vertical-align: -1px }
.scroll { overflow-x: auto; font-size: 14px } .scroll th, .scroll td { white-space: nowrap }
.scroll :is(th, td):is(:nth-child(2), :nth-child(3), :last-child) { text-align: left }
"""
_PAGE_COLOURS = Template("""
body { color: $text; background: $back } .note, .legend, thead th { color: $faint } th, td { border-color: $rule }
""")


def _themed(rules: Template) -> str:
    dark = rules.substitute(_DARK)
    return f"{rules.substitute(_LIGHT)}@media (prefers-color-scheme: dark) {{{dark}}}\n"


_FILLS = "\n".join(
    f".{name} {{ color: {colour}; fill: currentColor }}" for colour, names in _COLOURS.items() for name in names.split()
)
CHART_STYLE = f"{_FILLS}{_CHART}{_themed(_CHART_COLOURS)}"
_PAGE_STYLE = f"{_PAGE}{_themed(_PAGE_COLOURS)}{CHART_STYLE}"
_FRAGMENT = """
strong { display: block; margin: .25em 0 } p { margin: .25em 0; opacity: .75 }
table { border: 0; border-collapse: collapse; margin: .5em 0; font-size: .9em; font-variant-numeric: tabular-nums }
table tr:nth-child(n) { background: none }
table.facts td, table.listing th, table.listing td { border: 0; padding: .15em 1.2em .15em 0; font-weight: 400;
  text-align: left; vertical-align: top }
table.facts td:first-child, table.listing th { opacity: .75; white-space: nowrap }
table.listing th.number, table.listing td.number { text-align: right }
table.listing th:nth-child(n), table.listing td:nth-child(n) { border-bottom: 1px solid #8885; white-space: nowrap }
pre { white-space: pre; margin: .5em 0; overflow-x: auto; padding: .6em; background: #8881;
  font-family: ui-monospace, monospace; font-size: .85em; line-height: 1.4 }
details { margin: .5em 0 } summary { cursor: pointer }
svg { display: block; width: 100%; max-width: 60em; height: auto }
.legend { font-size: .85em; opacity: 1 } .legend span { margin-right: 1em; white-space: nowrap }
.legend svg { display: inline; width: 12px; vertical-align: -1px }
.word { color: #3b7dd8 } .type { color: #2a9187 } .note { opacity: .65 }
text { fill: currentColor } .small { fill: currentColor; opacity: .75 } .strong { opacity: 1 }
.grid { stroke: #8884 } .line { stroke: #888 } .track { fill: #8882 } .idle { fill: #8885 }
.roof { stroke: currentColor } .whole { stroke: #888 } .later { stroke: #d55e00 }
"""
FRAGMENT_STYLE = f"{_FILLS}{_CHART}{_FRAGMENT}"
"""For a part of somebody else's page: greys that suit light and dark, the text's own colour."""


# --- elements -------------------------------------------------------------------------------------


def element(name: str, content: str = "", **attributes: object) -> str:
    """An element of SVG or HTML; `_` in a name of an attribute is `-`, and `class_` is `class`."""
    words = (f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for key, value in attributes.items())
    return f"<{name}{''.join(words)}>{content}</{name}>"


def _attribute(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))


def chart_text(x: float, y: float, words: str, class_: str = "", anchor: str = "start", **attributes: object) -> str:
    """Text at a point."""
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor, **attributes)


def chart_line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def chart_mark(shape: str, row: object, tip: str, **attributes: object) -> str:
    """A shape that shows figures: those of `row` of a table, which `tip` says."""
    return element(shape, element("title", escape(tip)), data_row=row, **attributes)


def chart_svg(height: float, parts: Iterable[str], label: str, *, alone: bool = False) -> str:
    """A picture; one that may stand alone has its style, a background, and its label as title."""
    back = element("rect", width=WIDTH, height=height, class_="back")
    head = element("style", CHART_STYLE) + back + chart_text(LEFT, TITLE, label) if alone else ""
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img"'
    return f'{svg} aria-label="{escape(label)}">{head}{"".join(parts)}</svg>\n'


# --- pages ----------------------------------------------------------------------------------------


def html_page(title: str, parts: Iterable[str]) -> str:
    """A page that begins with its title."""
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f"{meta}{element('title', escape(title))}{element('style', _PAGE_STYLE)}"
    body = "\n".join([html_text("h1", title), *parts])
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, whose first column names its rows."""
    body = "".join(_row(cells, "td") for cells in rows)
    return element("table", element("thead", _row(head, "th")) + element("tbody", body))


def _row(cells: Sequence[str], name: str) -> str:
    return element("tr", html_text("th", cells[0]) + html_text(name, *cells[1:]))


def html_text(name: str, *words: str) -> str:
    """An element for each text, such as paragraphs."""
    return "".join(element(name, escape(text)) for text in words)


def html_note(text: str) -> str:
    """A paragraph that says what is below it."""
    return element("p", escape(text), class_="note")


def html_legend(labels: Mapping[str, str]) -> str:
    """A line of coloured squares with their labels, by CSS class."""
    items = (
        f'<span><svg width="12" height="12"><rect width="12" height="12" class="{class_}"></rect></svg> '
        f"{escape(label)}</span>"
        for class_, label in labels.items()
    )
    return element("p", " ".join(items), class_="legend")
