# SPDX-License-Identifier: Apache-2.0
"""The machines of a sweep: what they cost on a part, how fast they run layers, which are best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from vdla.hardware.config import Config
from vdla.hardware.fpga.area_model import LUT_ERROR
from vdla.hardware.fpga.parts import FpgaPart
from vdla.runtime.studies.explored_machine import GIVEN, ExploredMachine
from vdla.runtime.studies.figures import FIGURES
from vdla.runtime.studies.frame_energy import ExplorationEnergy, frame_energy
from vdla.runtime.studies.layers import EvaluatedLayer
from vdla.runtime.studies.study import DrawnStudy
from vdla.runtime.studies.sweep import Objectives, machine_of, on_front
from vdla.simulator.energy import EnergyTable, energy_table
from vdla.support.html_repr import shown_by

if TYPE_CHECKING:
    from vdla.simulator.energy.estimate import TableSource


@dataclass(frozen=True)
class Exploration(DrawnStudy):
    """All machines of a sweep in its order; `sources` are the extensions of `base`. Machines are
    compared by the figures `objectives`, the first one first, and by their resources.

    `coefficients` are those of the energies of the machines; `clock` says which clock these have.
    """

    name: str
    base: Config
    part: FpgaPart
    machines: tuple[ExploredMachine, ...]
    layers: tuple[EvaluatedLayer, ...] = ()
    sources: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ("fps",)
    clock: str = GIVEN
    coefficients: EnergyTable | None = None

    _repr_html_ = shown_by("studies", "exploration_html")
    _makers: ClassVar[Mapping[str, str]] = {
        "tables": "commands.explore_tables:tables_of",
        "notes": "commands.explore_tables:lines_of",
        "picture": "commands.explore_page:exploration_picture",
        "page": "commands.explore_page:exploration_page",
    }

    def __repr__(self) -> str:
        return f"<Exploration of {self.name} on {self.part.name}: {len(self.machines)} machines>"

    @cached_property
    def measured(self) -> list[ExploredMachine]:
        """Those with cycles inside all limits, the best by the first objective first."""
        machines = [machine for machine in self.machines if machine.cycles is not None and not machine.reason]
        return sorted(machines, key=FIGURES[self.objectives[0]].cost)

    @cached_property
    def front(self) -> list[ExploredMachine]:
        """Those that no other one beats, in the same order."""
        best = on_front([self._costs(machine) for machine in self.measured])
        return [machine for machine, keep in zip(self.measured, best, strict=True) if keep]

    def _costs(self, machine: ExploredMachine) -> Objectives:
        """The objectives, and resources of the part; a machine whose area is not complete beats
        none of those whose area is.
        """
        assert machine.area is not None, "it was measured"
        used, partial = machine.area.usage, not machine.area.complete
        costs = (FIGURES[name].cost(machine) for name in self.objectives)
        return (*costs, used.lut, used.dsp, used.bram36, used.uram, partial)

    @property
    def rejected(self) -> list[ExploredMachine]:
        """Those that cannot be or are outside a limit, with their reasons."""
        return [machine for machine in self.machines if machine.reason]

    @property
    def energy(self) -> ExplorationEnergy | None:
        """The estimated energy of a frame on each machine, where coefficients were given."""
        if self.coefficients is None:
            return None
        frames = {at: machine.energy for at, machine in enumerate(self.machines)}
        return ExplorationEnergy(self.coefficients, {at: frame for at, frame in frames.items() if frame is not None})

    def energy_by(self, coefficients: TableSource) -> ExplorationEnergy:
        """The estimates by some coefficients; EnergyError for unknown ones."""
        energy = self.with_energy(coefficients).energy
        assert energy is not None, "it has coefficients"
        return energy

    def with_energy(self, coefficients: TableSource) -> Exploration:
        """The exploration with estimates on each machine whose layers this process, or one with the
        same cache, has measured, which its tables then have. EnergyError for unknown coefficients.
        """
        table = energy_table(coefficients)
        machines = (self._with_frame(machine, table) for machine in self.machines)
        return replace(self, machines=tuple(machines), coefficients=table)

    def _with_frame(self, machine: ExploredMachine, table: EnergyTable) -> ExploredMachine:
        if machine.cycles is None or machine.area is None:
            return machine
        swept = machine_of(self.base, self.sources, machine.point)
        return replace(machine, energy=frame_energy(self.layers, swept, table, machine.area.clock_mhz))

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; what a machine does not have is null."""
        document = {
            "layers": self.name,
            "machine": self.base.name,
            "part": self.part.name,
            "lut_error": LUT_ERROR,
            "objectives": list(self.objectives),
            "clock": self.clock,
            "machines": [{**machine.to_dict(), "front": machine in self.front} for machine in self.machines],
        }
        return document | ({} if self.energy is None else {"energy": self.energy.to_dict()})
