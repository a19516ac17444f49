# SPDX-License-Identifier: Apache-2.0
"""Studies: what an extension is worth, and the machines of a sweep."""

from __future__ import annotations

from vdla.charts.elements import html_legend, html_text
from vdla.charts.fragment import html_folded, html_fragment, html_listing, shortened
from vdla.commands.explore_page import exploration_picture
from vdla.commands.explore_tables import columns_of, machine_cells, notes_of_exploration, reasons_against
from vdla.commands.verdict_page import verdict_roofline
from vdla.commands.verdict_tables import COLUMNS, layer_rows, network_rows, notes_of, reasons_of, title_of
from vdla.runtime.studies.explore import Exploration
from vdla.runtime.studies.verdict import ExtensionVerdict

MOST_POINTS = 60


def extension_verdict_html(verdict: ExtensionVerdict) -> str:
    """The sentences, every layer, the sums, the roofline, where the extension is not used."""
    parts = [
        f"<ul>{html_text('li', *map(shortened, notes_of(verdict)))}</ul>",
        html_listing(COLUMNS, layer_rows(verdict)),
    ]
    if any(layer.helps for layer in verdict.compared):
        parts.append(html_folded("all layers", html_listing(("", "before", "after"), network_rows(verdict))))
    if len(verdict.layers) <= MOST_POINTS:
        legend = html_legend({"before": "before", "after": "after"})
        parts.append(html_folded("roofline", legend, verdict_roofline(verdict, alone=False)))
    reasons = [(", ".join(names), reason) for reason, names in reasons_of(verdict).items()]
    if reasons:
        parts.append(html_folded("where it is not used", html_listing(("layers", "reason"), reasons)))
    return html_fragment(title_of(verdict), parts)


def exploration_html(exploration: Exploration) -> str:
    """The picture, the Pareto front, the reasons against other machines."""
    picture = len(exploration.measured) <= MOST_POINTS
    parts = [
        f"<ul>{html_text('li', *map(shortened, notes_of_exploration(exploration)))}</ul>",
        exploration_picture(exploration, alone=False) if picture else "",
        html_listing(columns_of(exploration), map(machine_cells, exploration.front)),
    ]
    reasons = [(f"{count:,}", reason) for reason, count in reasons_against(exploration).most_common()]
    if reasons:
        parts.append(html_folded("rejected", html_listing(("machines", "reason"), reasons)))
    return html_fragment(f"{exploration.name} on {exploration.part.name}", parts)
