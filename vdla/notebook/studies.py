# SPDX-License-Identifier: Apache-2.0
"""Studies: what an extension is worth, the machines of a sweep, where operators run."""

from __future__ import annotations

from collections.abc import Iterable

from vdla.charts.elements import html_legend, html_text
from vdla.charts.fragment import html_folded, html_fragment, html_listing, shortened
from vdla.commands import compiled_tables, energy_tables
from vdla.commands.explore_page import exploration_picture
from vdla.commands.explore_tables import notes_of_exploration, reasons_against
from vdla.commands.verdict_page import verdict_roofline
from vdla.commands.verdict_tables import COLUMNS, layer_rows, network_rows, notes_of, reasons_of, title_of
from vdla.runtime.studies.compiled_verdict import CompiledVerdict
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.verdict import ExtensionVerdict
from vdla.support.text_table import TextTable

MOST_POINTS = 60


def text_table_html(table: TextTable) -> str:
    """A table alone."""
    return html_fragment(table.title, [html_listing(table.columns, table.rows)])


def _energy(table: TextTable, notes: Iterable[str]) -> str:
    """Estimates of energy, below a heading that says so, and where they are from."""
    lines = f"<ul>{html_text('li', *map(shortened, notes))}</ul>"
    return html_folded(table.title, html_listing(table.columns, table.rows), lines)


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
    if verdict.energy is not None:
        energy = verdict.energy
        parts.append(_energy(energy_tables.verdict_energy_table(energy), energy_tables.verdict_energy_notes(energy)))
    return html_fragment(title_of(verdict), parts)


def compiled_verdict_html(verdict: CompiledVerdict) -> str:
    """The network and its operators without and with the extension, and the reasons."""
    network, *operators = compiled_tables.tables_of(verdict)
    sentence, *reasons = compiled_tables.notes_of(verdict)
    parts = [html_text("p", sentence), html_listing(network.columns, network.rows)]
    parts += [html_folded("operators", html_listing(table.columns, table.rows)) for table in operators]
    if reasons:
        parts.append(html_folded("where it is not used", f"<ul>{html_text('li', *map(shortened, reasons))}</ul>"))
    return html_fragment(network.title, parts)


def exploration_html(exploration: Exploration) -> str:
    """The picture, the Pareto front, the reasons against other machines."""
    front, *_ = exploration.tables()
    picture = len(exploration.measured) <= MOST_POINTS
    parts = [
        f"<ul>{html_text('li', *map(shortened, notes_of_exploration(exploration)))}</ul>",
        exploration_picture(exploration, alone=False) if picture else "",
        html_listing(front.columns, front.rows),
    ]
    reasons = [(f"{count:,}", reason) for reason, count in reasons_against(exploration).most_common()]
    if reasons:
        parts.append(html_folded("rejected", html_listing(("machines", "reason"), reasons)))
    if exploration.energy is not None:
        energy = energy_tables.exploration_energy_table(exploration, exploration.front)
        parts.append(_energy(energy, energy_tables.notes(exploration.energy.table)))
    return html_fragment(f"{exploration.name} on {exploration.part.name}", parts)
