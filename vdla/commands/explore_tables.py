# SPDX-License-Identifier: Apache-2.0
"""Tables of an exploration: the Pareto front, the other machines, the reasons against the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from vdla.commands.console import output, table
from vdla.hardware.fpga.area_model import LUT_ERROR
from vdla.runtime.studies.explore import Exploration, ExploredMachine

_REASONS = 4  # shown, without --all
FIGURES = ("cycles", "frames/s", "LUT", "DSP", "BRAM", "URAM", "area")


def columns_of(exploration: Exploration) -> list[str]:
    """The fields of the sweep, then the figures."""
    return [*exploration.machines[0].point, *FIGURES]


def machine_cells(machine: ExploredMachine) -> list[str]:
    """A row of a machine that was measured."""
    assert machine.area is not None and machine.cycles is not None
    used, more = machine.area.usage, "" if machine.area.complete else "+"
    resources = [f"{value}{more}" for value in (f"{used.lut:,}", used.dsp, f"{used.bram36:g}", used.uram)]
    speed = [f"{machine.cycles:,.0f}", f"{machine.frames_per_second:,.2f}"]
    source = "Yosys" if machine.area.synthesised else "model"
    return [*(_shown(value) for value in machine.point.values()), *speed, *resources, source]


def _shown(value: object) -> str:
    """A value; of files, their names."""
    return str(value).rpartition("/")[2]


def show_exploration(exploration: Exploration, everything: bool) -> None:
    """Print the front, or all machines with `everything`; then the reasons."""
    console = output()
    head, *others = columns_of(exploration)
    listing = table(f"{exploration.name} on {exploration.part.name}: the Pareto front", head, *others)
    for machine in exploration.front:
        listing.add_row(*machine_cells(machine))
    console.print(listing)
    rest = [machine for machine in exploration.measured if machine not in exploration.front]
    if everything and rest:
        listing = table("\nmachines that another one beats", head, *others)
        for machine in rest:
            listing.add_row(*machine_cells(machine))
        console.print(listing)
    console.print()
    for line in notes_of_exploration(exploration):
        console.print(line, soft_wrap=True)
    _show_reasons(exploration, everything)


def notes_of_exploration(exploration: Exploration) -> Iterator[str]:
    """What was tried, and how far the figures can be trusted."""
    tried, front, rejected = len(exploration.measured), len(exploration.front), len(exploration.rejected)
    yield f"{len(exploration.machines)} machines: {tried} measured, {front} of them on the front, {rejected} rejected"
    if any(machine.area is not None and not machine.area.synthesised for machine in exploration.measured):
        yield f"areas by the model: LUTs within {100 * LUT_ERROR:.0f} %; vdla area synthesises a machine"
    partial = [machine for machine in exploration.measured if machine.area is not None and not machine.area.complete]
    if partial:
        yield f"+ at {len(partial)} machines: and what their extensions add, which the model does not know"


def reasons_against(exploration: Exploration) -> Counter[str]:
    """How many machines were rejected for each reason."""
    return Counter(machine.reason for machine in exploration.rejected)


def _show_reasons(exploration: Exploration, everything: bool) -> None:
    reasons = reasons_against(exploration).most_common()
    shown = reasons if everything else reasons[:_REASONS]
    for reason, count in shown:
        output().print(f"rejected {count}: {reason}", soft_wrap=True)
    if len(shown) < len(reasons):
        output().print(f"and {len(reasons) - len(shown)} more reasons (--all)")


def report_of_exploration(exploration: Exploration) -> dict[str, Any]:
    """As JSON-compatible values; what a machine does not have is null."""
    return {
        "layers": exploration.name,
        "machine": exploration.base.name,
        "part": exploration.part.name,
        "lut_error": LUT_ERROR,
        "machines": [
            {
                "point": dict(machine.point),
                "cycles": machine.cycles,
                "frames_per_second": machine.frames_per_second or None,
                "usage": None if machine.area is None else asdict(machine.area.usage),
                "synthesised": machine.area is not None and machine.area.synthesised,
                "complete": machine.area is not None and machine.area.complete,
                "clock_mhz": None if machine.area is None else machine.area.clock_mhz,
                "front": machine in exploration.front,
                "rejected": machine.reason or None,
            }
            for machine in exploration.machines
        ],
    }
