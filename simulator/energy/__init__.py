# SPDX-License-Identifier: Apache-2.0
"""What programs make a machine do, counted exactly from their instructions, and estimates of the
energy that this takes. Needs no data and no simulation of it.
"""

from vdla.simulator.energy.activity import Activity, activity_of
from vdla.simulator.energy.estimate import Energy, Picojoules, energy_of, energy_table
from vdla.simulator.energy.event import Action, EventCounts, MachineEvent
from vdla.simulator.energy.table import Coefficients, EnergyError, EnergyTable

__all__ = [
    "Action",
    "Activity",
    "Coefficients",
    "Energy",
    "EnergyError",
    "EnergyTable",
    "EventCounts",
    "MachineEvent",
    "Picojoules",
    "activity_of",
    "energy_of",
    "energy_table",
]
