# SPDX-License-Identifier: Apache-2.0
"""The option for estimates of energy, and their tables: a row an operator, a layer or a machine.

Every table says that its figures are estimated, and by which coefficients.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vdla.commands.console import listing, output
from vdla.commands.options import add_options
from vdla.commands.placement_tables import shortened
from vdla.support.text_table import TextTable, text_table

if TYPE_CHECKING:
    from vdla.runtime.studies.compiled_verdict import CompiledEnergy
    from vdla.runtime.studies.energy import NetworkEnergy
    from vdla.runtime.studies.exploration import Exploration
    from vdla.runtime.studies.explored_machine import ExploredMachine
    from vdla.runtime.studies.layer_energy import VerdictEnergy
    from vdla.simulator.energy import Energy, EnergyTable, Picojoules

_PARTS = {
    "DRAM": ("dram",),
    "buffers": ("inp", "wgt", "scl", "uop", "acc", "out"),
}
_ARITHMETIC = "arithmetic"
"""The columns of an estimate, beside its total; datapaths of extensions are arithmetic too."""


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


def network_energy_table(energy: NetworkEnergy, name_width: int | None = None) -> TextTable:
    """The operators of a network that run on the accelerator; long names shortened to a width."""
    rows = []
    for row in energy.operators:
        op, name = row.op.removeprefix("vdla."), row.name
        words = (op, name) if name_width is None else (shortened(op, 14), shortened(name, name_width))
        rows.append([*words, *_cells(row.energy)])
    return text_table(
        _title(energy.table), ("operator", "name", *_PARTS, _ARITHMETIC, "estimated", "range"), rows, texts=2
    )


def network_energy_notes(energy: NetworkEnergy) -> list[str]:
    """The whole, the source."""
    return [f"the accelerator, a run: {energy.total.total}", *notes(energy.table, [energy.total])]


def verdict_energy_table(energy: VerdictEnergy) -> TextTable:
    """The layers before and after."""
    rows = []
    for row in energy.layers:
        before, after = (None if one is None else one.total for one in (row.before, row.after))
        rows.append([row.name, str(row.count), _amount(before), _amount(after), _ratio(before, after)])
    return text_table(_title(energy.table), ("layer", "x", "before", "after", "ratio"), rows)


def verdict_energy_notes(energy: VerdictEnergy) -> list[str]:
    """The sums, the source."""
    before, after = energy.total(after=False), energy.total(after=True)
    sums = [f"layers that both machines run, before: {before}; after: {after}"] if before.middle else []
    every = [one for row in energy.layers for one in (row.before, row.after) if one is not None]
    return [*sums, *notes(energy.table, every)]


def compiled_energy_table(energy: CompiledEnergy) -> TextTable:
    """The machine in a run of a network, without and with an extension, by part."""
    sides = energy.before, energy.after
    cells = zip(*(_cells(side) for side in sides), strict=True)
    rows = [[part, *pair] for part, pair in zip((*_PARTS, _ARITHMETIC, "the machine", "range"), cells, strict=True)]
    return text_table(_title(energy.table), ("a run", "without", "with"), rows)


def exploration_energy_table(exploration: Exploration, machines: Sequence[ExploredMachine]) -> TextTable:
    """A frame on each of some machines."""
    energy, rows = exploration.energy, []
    assert energy is not None, "it was estimated"
    for machine in machines:
        frame = energy.machines.get(exploration.machines.index(machine))
        values = [str(value).rpartition("/")[2] for value in machine.point.values()]
        per_joule = "-" if frame is None or not frame.middle else f"{1e12 / frame.middle:,.1f}"
        rows.append([*values, _amount(frame), _range(frame), per_joule])
    columns = (*exploration.machines[0].point, "a frame", "range", "frames/J")
    return text_table(_title(energy.table), columns, rows)


def _title(coefficients: EnergyTable) -> str:
    return f"energy by {coefficients.name}, estimated"


def show_energy(of: TextTable, lines: Iterable[str]) -> None:
    """Print a table of energies, and the sentences below."""
    console = output()
    console.print(listing(replace(of, title=f"\n{of.title}")))
    console.print()
    for line in lines:
        console.print(line, soft_wrap=True)


def _cells(energy: Energy) -> list[str]:
    from vdla.simulator.energy.estimate import NOTHING, STATIC

    memories = [name for names in _PARTS.values() for name in names]
    computing = [name for name in energy.parts if name not in (*memories, STATIC)]
    groups = (*_PARTS.values(), computing)
    parts = (sum((energy.parts.get(name, NOTHING) for name in names), NOTHING) for names in groups)
    return [*map(_amount, parts), _amount(energy.total), _range(energy.total)]


def _amount(energy: Picojoules | None) -> str:
    """The middle of an estimate, below a heading that says so."""
    return "-" if energy is None else energy.amount


def _range(energy: Picojoules | None) -> str:
    return "-" if energy is None else energy.bounds


def _ratio(before: Picojoules | None, after: Picojoules | None) -> str:
    return "-" if before is None or after is None or not after.middle else f"{before.middle / after.middle:.2f}"


def notes(coefficients: EnergyTable, energies: Sequence[Energy] = ()) -> Iterator[str]:
    """Where the coefficients come from, and what the figures leave out."""
    from vdla.simulator.energy import Action

    error = f"on-chip figures within a factor of {coefficients.error:g}"
    yield f"{coefficients.name}: {coefficients.source}; {error}"
    left_out = "clock trees, registers, control and wires"
    if not coefficients.static_mw:
        left_out += ", and the power of an idle machine"
    yield f"not in these figures: {left_out}"
    unpriced = {event for energy in energies for event in energy.unpriced}
    steps = sorted({event.part for event in unpriced if event.action is Action.STEP})
    priced = [name for name in steps if any(name in energy.parts for energy in energies)]
    if priced:
        counted = "additions, comparisons and multiplications of its expression"
        yield f"of the datapath of {', '.join(priced)}: the {counted}; what else it does has no coefficient"
    if others := [name for name in steps if name not in priced]:
        yield f"nor what the datapaths of {', '.join(others)} take, whose steps have no coefficient"
