# SPDX-License-Identifier: Apache-2.0
"""Tables of a network that was compiled without and with an extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from vdla.commands.console import listing, output
from vdla.commands.device_times import milliseconds
from vdla.commands.energy_tables import compiled_energy_table, notes
from vdla.commands.placement_tables import share, shortened
from vdla.support.text_table import TextTable, text_table

if TYPE_CHECKING:
    from vdla.runtime.studies.compiled_verdict import (
        CompiledVerdict,
        NetworkFigures,
        OperatorPlace,
        OperatorVerdict,
    )

_REASONS = 3  # shown, without --all
_NAMES = 4  # of operators with one reason


def _time(which: str) -> Callable[[NetworkFigures], str]:
    return lambda network: "-" if network.times is None else milliseconds(getattr(network.times, which))


FIGURES: dict[str, Callable[[NetworkFigures], str]] = {
    "cycles": lambda network: f"{network.cycles:,}",
    "operators on the machine": lambda network: f"{network.operators:,}",
    "MACs on the machine": lambda network: share(network.macs_on_machine, network.macs),
    "programs": lambda network: f"{network.programs:,}",
    "handovers": lambda network: "-" if network.times is None else f"{network.times.handovers:,}",
    "machine, estimated": _time("accelerator"),
    "CPU, estimated": _time("cpu"),
    "handovers, estimated": _time("handover"),
    "frames/s, estimated": lambda network: (
        "-" if network.frames_per_second is None else f"{network.frames_per_second:,.1f}"
    ),
}


def tables_of(verdict: CompiledVerdict) -> list[TextTable]:
    """The network, and the operators that the extension runs or moves; the energy, where it was
    estimated.
    """
    columns = ("", "without", f"with {', '.join(verdict.extensions)}")
    figures = [(label, figure(verdict.before), figure(verdict.after)) for label, figure in FIGURES.items()]
    tables = [text_table(f"{verdict.network} on {verdict.machine}", columns, figures)]
    changed = [operator for operator in verdict.operators if operator.extensions or operator.moved]
    if changed:
        head = ("operator", "name", "without", "with", "gain", "by")
        tables.append(text_table("", head, map(_cells, changed)))
    return tables if verdict.energy is None else [*tables, compiled_energy_table(verdict.energy)]


def notes_of(verdict: CompiledVerdict) -> list[str]:
    """What changes, where energies are from, and why operators do not use the extension."""
    return [*_changes(verdict), *_reasons(verdict)]


def show_compiled(verdict: CompiledVerdict, everything: bool) -> None:
    """Print all tables."""
    console = output()
    for table in tables_of(verdict):
        console.print(listing(table))
        console.print()
    for line in _changes(verdict):
        console.print(line, soft_wrap=True)
    lines = list(_reasons(verdict))
    for line in lines if everything else lines[:_REASONS]:
        console.print(line, soft_wrap=True)
    if len(lines) > _REASONS and not everything:
        console.print(f"{len(lines) - _REASONS} more reasons: --all", soft_wrap=True)


def _cells(operator: OperatorVerdict) -> list[str]:
    cycles = [place.cycles if place is not None else None for place in (operator.before, operator.after)]
    gain = f"{cycles[0] / cycles[1]:.2f}" if cycles[0] and cycles[1] else "-"
    places = [_place(place) for place in (operator.before, operator.after)]
    return [operator.op.removeprefix("vdla."), shortened(operator.name), *places, gain, ", ".join(operator.extensions)]


def _place(place: OperatorPlace | None) -> str:
    if place is None:
        return "-"
    return place.device if place.cycles is None else f"{place.cycles:,}"


def _changes(verdict: CompiledVerdict) -> list[str]:
    energy = verdict.energy
    return [_sentence(verdict), *([] if energy is None else notes(energy.table, [energy.before, energy.after]))]


def _sentence(verdict: CompiledVerdict) -> str:
    moved = sum(operator.moved for operator in verdict.operators)
    runs = f"{', '.join(verdict.extensions)} runs {len(verdict.used)} operators"
    gain = "" if verdict.speedup is None else f"; the network takes 1/{verdict.speedup:.2f} of the estimated time"
    return f"{runs}, and {moved} move from the CPU to {verdict.machine}{gain}."


def _reasons(verdict: CompiledVerdict) -> Iterator[str]:
    """Operators with the same reason stand together, those with most first."""
    groups: dict[str, list[str]] = {}
    for operator in verdict.operators:
        if operator.reason:
            groups.setdefault(operator.reason, []).append(operator.name)
    for reason, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        yield f"{', '.join(names[:_NAMES])}{more}: not used: it must {reason}"
