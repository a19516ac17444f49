# SPDX-License-Identifier: Apache-2.0
"""Kernels of networks are found and tuned; a schedule that is not faster leaves the default one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from vdla.benchmarks.tune import cpu_speedup
from vdla.benchmarks.tune.cpu_speedup import kernel_speedup, largest_kernels, speedup_figures
from vdla.benchmarks.tune.section import SectionRequest
from vdla.compiler.tune import Point, TuningTask
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.kernel_runs import NetworkKernel
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.workers import InlineWorkers, Workers


@pytest.fixture(scope="module")
def kernels() -> list[NetworkKernel]:
    return largest_kernels("vit_small", 3, image=16, patch=8, width=16, depth=2, heads=2, classes=4)


@dataclass(frozen=True, slots=True)
class KnownCosts(CpuMeasurer):
    """A packed matrix costs `packed` of what the default schedule does, any other point twice."""

    packed: float = 0.5

    def measure(self, task: TuningTask, point: Point) -> float:
        default = task.space.point(int(task.estimate(np.arange(task.space.size)).argmin()))
        return 1.0 if point == default else self.packed if point["algorithm"] == "packed" else 2.0


@pytest.fixture
def product(kernels: list[NetworkKernel]) -> NetworkKernel:
    return next(kernel for kernel in kernels if "MatMul" in kernel.task.name)


def inline(task: TuningTask, measurer: Measurer) -> Workers:
    workers = InlineWorkers(measurer)
    workers.begin(task)
    return workers


def test_kernels_come_by_their_multiply_adds(kernels: list[NetworkKernel]) -> None:
    assert [(kernel.uses, kernel.macs) for kernel in kernels] == [(1, 12288), (2, 4096), (2, 4096)]
    assert len({kernel.task.key for kernel in kernels}) == 3


def test_a_faster_schedule_is_taken(product: NetworkKernel) -> None:
    costs = KnownCosts(packed=0.5)
    found = kernel_speedup(product, trials=8, quick=costs, fresh=costs, make_workers=inline)
    assert found.speedup == 2.0
    assert found.changed["algorithm"] == "plain to packed"
    assert found.row["trials"] == 8
    assert found.row["changed"].startswith("algorithm plain to packed")


def test_the_default_stays_where_nothing_is_faster(product: NetworkKernel) -> None:
    seeming = KnownCosts(packed=0.9)  # in the trials only
    found = kernel_speedup(product, trials=8, quick=seeming, fresh=KnownCosts(packed=0.995), make_workers=inline)
    assert (found.speedup, found.row["changed"]) == (1.0, "nothing")


def test_figures_are_the_mean_and_the_worst(product: NetworkKernel) -> None:
    found = [
        kernel_speedup(product, trials=8, quick=costs, fresh=costs, make_workers=inline)
        for costs in (KnownCosts(packed=0.5), KnownCosts(packed=1.0))
    ]
    assert speedup_figures(found) == {"cpu_speedup": 1.4142, "cpu_speedup_worst": 1.0, "cpu_failed": 0}


def test_kernels_run(product: NetworkKernel) -> None:
    quick = CpuMeasurer(rounds=1, round_s=1e-5)
    found = kernel_speedup(product, trials=1, quick=quick, fresh=quick, make_workers=inline)
    assert found.report.failed == 0
    assert found.speedup == 1.0  # the only trial is the default schedule


def test_the_section_has_a_row_and_a_step_for_each_kernel(
    product: NetworkKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs, steps = KnownCosts(packed=0.5), []
    speedup = kernel_speedup(product, trials=8, quick=costs, fresh=costs, make_workers=inline)
    monkeypatch.setattr(cpu_speedup, "KERNELS", {"vit_small": 2})
    monkeypatch.setattr(cpu_speedup, "largest_kernels", lambda name, count, seed: [product] * count)
    monkeypatch.setattr(cpu_speedup, "kernel_speedup", lambda kernel, seed: speedup)
    section = cpu_speedup.measure_cpu_speedup(SectionRequest(0, steps.append))
    assert steps == [product.task.name] * 2
    assert section.figures == {"cpu_speedup": 2.0, "cpu_speedup_worst": 2.0, "cpu_failed": 0}
    assert [row["speedup"] for row in section.rows] == [2.0, 2.0]


def test_a_schedule_that_is_faster_only_once_is_not_taken(product: NetworkKernel) -> None:
    costs = iter((0.5, 0.5, 1.0))  # packed matrices in the trials, and in two processes after them

    def make_workers(task: TuningTask, measurer: Measurer) -> Workers:
        workers = InlineWorkers(KnownCosts(packed=next(costs)))
        workers.begin(task)
        return workers

    assert kernel_speedup(product, trials=8, make_workers=make_workers).speedup == 1.0
