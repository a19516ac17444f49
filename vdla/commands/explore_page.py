# SPDX-License-Identifier: Apache-2.0
"""The picture of an exploration, speed against LUTs, and a page with it, the tables, the reasons.

The area of a circle is in proportion to the machine's DSP slices. Machines of the front that no
smaller one overtakes are joined; the others of the front save DSP slices or memories.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise

from vdla.charts.elements import html_page, html_table, html_text
from vdla.charts.plot import ChartPoint
from vdla.charts.plots import scatter
from vdla.commands.energy_tables import exploration_energy_table, notes
from vdla.commands.explore_tables import columns_of, machine_cells, notes_of_exploration, reasons_against
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.explored_machine import ExploredMachine

_LARGEST = 14.0  # radius of the machine of most DSP slices


def exploration_page(exploration: Exploration) -> str:
    """The page."""
    head = columns_of(exploration)
    parts = [
        f"<ul>{html_text('li', *notes_of_exploration(exploration))}</ul>",
        exploration_picture(exploration),
        html_text("h2", "The Pareto front"),
        html_table(head, _rows(exploration, exploration.front)),
        html_text("h2", "All machines"),
        html_table(head, _rows(exploration, exploration.measured)),
    ]
    if exploration.energy is not None:
        energy = exploration_energy_table(exploration, exploration.measured)
        parts += [html_text("h2", energy.title.capitalize()), html_table(energy.columns, energy.rows)]
        parts.append(f"<ul>{html_text('li', *notes(exploration.energy.table))}</ul>")
    reasons = [(f"{count}", reason) for reason, count in reasons_against(exploration).most_common()]
    if reasons:
        parts += [html_text("h2", "Rejected"), html_table(("machines", "reason"), reasons)]
    return html_page(f"{exploration.name} on {exploration.part.name}", parts)


def _rows(exploration: Exploration, machines: Iterable[ExploredMachine]) -> Iterator[list[str]]:
    return (machine_cells(exploration, machine) for machine in machines)


def exploration_picture(exploration: Exploration, *, alone: bool = True) -> str:
    """One circle a machine; empty axes where none was measured."""
    title = f"{exploration.name} on {exploration.part.name}: frames a second against LUTs; the front is orange"
    if any(machine.area is not None and not machine.area.complete for machine in exploration.measured):
        title += "; dashed: without the LUTs of extensions"
    most = max((machine.area.usage.dsp for machine in exploration.measured if machine.area), default=1)
    points = [_point(exploration, machine, most) for machine in exploration.measured]
    links = [
        (_point(exploration, one, most), _point(exploration, other, most))
        for one, other in pairwise(_stairs(exploration))
    ]
    return scatter(title, ("LUTs", "frames/s"), sorted(points, key=lambda point: bool(point.name)), links, alone=alone)


def _point(exploration: Exploration, machine: ExploredMachine, most_dsp: int) -> ChartPoint:
    """A machine; those of the front have names."""
    assert machine.area is not None
    on_front = machine in exploration.front
    name = ", ".join(f"{field}={str(value).rpartition('/')[2]}" for field, value in machine.point.items())
    return ChartPoint(
        x=machine.area.usage.lut,
        y=machine.frames_per_second,
        row=name,
        tip=f"{name}: {', '.join(machine_cells(exploration, machine)[len(machine.point) :])}",
        class_=("front" if on_front else "beaten") + ("" if machine.area.complete else " partial"),
        name=name if on_front else "",
        radius=max(3.0, _LARGEST * math.sqrt(machine.area.usage.dsp / max(1, most_dsp))),
    )


def _luts(machine: ExploredMachine) -> int:
    assert machine.area is not None
    return machine.area.usage.lut


def _stairs(exploration: Exploration) -> list[ExploredMachine]:
    """The machines of the front that are faster than all with fewer LUTs, in that order."""
    stairs: list[ExploredMachine] = []
    for machine in sorted(exploration.front, key=_luts):
        if not stairs or machine.frames_per_second > stairs[-1].frames_per_second:
            stairs.append(machine)
    return stairs
