"""The modelled cost of a scheduled function: the sum over its launches, as they are lowered."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.grid.kernel_work import kernel_work
from vdla.compiler.tune.grid.model import GridMachine, modelled_cycles


def modelled_cost(fn: ir.Function, limits: GridLimits, machine: GridMachine | None = None) -> float:
    """The cycles of all launches; by default on a machine of the size of a GPU for data centres.

    Raises:
        PassError: the schedule asks for the impossible, or for more than the limits.
    """
    chosen = GridMachine() if machine is None else machine
    return float(sum(modelled_cycles(kernel_work(kernel), chosen) for kernel in lower_kernels(fn, limits)))
