# SPDX-License-Identifier: Apache-2.0
"""Estimated energy of layers, from the counts of events that are kept with their cycles.

The simulator is imported where it is used, so that cached results are shown at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vdla.hardware.config import Config
from vdla.runtime.studies.measure import LayerCost

if TYPE_CHECKING:
    from vdla.simulator.energy import Energy, EnergyTable, Picojoules


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
        from vdla.simulator.energy.estimate import NOTHING

        both = [row for row in self.layers if row.before is not None and row.after is not None]
        chosen = ((row.after if after else row.before, row.count) for row in both)
        return sum((energy.total * count for energy, count in chosen if energy is not None), NOTHING)

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


def cost_energy(cost: LayerCost | None, config: Config, table: EnergyTable) -> Energy | None:
    """The estimate of a layer's program on a machine; None without one."""
    if cost is None:
        return None
    from vdla.runtime.studies.step_energy import with_operations
    from vdla.simulator.energy import Action, MachineEvent, energy_of

    counts = {MachineEvent(part, Action(action), *bits): n for part, action, *bits, n in cost.events}
    return energy_of(with_operations(counts, config), config, table, cost.cycles)
