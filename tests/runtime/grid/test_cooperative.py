# SPDX-License-Identifier: Apache-2.0
"""Threads that share memory, wait and add to one element, on an OpenCL device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from helpers.opencl_functions import needs_opencl
from helpers.warp_product import small_integers, warp_product

import vdla
from vdla.compiler import ir
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.verification.grid.cooperative import row_sums, stencil, strided_stencil, tiled_product, total

Build = Callable[[ir.Function], DeviceKernel]
SCHEDULES = [
    partial(row_sums, 6, 32, 8, tree=True),
    partial(total, 96, 3, 8),
    partial(stencil, 30, 8),
    partial(tiled_product, 20, 8, 2, 4),
]
SCHEDULES += [partial(strided_stencil, 3, 8), partial(strided_stencil, 3, 8, double=True)]


@pytest.mark.sampled
@pytest.mark.parametrize("factory", SCHEDULES)
def test_cooperative_schedules_compute_what_their_nests_mean(
    factory: Callable[[], Schedule], build_grid: Build
) -> None:
    s = factory()
    random, outputs = np.random.default_rng(0), ir.output_names(s.fn)
    inputs = {
        name: random.integers(-99, 99, s.fn.buffers[name].dims, dtype=np.int32)
        for name in s.fn.params
        if name not in outputs
    }
    got = build_grid(s.fn)(**inputs)
    np.testing.assert_array_equal(got, interpret(s.fn, inputs)[outputs[0]])


@needs_opencl
def test_updates_are_atomic_functions() -> None:
    source = vdla.compile(total(96, 3, 8), "opencl").source.text
    assert "atomic_add(&y[0], x[bx * 32 + tx * 4 + k_i_i]);" in source


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_steps_of_tensor_cores_run_lane_by_lane(dtype: str, build_grid: Build) -> None:
    arrays, wanted = small_integers(dtype)
    np.testing.assert_array_equal(build_grid(warp_product(dtype).fn)(**arrays), wanted)
