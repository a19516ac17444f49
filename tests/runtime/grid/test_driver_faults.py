# SPDX-License-Identifier: Apache-2.0
"""Sources at which the compiler of PoCL 3.0-rc2 errs, found by `vdla bench gpu`: why conditions are
written as one branch, and how a driver's fault is told from ours.

With `BRANCHES`, PoCL ends the process ("Could not find a dominating alternative variable") where it
optimises, so that form is only built without.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.opencl_functions import needs_opencl

from vdla.runtime.grid.opencl_context import build_program, pyopencl
from vdla.runtime.grid.opencl_devices import open_opencl

BRANCHES, ONE_BRANCH = "tx == 0 && bx * 2 + i < 9", "(tx == 0) & (bx * 2 + i < 9)"
SOURCE = """\
__kernel __attribute__((reqd_work_group_size(3, 1, 1)))
void k(__global const int *restrict a, __global int *restrict y) {
    __local int t[8];
    const int bx = get_group_id(0);
    const int tx = get_local_id(0);
    int own[2];
    for (int i = 0; i < 2; ++i) {
        for (int f = 0; f < 2; ++f) {
            if (tx + f * 3 < 4) {
                t[i * 4 + f * 3 + tx] = a[f * 3 + tx];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (CONDITION) {
            own[i] = t[i * 4 + 2] * (bx * 2 + i + 1 < 8 ? t[i * 4 + 1] : 1);
        }
    }
    if (tx == 0) {
        for (int j = 0; j < 2; ++j) {
            if (bx * 2 + j < 9) {
                y[bx * 2 + j] = own[j];
            }
        }
    }
}
"""


@needs_opencl
@pytest.mark.parametrize(
    ("condition", "optimises"),
    [pytest.param(BRANCHES, False, marks=pytest.mark.long), (ONE_BRANCH, True)],
)
def test_a_source_at_which_a_driver_errs_is_right(condition: str, *, optimises: bool) -> None:
    cl, device = pyopencl(), replace(open_opencl(), optimises=optimises)
    program, flags = build_program(device, SOURCE.replace("CONDITION", condition)), cl.mem_flags
    y = np.zeros(9, np.int32)
    a = cl.Buffer(device.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=np.arange(1, 5, dtype=np.int32))
    out = cl.Buffer(device.context, flags.READ_WRITE, size=y.nbytes)
    cl.Kernel(program, "k")(device.queue, (15,), (3,), a, out)
    cl.enqueue_copy(device.queue, y, out)
    assert y.tolist() == [6] * 7 + [3] * 2
