"""Schedules of GPUs for the tuner: their spaces, and a model of what kernels cost."""

from vdla.compiler.tune.grid.kernel_work import kernel_work
from vdla.compiler.tune.grid.model import GridMachine, GridWork, modelled_cycles

__all__ = ["GridMachine", "GridWork", "kernel_work", "modelled_cycles"]
