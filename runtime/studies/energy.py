# SPDX-License-Identifier: Apache-2.0
"""Estimated energy of compiled networks by operator, of verdicts by layer, of machines of a sweep.

The counts of events are those of the programs; which coefficients they are multiplied by can be
chosen afterwards (`vdla.simulator.energy`). The CPU beside the machine is in none of the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.operator_cycles import operator_cycles, operator_of
from vdla.runtime.executor.plan import ProgramStep
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.frame_energy import ExplorationEnergy
from vdla.runtime.studies.layer_energy import VerdictEnergy
from vdla.runtime.studies.step_energy import with_operations
from vdla.runtime.studies.verdict import ExtensionVerdict
from vdla.simulator.energy import Energy, EnergyError, EnergyTable, activity_of, energy_of, energy_table
from vdla.simulator.energy.estimate import TableSource, summed_energy
from vdla.simulator.timing import time_program

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

    def to_accelergy(self) -> str:
        """A run in the form of Accelergy's files, as of an `Energy`."""
        return self.total.to_accelergy()


def network_energy(artifact: Artifact, coefficients: TableSource) -> NetworkEnergy | None:
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


def program_energy(program: Program, coefficients: TableSource) -> Energy:
    """The estimate of a verified program; EnergyError for unknown coefficients."""
    table = energy_table(coefficients)
    cycles = time_program(program).total_cycles if table.static_mw else 0
    counts = with_operations(activity_of(program).total, program.config)
    return energy_of(counts, program.config, table, cycles)


def _operators(program: Program, step: ProgramStep, table: EnergyTable) -> Iterator[OperatorEnergy]:
    """An instruction of no operator, such as a load of micro-ops, counts for the next one."""
    activity, owner = activity_of(program), _owners(program, step)
    shares: dict[int, int] = {}
    if table.static_mw:
        stats = time_program(program)
        cycles = operator_cycles(program, stats, step.lines) or ()
        shares = {number: one.cycles for number, one in enumerate(cycles)} or {0: stats.total_cycles}
    for number, operator in enumerate(step.placement.operators):
        counts = with_operations(activity.of(np.flatnonzero(owner == number)), program.config)
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


# --- any of them ----------------------------------------------------------------------------------


def estimate_energy(
    what: Program | Model | Artifact | ExtensionVerdict | Exploration, coefficients: TableSource
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
            return what.energy_by(coefficients)
        case Exploration():
            return what.energy_by(coefficients)
    kinds = "a program, a model, a verdict or an exploration"
    raise EnergyError(f"estimate_energy: what must be {kinds}, got {type(what).__name__}")
