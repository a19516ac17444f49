# SPDX-License-Identifier: Apache-2.0
"""What programs make a machine do, counted exactly from their instructions, and estimates of the
energy that this takes. Needs no data and no simulation of it.
"""

from vdla.simulator.energy.activity import Activity, activity_of
from vdla.simulator.energy.event import Action, EventCounts, MachineEvent

__all__ = ["Action", "Activity", "EventCounts", "MachineEvent", "activity_of"]
