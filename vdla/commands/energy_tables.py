# SPDX-License-Identifier: Apache-2.0
"""The option for estimates of energy, and their tables: a row an operator, a layer or a machine.

Every table says that its figures are estimated, and by which coefficients.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vdla.commands.console import column_width, output, table
from vdla.commands.options import add_options
from vdla.commands.placement_tables import shortened

if TYPE_CHECKING:
    from vdla.runtime.studies.energy import ExplorationEnergy, NetworkEnergy, VerdictEnergy
    from vdla.runtime.studies.explore import Exploration
    from vdla.simulator.energy import Energy, EnergyTable, Picojoules

_PARTS = {
    "DRAM": ("dram",),
    "buffers": ("inp", "wgt", "scl", "uop", "acc", "out"),
    "arithmetic": ("array", "accumulator", "requantiser"),
}
"""The columns of an estimate, beside its total."""


def add_energy_argument(parser: argparse.ArgumentParser) -> None:
    """--energy."""
    text = "estimate energy by coefficients: 45nm, 7nm, or a .json file"
    add_options(parser, {"--energy NAME": text}, "vdla.simulator.energy.coefficients:TABLES")


def chosen_coefficients(arguments: argparse.Namespace) -> EnergyTable | None:
    """The coefficients that --energy names; EnergyError for unknown ones."""
    if arguments.energy is None:
        return None
    from vdla.simulator.energy import energy_table

    return energy_table(arguments.energy)


def show_network_energy(energy: NetworkEnergy) -> None:
    """Print the operators, the whole, the source."""
    listing = table(f"\nenergy by {energy.table.name}, estimated", "operator", "name", *_PARTS, "estimated", "range")
    for column in (1,):
        listing.columns[column].justify = "left"
    for row in energy.operators:
        op = shortened(row.op.removeprefix("vdla."), 14)
        listing.add_row(op, shortened(row.name, column_width(14)), *_cells(row.energy))
    console = output()
    console.print(listing)
    console.print()
    console.print(f"the accelerator, a run: {energy.total.total}", soft_wrap=True)
    _print_notes(energy.table, energy.total)


def show_verdict_energy(energy: VerdictEnergy) -> None:
    """Print the layers before and after, their sums, the source."""
    listing = table(f"\nenergy by {energy.table.name}, estimated", "layer", "x", "before", "after", "ratio")
    for row in energy.layers:
        before, after = (None if one is None else one.total for one in (row.before, row.after))
        listing.add_row(row.name, str(row.count), _amount(before), _amount(after), _ratio(before, after))
    before, after = energy.total(after=False), energy.total(after=True)
    console = output()
    console.print(listing)
    console.print()
    if before.middle:
        console.print(f"layers that both machines run, before: {before}; after: {after}", soft_wrap=True)
    _print_notes(energy.table, *(one for row in energy.layers for one in (row.before, row.after) if one is not None))


def show_exploration_energy(exploration: Exploration, energy: ExplorationEnergy, everything: bool) -> None:
    """Print a frame on each machine of the front, or on all that were measured; the source."""
    fields = list(exploration.machines[0].point)
    listing = table(f"\nenergy by {energy.table.name}, estimated", *fields, "a frame", "range", "frames/J")
    for machine in exploration.measured if everything else exploration.front:
        frame = energy.machines.get(exploration.machines.index(machine))
        values = [str(value).rpartition("/")[2] for value in machine.point.values()]
        per_joule = "-" if frame is None or not frame.middle else f"{1e12 / frame.middle:,.1f}"
        listing.add_row(*values, _amount(frame), _range(frame), per_joule)
    output().print(listing)
    output().print()
    _print_notes(energy.table)


def _cells(energy: Energy) -> list[str]:
    from vdla.simulator.energy.estimate import NOTHING

    parts = (sum((energy.parts.get(name, NOTHING) for name in names), NOTHING) for names in _PARTS.values())
    return [*map(_amount, parts), _amount(energy.total), _range(energy.total)]


def _amount(energy: Picojoules | None) -> str:
    """The middle of an estimate, below a heading that says so."""
    return "-" if energy is None else energy.amount


def _range(energy: Picojoules | None) -> str:
    return "-" if energy is None else energy.bounds


def _ratio(before: Picojoules | None, after: Picojoules | None) -> str:
    return "-" if before is None or after is None or not after.middle else f"{before.middle / after.middle:.2f}"


def _print_notes(coefficients: EnergyTable, *energies: Energy) -> None:
    for line in notes(coefficients, energies):
        output().print(line, soft_wrap=True)


def notes(coefficients: EnergyTable, energies: Sequence[Energy] = ()) -> Iterator[str]:
    """Where the coefficients come from, and what the figures leave out."""
    from vdla.simulator.energy import Action

    error = f"on-chip figures within a factor of {coefficients.error:g}"
    yield f"{coefficients.name}: {coefficients.source}; {error}"
    left_out = "clock trees, registers, control and wires"
    if not coefficients.static_mw:
        left_out += ", and the power of an idle machine"
    yield f"not in these figures: {left_out}"
    steps = {event.part for energy in energies for event in energy.unpriced if event.action is Action.STEP}
    if steps:
        yield f"nor what the datapaths of {', '.join(sorted(steps))} take, whose steps have no coefficient"
