# SPDX-License-Identifier: Apache-2.0
"""Schedules of GPUs for the tuner: their spaces, and a model of what kernels cost."""

from vdla.compiler.tune.grid.kernel_work import kernel_work, modelled_cost
from vdla.compiler.tune.grid.model import GridMachine, GridWork, modelled_cycles
from vdla.compiler.tune.grid.task import GRID_FEATURES, MEASURED, MODELLED, GridTask, grid_task

__all__ = [
    "GRID_FEATURES",
    "MEASURED",
    "MODELLED",
    "GridMachine",
    "GridTask",
    "GridWork",
    "grid_task",
    "kernel_work",
    "modelled_cost",
    "modelled_cycles",
]
