# SPDX-License-Identifier: Apache-2.0
"""Random functions under random schedules for a grid, thread by thread."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from helpers.seeds import long_count

from vdla.compiler import ir
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import Array, GridKernel
from vdla.verification.fuzz.functions import FuzzProblem
from vdla.verification.grid import scheduled
from vdla.verification.grid.scheduled import GridCases, run_grid_case


def cases(first: int, count: int) -> GridCases:
    """The outcomes of some seeds, without a device."""
    total = GridCases()
    for seed in range(first, first + count):
        total.add(run_grid_case(seed, device=False))
    return total


def test_threads_compute_what_random_functions_mean() -> None:
    found = cases(75, 12)
    assert found.wrong == {}
    assert found.cases + found.refused == 12
    assert found.cases > 5
    assert found.several_threads > 3
    assert found.with_barriers > 1


@pytest.mark.long
def test_threads_compute_what_many_random_functions_mean() -> None:
    count = long_count(150, share=6)
    found = cases(10_000, count)
    assert found.wrong == {}
    assert found.with_barriers > count // 5


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels whose last statement is lost."""

    def lose(kernel: GridKernel) -> GridKernel:
        return GridKernel(**{name: getattr(kernel, name) for name in kernel.__slots__} | {"body": ir.Seq(())})

    lower = scheduled.lower_kernels
    monkeypatch.setattr(scheduled, "lower_kernels", lambda fn, limits: tuple(map(lose, lower(fn, limits))))
    found = cases(0, 8)
    assert found.cases == len(found.wrong) > 0


@pytest.mark.parametrize("always", [False, True])
def test_a_driver_that_errs_only_when_it_optimises_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, *, always: bool
) -> None:
    def on_device(problem: FuzzProblem, scheduled: ir.Function, *, optimised: bool = True) -> Mapping[str, Array]:
        outputs = interpret(problem.fn, problem.arrays)
        return {name: array * 0 for name, array in outputs.items()} if optimised or always else outputs

    monkeypatch.setattr(scheduled, "_on_device", on_device)
    found = GridCases()
    for seed in range(4):
        found.add(run_grid_case(seed, device=True))
    assert (len(found.wrong) > 0, len(found.miscompiled) > 0) == (always, not always)
