# SPDX-License-Identifier: Apache-2.0
"""The roofline of an evaluation, and a page with it, the sentences, every layer, the reasons.

The roofline has each layer before and after, below both roofs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from vdla.charts.elements import html_page, html_table, html_text
from vdla.charts.plot import ChartPoint
from vdla.charts.plots import Roof, roofline
from vdla.commands.energy_tables import verdict_energy_notes, verdict_energy_table
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
from vdla.runtime.studies.report import Point, network_point, point_of
from vdla.runtime.studies.verdict import ExtensionVerdict

_MOST_NAMED = 12  # layers; of more, those in which the extension is used have names


def verdict_page(verdict: ExtensionVerdict) -> str:
    """The page."""
    parts = [
        html_text("p", *(f"{plug_in.name}: {plug_in.doc}" for plug_in in verdict.added)),
        f"<ul>{html_text('li', *notes_of(verdict))}</ul>",
        html_text("h2", "Roofline"),
        verdict_roofline(verdict),
    ]
    if verdict.compared:
        parts += [html_text("h2", "All layers"), html_table(("", "before", "after"), network_rows(verdict))]
    if verdict.network is not None:
        parts += [html_text("h2", "Accuracy"), html_text("p", accuracy_title(verdict.network))]
        parts.append(html_table(ACCURACY_COLUMNS, accuracy_rows(verdict.network)))
    parts += [html_text("h2", "Layers"), html_table(COLUMNS, layer_rows(verdict))]
    reasons = [f"{', '.join(names)}: {reason}" for reason, names in reasons_of(verdict).items()]
    if reasons:
        parts += [html_text("h2", "Where it is not used"), html_text("p", *reasons)]
    if verdict.energy is not None:
        energy = verdict_energy_table(verdict.energy)
        parts += [html_text("h2", energy.title.capitalize()), html_table(energy.columns, energy.rows)]
        parts.append(f"<ul>{html_text('li', *verdict_energy_notes(verdict.energy))}</ul>")
    parts += [html_text("h2", "Programs"), html_table(("layer", "before", "after"), _mappings(verdict))]
    return html_page(title_of(verdict), parts)


def _mappings(verdict: ExtensionVerdict) -> Iterable[Sequence[str]]:
    for layer in verdict.layers:
        costs = (layer.before.cost, layer.after.cost)
        yield layer.name, *("-" if cost is None else cost.mapping.partition(" (")[0] for cost in costs)


def verdict_roofline(verdict: ExtensionVerdict, *, alone: bool = True) -> str:
    """The picture, with its title if alone; a line leads from a layer before to the same after."""
    pairs = list(_pairs(verdict))
    links = [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]
    title = f"{title_of(verdict)}: before (blue) and after (orange)"
    return roofline(_roofs(verdict), [point for pair in pairs for point in pair], links, title if alone else "")


def _roofs(verdict: ExtensionVerdict) -> list[Roof]:
    return [Roof.of(verdict.before, steps) for steps in (verdict.steps_before, verdict.steps_after)]


def _pairs(verdict: ExtensionVerdict) -> Iterator[list[ChartPoint]]:
    """All layers together if there are several, then each layer, before and after."""
    if len(verdict.compared) > 1:
        points = _points(verdict, "all layers", [network_point(verdict, after) for after in (False, True)])
        yield [replace(point, class_=f"{point.class_} whole", radius=7, name_class="") for point in points]
    few = len(verdict.layers) <= _MOST_NAMED
    for layer in verdict.layers:
        outcomes = ((layer.steps_before, layer.before.cost), (layer.steps, layer.after.cost))
        points = _points(
            verdict, layer.name, [None if cost is None else point_of(steps, cost) for steps, cost in outcomes]
        )
        yield points if few or layer.helps else [replace(point, name="") for point in points]


def _points(verdict: ExtensionVerdict, name: str, both: Sequence[Point | None]) -> list[ChartPoint]:
    """The circles before and after; the last one carries the name."""
    points = []
    for when, roof, point in zip(("before", "after"), _roofs(verdict), both, strict=True):
        if point is not None:
            label = name if point is both[-1] or both[-1] is None else ""
            figures = (point.intensity, point.gops(verdict.before))
            points.append(roof.point(f"{name} {when}", *figures, when, label))
    return points
