# SPDX-License-Identifier: Apache-2.0
"""Estimated energy of a frame, one run of all layers, on the machines of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vdla.runtime.studies.layer_cycles import kept_cost
from vdla.runtime.studies.layer_energy import cost_energy
from vdla.runtime.studies.layers import EvaluatedLayer
from vdla.runtime.studies.sweep import SweptMachine

if TYPE_CHECKING:
    from vdla.simulator.energy import EnergyTable, Picojoules


@dataclass(frozen=True, slots=True)
class ExplorationEnergy:
    """The estimates of a frame on the machines that were measured, by their places in the sweep."""

    table: EnergyTable
    machines: Mapping[int, Picojoules]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values, the machines by their places in the sweep."""
        rows = {str(at): energy.to_dict() for at, energy in self.machines.items()}
        return {"coefficients": self.table.name, "source": self.table.source, "machines": rows}


def frame_energy(
    layers: Sequence[EvaluatedLayer], swept: SweptMachine, table: EnergyTable, clock_mhz: float
) -> Picojoules | None:
    """The estimate on a machine at a clock whose layers this process, or one with the same cache,
    has measured; None where a layer is missing.
    """
    from vdla.simulator.energy.estimate import NOTHING

    total, clocked = NOTHING, replace(swept.config, clock_mhz=clock_mhz)
    for layer in layers:
        energy = cost_energy(kept_cost(layer, swept.config, swept.sources), clocked, table)
        if energy is None:
            return None
        total += energy.total * layer.count
    return total
