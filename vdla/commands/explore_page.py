"""A page of HTML about an exploration: the picture, the front, all machines, the reasons.

The page is one file without scripts or references, so it works offline.
"""

from __future__ import annotations

from html import escape

from vdla.commands.explore_picture import exploration_picture
from vdla.commands.explore_tables import columns_of, machine_cells, notes_of_exploration, reasons_against
from vdla.commands.run_charts import element
from vdla.commands.run_page import html_document
from vdla.commands.verdict_page import html_table
from vdla.runtime.studies.explore import Exploration


def exploration_page(found: Exploration) -> str:
    """The page."""
    title, head = f"{found.name} on {found.part.name}", columns_of(found)
    parts = [
        element("h1", escape(title)),
        element("ul", "".join(element("li", escape(note)) for note in notes_of_exploration(found))),
        exploration_picture(found),
        element("h2", "The Pareto front"),
        html_table(head, map(machine_cells, found.front)),
        element("h2", "All machines"),
        html_table(head, map(machine_cells, found.measured)),
    ]
    reasons = [(f"{count}", reason) for reason, count in reasons_against(found).most_common()]
    if reasons:
        parts += [element("h2", "Rejected"), html_table(("machines", "reason"), reasons)]
    return html_document(title, "\n".join(parts))
