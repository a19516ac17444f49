# SPDX-License-Identifier: Apache-2.0
"""Estimated energy of compiled networks by operator, of verdicts by layer, of machines of a sweep.

The counts of events are those of the programs; which coefficients they are multiplied by can be
chosen afterwards (`vdla.simulator.energy`). The CPU beside the machine is in none of the figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.operator_cycles import operator_cycles, operator_of
from vdla.runtime.executor.plan import ProgramStep
from vdla.runtime.studies.explore import Exploration, ExploredMachine
from vdla.runtime.studies.layer_cycles import kept_cost
from vdla.runtime.studies.measure import LayerCost
from vdla.runtime.studies.sweep import machine_of
from vdla.runtime.studies.verdict import ExtensionVerdict
from vdla.simulator.energy import (
    Action,
    Energy,
    EnergyError,
    EnergyTable,
    MachineEvent,
    activity_of,
    energy_of,
    energy_table,
)
from vdla.simulator.energy.estimate import Picojoules, summed_energy
from vdla.simulator.timing import time_program

Coefficients = str | PathLike[str] | EnergyTable

# --- compiled networks ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperatorEnergy:
    """The estimate of an operator of the accelerator; `op` is empty for what has no operator."""

    op: str
    name: str
    energy: Energy


@dataclass(frozen=True, slots=True)
class NetworkEnergy:
    """The estimates of the operators of a network that run on the accelerator, in order."""

    model: str
    config: Config
    table: EnergyTable
    operators: tuple[OperatorEnergy, ...]

    @property
    def total(self) -> Energy:
        """Of a run."""
        return summed_energy([energy_of({}, self.config, self.table), *(row.energy for row in self.operators)])

    def __repr__(self) -> str:
        return f"<NetworkEnergy of {self.model} on {self.config.name}: {self.total}>"

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        rows = [{"operator": row.op, "name": row.name, **row.energy.to_dict()} for row in self.operators]
        return {"model": self.model, "machine": self.config.name, **self.total.to_dict(), "operators": rows}


def network_energy(artifact: Artifact, coefficients: Coefficients) -> NetworkEnergy | None:
    """The estimate of a compiled network; None where it has no program. Bodies of loops and
    conditions are left out, since data decides how often they run.

    Raises:
        EnergyError: unknown coefficients.
    """
    table, config = energy_table(coefficients), artifact.config
    if config is None:
        return None
    rows: list[OperatorEnergy] = []
    for step in artifact.plan.steps:
        if isinstance(step, ProgramStep):
            rows += _operators(artifact.programs[step.program], step, table)
    return NetworkEnergy(artifact.plan.name, config, table, tuple(rows))


def program_energy(program: Program, coefficients: Coefficients) -> Energy:
    """The estimate of a verified program; EnergyError for unknown coefficients."""
    table = energy_table(coefficients)
    cycles = time_program(program).total_cycles if table.static_mw else 0
    return energy_of(activity_of(program).total, program.config, table, cycles)


def _operators(program: Program, step: ProgramStep, table: EnergyTable) -> Iterator[OperatorEnergy]:
    """An instruction of no operator, such as a load of micro-ops, counts for the next one."""
    activity, owner = activity_of(program), _owners(program, step)
    shares: dict[int, int] = {}
    if table.static_mw:
        stats = time_program(program)
        cycles = operator_cycles(program, stats, step.lines) or ()
        shares = {number: one.cycles for number, one in enumerate(cycles)} or {0: stats.total_cycles}
    for number, operator in enumerate(step.placement.operators):
        counts = activity.of(np.flatnonzero(owner == number))
        yield OperatorEnergy(
            operator.op, operator.name, energy_of(counts, program.config, table, shares.get(number, 0))
        )


def _owners(program: Program, step: ProgramStep) -> np.ndarray[Any, Any]:
    if not step.lines:
        return np.zeros(len(program), np.int64)
    owner = operator_of(program, step.lines).astype(np.int64)
    known = np.flatnonzero(owner >= 0)
    if not len(known):
        return np.zeros(len(program), np.int64)
    after = np.minimum(np.searchsorted(known, np.arange(len(owner))), len(known) - 1)
    filled: np.ndarray[Any, Any] = owner[known[after]]
    return filled


# --- verdicts -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LayerEnergy:
    """A layer before, and after with the program that is faster; None where there is no program."""

    name: str
    count: int
    before: Energy | None
    after: Energy | None


@dataclass(frozen=True, slots=True)
class VerdictEnergy:
    """The estimates of all layers of a verdict; sums are over those that both machines run."""

    table: EnergyTable
    layers: tuple[LayerEnergy, ...]

    def total(self, after: bool) -> Picojoules:
        """Of all compared layers, each times its count."""
        both = [row for row in self.layers if row.before is not None and row.after is not None]
        chosen = ((row.after if after else row.before, row.count) for row in both)
        return sum((energy.total * count for energy, count in chosen if energy is not None), Picojoules(0, 0, 0))

    def __repr__(self) -> str:
        return f"<VerdictEnergy: {self.total(after=False)} before, {self.total(after=True)} after, {self.table.name}>"

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; null where a machine has no program."""
        return {
            "coefficients": self.table.name,
            "source": self.table.source,
            "before": self.total(after=False).to_dict(),
            "after": self.total(after=True).to_dict(),
            "layers": [
                {
                    "layer": row.name,
                    "count": row.count,
                    "before": None if row.before is None else row.before.to_dict(),
                    "after": None if row.after is None else row.after.to_dict(),
                }
                for row in self.layers
            ],
        }


def verdict_energy(verdict: ExtensionVerdict, coefficients: Coefficients) -> VerdictEnergy:
    """The estimates of a verdict; the steps of extensions have no price. EnergyError for unknown
    coefficients.
    """
    table = energy_table(coefficients)
    rows = [
        LayerEnergy(
            layer.name,
            layer.count,
            _of_cost(layer.before.cost, verdict.before, table),
            _of_cost(layer.chosen, verdict.after if layer.helps else verdict.before, table),
        )
        for layer in verdict.layers
    ]
    return VerdictEnergy(table, tuple(rows))


def _of_cost(cost: LayerCost | None, config: Config, table: EnergyTable) -> Energy | None:
    if cost is None:
        return None
    counts = {MachineEvent(part, Action(action), *bits): n for part, action, *bits, n in cost.events}
    return energy_of(counts, config, table, cost.cycles)


# --- sweeps ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExplorationEnergy:
    """The estimates of a frame on the machines that were measured, by their places in the sweep."""

    table: EnergyTable
    machines: Mapping[int, Picojoules]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values, the machines by their places in the sweep."""
        rows = {str(at): energy.to_dict() for at, energy in self.machines.items()}
        return {"coefficients": self.table.name, "source": self.table.source, "machines": rows}


def exploration_energy(exploration: Exploration, coefficients: Coefficients) -> ExplorationEnergy:
    """The estimates of the machines of a sweep whose layers this process, or one with the same
    cache, has measured. EnergyError for unknown coefficients.
    """
    table = energy_table(coefficients)
    energies = {at: _of_machine(exploration, machine, table) for at, machine in enumerate(exploration.machines)}
    return ExplorationEnergy(table, {at: energy for at, energy in energies.items() if energy is not None})


def _of_machine(exploration: Exploration, machine: ExploredMachine, table: EnergyTable) -> Picojoules | None:
    if machine.cycles is None:
        return None
    swept, total = machine_of(exploration.base, exploration.sources, machine.point), Picojoules(0, 0, 0)
    for layer in exploration.layers:
        energy = _of_cost(kept_cost(layer, swept.config, swept.sources), swept.config, table)
        if energy is None:
            return None
        total += energy.total * layer.count
    return total


# --- any of them ----------------------------------------------------------------------------------


def estimate_energy(
    what: Program | Model | Artifact | ExtensionVerdict | Exploration, coefficients: Coefficients
) -> Energy | NetworkEnergy | VerdictEnergy | ExplorationEnergy | None:
    """The estimated energy of a program, a compiled network, a verdict or an exploration.

    `coefficients` is "45nm", "7nm", the path of a JSON file, or a table. None is a network that
    runs on the CPU. Every estimate has `to_dict`.

    Raises:
        EnergyError: unknown coefficients, or something else to estimate.
    """
    match what:
        case Program():
            return program_energy(what, coefficients)
        case Model():
            return network_energy(what.artifact, coefficients)
        case Artifact():
            return network_energy(what, coefficients)
        case ExtensionVerdict():
            return verdict_energy(what, coefficients)
        case Exploration():
            return exploration_energy(what, coefficients)
    kinds = "a program, a model, a verdict or an exploration"
    raise EnergyError(f"estimate_energy: what must be {kinds}, got {type(what).__name__}")
