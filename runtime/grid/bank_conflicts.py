# SPDX-License-Identifier: Apache-2.0
"""The bank conflicts of a function on a GPU: `vdla.bank_conflicts(schedule)`."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.bank_conflicts import SharedAccess, shared_accesses
from vdla.compiler.lowering.check import PassError
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits

_LIMITS = GridLimits("a GPU", shared_bytes=1 << 20, warp=32, tensor_cores=True)
"""Beyond those of any device: kernels are only looked at."""


def bank_conflicts(what: ir.Function | Schedule) -> tuple[SharedAccess, ...]:
    """Each access of shared memory in the kernels of a function that is scheduled for a GPU with
    warps of 32 threads: bytes a lane, passes through the banks, and those due to conflicts.

    Printed, an access is a line of text. Accesses that are alike in a kernel are listed once.

    Raises:
        PassError: no kernel can be made of the schedule.
    """
    fn = what.fn if isinstance(what, Schedule) else what
    if not isinstance(fn, ir.Function):
        raise PassError(f"bank_conflicts: what must be a Function or a Schedule, got {type(fn).__name__}")
    return tuple(access for kernel in lower_kernels(fn, _LIMITS) for access in shared_accesses(kernel))
