"""Explorations of machines: sweeps of configurations for layers or a network, on a part.

found = explore(base, layers, {"block_in": [8, 16]}, PARTS["xc7z020"], workers, log="e.jsonl")
"""

from vdla.runtime.explore.errors import ExploreError
from vdla.runtime.explore.explore import SEARCHES, Exploration, ExploredMachine, MachineArea, area_on, explore
from vdla.runtime.explore.front import on_front
from vdla.runtime.explore.sweep import EXTENSIONS, NONE, machine_of, swept_fields
from vdla.runtime.explore.task import MachineMeasurer

__all__ = [
    "EXTENSIONS",
    "NONE",
    "SEARCHES",
    "Exploration",
    "ExploreError",
    "ExploredMachine",
    "MachineArea",
    "MachineMeasurer",
    "area_on",
    "explore",
    "machine_of",
    "on_front",
    "swept_fields",
]
