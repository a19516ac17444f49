# SPDX-License-Identifier: Apache-2.0
"""Tables of an exploration: the Pareto front, the other machines, the reasons against the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from vdla.commands.console import listing, output
from vdla.commands.energy_tables import exploration_energy_table, notes, show_energy
from vdla.hardware.fpga.area_model import LUT_ERROR
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.explored_machine import ESTIMATED, ExploredMachine, MachineArea
from vdla.runtime.studies.figures import FIGURES
from vdla.support.text_table import TextTable, text_table

_REASONS = 4  # shown, without --all
_SPEED, _AREA = ("cycles", "frames/s"), ("LUT", "DSP", "BRAM", "URAM", "area")
_IN_EVERY_TABLE = ("cycles", "fps", "lut", "dsp", "bram36", "uram")
"""Objectives that have a column anyway."""


def columns_of(exploration: Exploration) -> list[str]:
    """The fields of the sweep, then the figures."""
    clock = ["MHz"] if exploration.clock == ESTIMATED else []
    more = [FIGURES[name].title for name in _more(exploration)]
    return [*exploration.machines[0].point, *_SPEED, *clock, *more, *_AREA]


def _more(exploration: Exploration) -> list[str]:
    """The objectives that have no column otherwise."""
    known = (*_IN_EVERY_TABLE, *(["mhz"] if exploration.clock == ESTIMATED else []))
    return [name for name in exploration.objectives if name not in known]


def machine_cells(exploration: Exploration, machine: ExploredMachine) -> list[str]:
    """A row of a machine that was measured."""
    assert machine.area is not None and machine.cycles is not None
    used, more = machine.area.usage, "" if machine.area.complete else "+"
    resources = [f"{value}{more}" for value in (f"{used.lut:,}", used.dsp, f"{used.bram36:g}", used.uram)]
    speed = [f"{machine.cycles:,.0f}", f"{machine.frames_per_second:,.2f}"]
    if exploration.clock == ESTIMATED:
        speed.append(_clock(machine.area))
    speed += [_number(FIGURES[name].of(machine)) for name in _more(exploration)]
    source = "Yosys" if machine.area.synthesised else "model"
    return [*(_shown(value) for value in machine.point.values()), *speed, *resources, source]


def _clock(area: MachineArea) -> str:
    return f"{area.clock_mhz:.1f} {'estimated' if area.clock_estimated else 'as given'}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"


def _shown(value: object) -> str:
    """A value; of files, their names."""
    return str(value).rpartition("/")[2]


def tables_of(exploration: Exploration) -> list[TextTable]:
    """The front, the machines that another one beats, the energy of all where it was estimated."""
    title = f"{exploration.name} on {exploration.part.name}: the Pareto front"
    tables = [_listing(exploration, title, exploration.front)]
    beaten = [machine for machine in exploration.measured if machine not in exploration.front]
    if beaten:
        tables.append(_listing(exploration, "machines that another one beats", beaten))
    if exploration.energy is not None:
        tables.append(exploration_energy_table(exploration, exploration.measured))
    return tables


def _listing(exploration: Exploration, title: str, machines: Sequence[ExploredMachine]) -> TextTable:
    return text_table(title, columns_of(exploration), (machine_cells(exploration, machine) for machine in machines))


def lines_of(exploration: Exploration) -> list[str]:
    """All sentences: how far the figures can be trusted, why machines were rejected."""
    energy = [] if exploration.energy is None else notes(exploration.energy.table)
    return [*notes_of_exploration(exploration), *_reasons(exploration), *energy]


def show_exploration(exploration: Exploration, everything: bool) -> None:
    """Print the front, or all machines with `everything`; then the sentences and the energy."""
    console, (front, *others) = output(), tables_of(exploration)
    energy = None if exploration.energy is None else others.pop()
    console.print(listing(front))
    for table in others if everything else ():
        console.print(listing(replace(table, title=f"\n{table.title}")))
    console.print()
    for line in notes_of_exploration(exploration):
        console.print(line, soft_wrap=True)
    _show_reasons(exploration, everything)
    if exploration.energy is not None and energy is not None:
        shown = energy if everything else exploration_energy_table(exploration, exploration.front)
        show_energy(shown, notes(exploration.energy.table))


def notes_of_exploration(exploration: Exploration) -> Iterator[str]:
    """What was tried, and how far the figures can be trusted."""
    tried, front, rejected = len(exploration.measured), len(exploration.front), len(exploration.rejected)
    yield f"{len(exploration.machines)} machines: {tried} measured, {front} of them on the front, {rejected} rejected"
    if front and exploration.objectives != ("fps",):
        best = exploration.front[0]
        point = ", ".join(f"{field}={_shown(value)}" for field, value in best.point.items())
        name = exploration.objectives[0]
        estimated = ", estimated" if FIGURES[name].energy else ""
        yield f"best {name}{estimated}: {_number(FIGURES[name].of(best))} with {point}"
    if exploration.clock == ESTIMATED:
        yield (
            "clocks estimated: of the longest path before placement, to compare machines; "
            "latencies of the DRAM stay as many cycles"
        )
    if any(machine.area is not None and not machine.area.synthesised for machine in exploration.measured):
        yield f"areas by the model: LUTs within {100 * LUT_ERROR:.0f} %; vdla area synthesises a machine"
    partial = [machine for machine in exploration.measured if machine.area is not None and not machine.area.complete]
    if partial:
        yield f"+ at {len(partial)} machines: and what their extensions add, which the model does not know"


def reasons_against(exploration: Exploration) -> Counter[str]:
    """How many machines were rejected for each reason."""
    return Counter(machine.reason for machine in exploration.rejected)


def _reasons(exploration: Exploration) -> list[str]:
    return [f"rejected {count}: {reason}" for reason, count in reasons_against(exploration).most_common()]


def _show_reasons(exploration: Exploration, everything: bool) -> None:
    reasons = _reasons(exploration)
    shown = reasons if everything else reasons[:_REASONS]
    for line in shown:
        output().print(line, soft_wrap=True)
    if len(shown) < len(reasons):
        output().print(f"and {len(reasons) - len(shown)} more reasons (--all)")
