# SPDX-License-Identifier: Apache-2.0
"""Parts of HTML for the output of a notebook, which has a style and a background of its own.

Every part is bounded in size and says what it leaves out. The style is with each output, holds
inside of it only, and takes the colour of text from the notebook, light or dark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from vdla.charts.elements import FRAGMENT_STYLE, element, html_text

MOST_ROWS = 16
MOST_LINES = 60
_MOST_CHARACTERS = 160  # of a line or a cell
_CLASS = "vdla-html"
_NUMBER = re.compile(r"[-+]?[\d,.]+( (%|ms|MHz|GOPS|KiB|bytes))?|[-.]|")


def _scoped(style: str) -> str:
    """The rules of a style, each for what is inside of a fragment."""

    def rule(match: re.Match[str]) -> str:
        selectors = (f"div.{_CLASS} {selector.strip()}" for selector in match[1].split(","))
        return f"{', '.join(selectors)} {{{match[2]}}}"

    return re.sub(r"([^{}]+)\{([^{}]*)\}", rule, style)


_STYLE = element("style", _scoped(FRAGMENT_STYLE))


def html_fragment(title: str, parts: Iterable[str]) -> str:
    """An output: a line of title, and parts below."""
    content = f"{_STYLE}{html_text('strong', shortened(title))}{''.join(parts)}"
    return element("div", content, class_=_CLASS, style="overflow-x: auto")


def shortened(text: str) -> str:
    """A text that fits a line."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def html_facts(facts: Iterable[tuple[str, str]]) -> str:
    """Names with what they are."""
    return element("table", "".join(_row(cells) for cells in facts), class_="facts")


def html_listing(head: Sequence[str], rows: Iterable[Sequence[str]], most: int = MOST_ROWS) -> str:
    """A table of the first rows; numbers stand to the right."""
    every = list(rows)
    shown = [_row(cells) for cells in every[:most]]
    columns = [[row[place] for row in every] for place in range(len(head))]
    classes = ["number" if all(map(_is_number, cells)) else None for cells in columns]
    top = element("tr", "".join(_cell("th", name, class_) for name, class_ in zip(head, classes, strict=True)))
    table = element("table", f"<thead>{top}</thead><tbody>{''.join(shown)}</tbody>", class_="listing")
    return table + left_out(len(every) - len(shown), "row")


def left_out(count: int, noun: str) -> str:
    """A line that says how much more there is, if there is."""
    return html_text("p", f"… and {count:,} more {noun}{'' if count == 1 else 's'}") if count > 0 else ""


def _row(cells: Sequence[str]) -> str:
    return element("tr", "".join(_cell("td", cell, "number" if _is_number(cell) else None) for cell in cells))


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def _cell(name: str, text: str, class_: str | None) -> str:
    return element(name, escape(shortened(text)), **({"class_": class_} if class_ else {}))


def html_folded(summary: str, *parts: str) -> str:
    """Parts that the reader opens."""
    return element("details", html_text("summary", summary) + "".join(parts))


# --- code -----------------------------------------------------------------------------------------

_WORDS = "for|in|if|with|block(?= )|where|init|reduce|step|atomic|shuffle|barrier|prefetch|alloc|heap_alloc|def|return"
_KINDS = "range|parallel|vectorized|unrolled|vthread|bind"
_TYPES = "bool|str|(?:u?int|float|bfloat|complex)[0-9]+"
_TOKEN = re.compile(rf"(?P<note>#.*)|\b(?P<type>{_TYPES})\b|\b(?P<word>{_WORDS}|{_KINDS})\b")


def html_code(lines: Sequence[str], most: int = MOST_LINES) -> str:
    """The first lines of a loop nest or of Python, with words, types and comments in colours."""
    text = "\n".join(_coloured(shortened(line)) for line in lines[:most])
    return element("pre", text) + left_out(len(lines) - most, "line")


def _coloured(line: str) -> str:
    parts, end = [], 0
    for match in _TOKEN.finditer(line):
        parts += [escape(line[end : match.start()]), element("span", escape(match[0]), class_=str(match.lastgroup))]
        end = match.end()
    return "".join([*parts, escape(line[end:])])
