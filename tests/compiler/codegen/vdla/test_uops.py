# SPDX-License-Identifier: Apache-2.0
"""Micro-op plans: each operation finds its kernel, and loads are few."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.uops import UopError, UopLoad, UopPlan, plan_uops
from vdla.hardware.isa import MicroOp

UopKernel = tuple[MicroOp, ...]


def kernel(*values: int) -> UopKernel:
    return tuple(MicroOp(acc=value) for value in values)


def check(depth: int, kernels: list[UopKernel]) -> UopPlan:
    """Replays the plan; checks that the buffer holds the kernel of each operation when it runs."""
    plan = plan_uops(depth, kernels, np.arange(len(kernels)))
    loads = {batch.before: batch for batch in plan.loads}
    assert len(loads) == len(plan.loads)
    buffer: tuple[MicroOp, ...] = ()
    for index, wanted in enumerate(kernels):
        if index in loads:
            batch = loads[index]
            assert 0 < batch.size <= depth
            buffer = plan.table[batch.begin : batch.begin + batch.size]
        begin = plan.begins[index]
        assert buffer[begin : begin + len(wanted)] == wanted
        assert plan.kernels[index] == wanted
    return plan


def test_equal_kernels_are_stored_once():
    plan = check(16, [kernel(1, 2), kernel(3), kernel(1, 2)])
    assert plan.table == kernel(1, 2, 3)
    assert plan.begins.tolist() == [0, 2, 0]
    assert plan.kernels[0] is plan.kernels[2]


def test_a_part_of_another_kernel_is_not_stored():
    plan = check(16, [kernel(2, 3), kernel(3), kernel(1, 2, 3, 4), kernel(4)])
    assert plan.table == kernel(1, 2, 3, 4)
    assert plan.begins.tolist() == [1, 2, 0, 3]


def test_a_kernel_that_is_not_a_contiguous_part_is_stored():
    """Not contiguous, or in another order."""
    assert len(check(16, [kernel(1, 2, 3), kernel(1, 3), kernel(2, 1)]).table) == 7


def test_kernels_that_fit_are_loaded_once_at_the_start():
    plan = check(4, [(), kernel(1, 2), (), kernel(3, 4)])
    assert plan.loads == (UopLoad(before=0, begin=0, size=4),)


def test_without_kernels_there_is_no_table():
    plan = check(4, [(), ()])
    assert (plan.table, plan.loads) == ((), ())


def test_kernels_that_do_not_fit_are_loaded_in_runs():
    plan = check(4, [kernel(1, 2), kernel(3, 4), kernel(1, 2), (), kernel(5), kernel(1, 2), kernel(3, 4)])
    assert [batch.before for batch in plan.loads] == [0, 4, 6]
    assert [batch.size for batch in plan.loads] == [4, 3, 2]


def test_a_kernel_larger_than_the_buffer_is_refused():
    message = "uops: kernel of operation 2 must have at most 4 micro-ops, got 5"
    with pytest.raises(UopError, match=f"^{re.escape(message)}$"):
        check(4, [kernel(1), (), kernel(1, 2, 3, 4, 5)])


def test_random_plans_serve_every_operation():
    for seed in range(100):
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        several = [kernel(*rng.integers(0, 3, rng.integers(1, 9)).tolist()) for _ in range(8)]
        kernels = [several[rng.integers(8)] if rng.integers(4) else () for _ in range(30)]
        for depth in (8, 13, 64):
            check(depth, kernels)


def test_kernels_differ_by_every_field():
    kernels = [(MicroOp(src=1),), (MicroOp(wgt=1),), (MicroOp(first=1),), (MicroOp(last=1),), (MicroOp(acc=1),)]
    assert len(check(8, kernels).table) == 5
