# SPDX-License-Identifier: Apache-2.0
"""Kernels executed thread by thread: values, races and barriers at which threads part."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from helpers.small_kernels import CLEAN, FAULTY, FOLLOWING, SHIFT, WAIT, X, get, kernel, put, where

from vdla.compiler import ir
from vdla.compiler.interpret import InterpretError, interpret, interpret_kernels
from vdla.compiler.ir import GridKernel
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.verification.grid.cooperative import centred_rows, row_sums, stencil, tiled_product, total, transpose

SCHEDULES = [
    partial(row_sums, 3, 10, 4),
    partial(row_sums, 2, 21, 7, tree=True),
    partial(total, 22, 3, 4),
    partial(centred_rows, 3, 10, 4),
    partial(stencil, 13, 4),
    partial(transpose, 7, 3),
    partial(tiled_product, 10, 4, 2, 2),
    partial(tiled_product, 9, 3, 1, 2),  # tiles of 6 elements, fetched by 9 threads
    partial(tiled_product, 7, 6, 2, 5),  # of 30 elements, by 9 threads
]
GIVEN = {"x": np.arange(32, dtype=np.int32), "y": np.zeros(32, np.int32)}


@pytest.mark.parametrize("factory", SCHEDULES)
@pytest.mark.parametrize("seed", range(2))
def test_threads_compute_what_the_loop_nest_means(factory: Callable[[], Schedule], seed: int) -> None:
    s = factory()
    outputs, random = ir.output_names(s.fn), np.random.default_rng(seed)
    inputs = {
        name: random.integers(-99, 99, s.fn.buffers[name].dims, dtype=np.int32)
        for name in s.fn.params
        if name not in outputs
    }
    got = interpret_kernels(lower_kernels(s.fn, GridLimits("test")), inputs, seed)
    for name, expected in interpret(s.fn, inputs).items():
        np.testing.assert_array_equal(got[name], expected)


@pytest.mark.parametrize("kernel", CLEAN)
def test_threads_that_meet_at_barriers_run_in_any_order(kernel: GridKernel) -> None:
    results = [interpret_kernels([kernel], GIVEN, seed)["y"] for seed in range(4)]
    assert all((result == results[0]).all() for result in results)


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in FAULTY[:5]])
def test_faults_show_in_every_order(kernel: GridKernel) -> None:
    for seed in range(5):
        with pytest.raises(InterpretError):
            interpret_kernels([kernel], GIVEN, seed)


REFUSED = [
    (kernel(SHIFT[0], SHIFT[2], threads=1), "y: s[1] must be written before it is read, got a read first"),
    (kernel(put("s", ir.Const(0), X), threads=2),
     "k: threads of a block must not access one element, to write it, without a barrier between, "
     "got the write of s[0] and the write of s[0] at s[0] by (0, 0, 0) and (1, 0, 0)"),
    (kernel(put("y", X), threads=1, blocks=2),
     "k: threads of different blocks must not access one element, to write it, "
     "got the write of y[threadIdx.x] and the write of y[threadIdx.x] at y[0] by (1, 0, 0) and (0, 0, 0)"),
    (kernel(where(X, 1, WAIT), threads=2),
     "k: all threads of a block must come to a barrier, got (0, 0, 0) at one and (1, 0, 0) not"),
    (kernel(ir.For("i", 2, where(ir.Binary("add", X, ir.Var("i")), 2, WAIT)), threads=2),
     "k: all threads of a block must come to a barrier, got (0, 0, 0) at one and (1, 0, 0) not"),
    (kernel(put("s", ir.Const(16))), "block s: every store must be inside the shape [16], got s[16]"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "message"), REFUSED)
def test_a_fault_is_named(kernel: GridKernel, message: str) -> None:
    with pytest.raises(InterpretError) as error:
        interpret_kernels([kernel], GIVEN, 2)
    assert str(error.value) == message


def test_a_temporary_lives_between_launches() -> None:
    first, second = kernel(put("y", X, get("x", X))), kernel(put("x", X, get("y", FOLLOWING)))
    got = interpret_kernels([first, second], {"x": GIVEN["x"]}, 0)
    assert sorted(got) == ["x", "y"]
    assert got["x"][:5].tolist() == [1, 2, 3, 0, 4]
    assert GIVEN["x"][0] == 0
