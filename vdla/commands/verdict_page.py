"""A page of HTML about an evaluation: the sentences, the roofline, every layer, the reasons.

The page is one file without scripts or references, so it works offline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from vdla.commands.roofline_picture import roofline_picture
from vdla.commands.run_charts import element
from vdla.commands.run_page import html_document
from vdla.commands.verdict_tables import (
    ACCURACY_COLUMNS,
    COLUMNS,
    accuracy_rows,
    accuracy_title,
    layer_rows,
    network_rows,
    notes_of,
    reasons_of,
    title_of,
)
from vdla.runtime.studies.verdict import ExtensionVerdict


def verdict_page(verdict: ExtensionVerdict) -> str:
    """The page."""
    title = title_of(verdict)
    parts = [
        element("h1", escape(title)),
        *(element("p", escape(f"{plug_in.name}: {plug_in.doc}")) for plug_in in verdict.added),
        element("ul", "".join(element("li", escape(note)) for note in notes_of(verdict))),
        element("h2", "Roofline"),
        roofline_picture(verdict),
    ]
    if verdict.compared:
        parts += [element("h2", "All layers"), html_table(("", "before", "after"), network_rows(verdict))]
    if verdict.network is not None:
        rows = accuracy_rows(verdict.network)
        parts += [element("h2", "Accuracy"), element("p", escape(accuracy_title(verdict.network)))]
        parts.append(html_table(ACCURACY_COLUMNS, rows))
    parts += [element("h2", "Layers"), html_table(COLUMNS, layer_rows(verdict))]
    reasons = [f"{', '.join(names)}: {reason}" for reason, names in reasons_of(verdict).items()]
    if reasons:
        parts += [element("h2", "Where it is not used"), *(element("p", escape(reason)) for reason in reasons)]
    parts += [element("h2", "Programs"), html_table(("layer", "before", "after"), _mappings(verdict))]
    return html_document(title, "\n".join(parts))


def _mappings(verdict: ExtensionVerdict) -> Iterable[Sequence[str]]:
    for layer in verdict.layers:
        found = (layer.before.cost, layer.after.cost)
        yield layer.name, *("-" if one is None else one.mapping.partition(" (")[0] for one in found)


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, whose first column names its rows."""
    body = "".join(_row(cells, "td") for cells in rows)
    return element("table", element("thead", _row(head, "th")) + element("tbody", body))


def _row(cells: Sequence[str], name: str) -> str:
    first, *others = cells
    return element("tr", element("th", escape(first)) + "".join(element(name, escape(cell)) for cell in others))
