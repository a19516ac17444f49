# SPDX-License-Identifier: Apache-2.0
"""Costs of CPU kernels: ratios to the default schedule; kernels that differ, crash or hang."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.operators import matmul, relu
from vdla.compiler.target import host
from vdla.compiler.tune import CpuTask, Point, expression_task, function_task
from vdla.compiler.tune.cpu_forms import CpuForm, FormKey
from vdla.hardware.config import Config
from vdla.runtime.native import threads
from vdla.runtime.tune import cpu_measurer
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.trial import TuningError
from vdla.runtime.tune.workers import LocalWorkers

QUICK = CpuMeasurer(rounds=3, round_s=1e-5)


def product(dtype: str = "float32") -> CpuTask:
    a, b = (te.placeholder((8, 16), dtype, "a"), te.placeholder((16, 16), dtype, "b"))
    return function_task(te.create_function([a, b], [matmul(a, b, name="c")], "product"), host())


def far_store(function: ir.Function) -> ir.Function:
    """The function with its results 4 GiB behind their array."""
    loop = function.body
    assert isinstance(loop, ir.For) and isinstance(loop.body, ir.Block) and isinstance(loop.body.body, ir.Store)
    store = loop.body.body
    away = replace(store, indices=(ir.Binary("add", store.indices[0], ir.Const(1 << 30)),))
    return replace(function, body=replace(loop, body=replace(loop.body, body=away)))


def rows(name: str = "f") -> ir.Function:
    x = te.placeholder((8,), "float32", "x")
    return te.create_function([x], [relu(x, name="y")], name)


def endless() -> ir.Function:
    """Sums 2**60 terms."""
    x = te.placeholder((8,), "float32", "x")
    axes = [te.reduce_axis(1 << 30, "j"), te.reduce_axis(1 << 30, "k")]
    return te.create_function([x], [te.compute((8,), lambda i: te.sum(x[i], axis=axes), "y")], "f")


@dataclass(frozen=True, eq=False)
class OtherKernel(CpuTask):
    """A task that builds `other` for all points but the default, which is without knobs."""

    other: ir.Function = field(kw_only=True)

    def __getstate__(self) -> tuple[object, ...]:  # type: ignore[override]
        return self.name, self.target, self.make_forms, self.threads, self.other

    def __setstate__(self, state: tuple[object, ...]) -> None:  # type: ignore[override]
        for name, value in zip(("name", "target", "make_forms", "threads", "other"), state, strict=True):
            object.__setattr__(self, name, value)

    def build(self, point: Point) -> ir.Function:
        return super().build(point) if point == self.default else self.other


def only_rows() -> dict[FormKey, CpuForm]:
    return {FormKey(): CpuForm(rows())}


def other_kernel(other: ir.Function) -> OtherKernel:
    return OtherKernel("rows", host(), only_rows, other=other)


def test_a_measured_point_costs_seconds_and_leaves_the_process_as_it_was() -> None:
    task, before = product(), (os.sched_getaffinity(0), threads())
    points = list(task.space.sample(np.random.default_rng(0), 3))
    costs = [QUICK.measure(task, point) for point in (task.default, *points)]
    assert all(0 < cost < 1 for cost in costs)
    assert 0.1 < QUICK.ratio(task, task.default) < 10
    assert (os.sched_getaffinity(0), threads()) == before


def test_kernels_on_threads_have_as_many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 7})
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, places: pinned.append(places))
    for count in (1, 2):
        with cpu_measurer._one_program(count):
            assert threads() == count
    assert pinned == [{3}, {3, 5, 7}, {3, 5}, {3, 5, 7}]
    assert CpuMeasurer(threads=3).missing(product()) == ""
    assert CpuMeasurer(threads=4).missing(product()) == "threads must be at most the 3 processors, got 4"


@pytest.mark.parametrize("factor, rounds", [(0.5, 5), (1.25, 5), (3.0, 1)])
def test_a_cost_is_the_median_ratio_whatever_slows_both(
    factor: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, taken = product(), []
    default = cpu_measurer._default(task, 0, lambda: 0.0)
    noise = [1.0, 4.0, 1.0, 2.0, 9.0]

    def seconds(work: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
        taken.append(work)
        load = noise[(len(taken) - 3) // 2] if len(taken) > 2 else 1.0
        return load * (1.0 if work is default.call else factor)

    monkeypatch.setattr(cpu_measurer, "_seconds", seconds)
    other = {**task.default, "unrolled_steps": 1}
    assert CpuMeasurer()._ratio(default, other, lambda: 0.0) == factor
    assert len(taken) == 2 + 2 * rounds
    assert [work is default.call for work in taken[2:6]] in ([False, True, True, False], [False, True])


def test_on_threads_the_least_times_count(monkeypatch: pytest.MonkeyPatch) -> None:
    task, taken = product(), []
    default = cpu_measurer._default(task, 0, lambda: 0.0)

    def seconds(work: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
        taken.append(work)
        slowed = 1.0 if len(taken) in (9, 19) else 50.0
        return slowed * (1.0 if work is default.call else 0.5)

    monkeypatch.setattr(cpu_measurer, "_seconds", seconds)
    other = {**task.default, "unrolled_steps": 1}
    assert CpuMeasurer(threads=2)._ratio(default, other, lambda: 0.0) == 0.5
    assert len(taken) == 2 + 2 * 4 * 5
    assert (taken[8] is default.call, taken[18] is default.call) == (True, False)


def test_kernels_with_other_results_are_refused() -> None:
    x = te.placeholder((8,), "float32", "x")
    double = te.create_function([x], [te.compute((8,), lambda i: x[i] * 2, "y")], "f")
    task = other_kernel(double)
    with pytest.raises(TuningError, match=r"^tune rows: results must be within 1e-05 of the largest, got a diff"):
        QUICK.measure(task, {"schedule": "other"})


def test_integers_must_be_equal() -> None:
    found = np.array([1, 2, 3, 5])
    with pytest.raises(TuningError) as raised:
        cpu_measurer.check_equal("rows", found, np.array([1, 2, 4, 6]))
    assert str(raised.value) == "tune rows: results must equal those of the default schedule, got 2 others"
    cpu_measurer.check_equal("rows", found, found.copy())


def test_results_that_are_no_numbers_are_refused() -> None:
    expected = np.ones(3, np.float32)
    with pytest.raises(TuningError, match=r"got a difference of nan of it$"):
        cpu_measurer.check_equal("rows", np.array([1, np.nan, 1], np.float32), expected)


def test_a_processor_without_the_features_is_named() -> None:
    lacking = replace(host(), features=host().features | {"amx-fp99"})
    task = function_task(rows(), lacking)
    assert QUICK.missing(task) == "processor must have amx-fp99, got none"
    assert QUICK.missing(product()) == ""


def test_programs_are_no_kernels() -> None:
    x = te.placeholder((16, 16), "int8", "x")
    k = te.reduce_axis(16, "k")
    sums = te.compute((16, 16), lambda i, j: te.sum(te.cast("int32", x[i, k]) * te.cast("int32", x[j, k]), axis=k), "s")
    task = expression_task(sums, Config.preset("tiny"), "sums")
    with pytest.raises(TuningError) as raised:
        QUICK.measure(task, {})
    assert str(raised.value) == "tune sums: task must be a kernel for CPUs, got a VdlaTask"


def trial_error(task: CpuTask, timeout_s: float) -> list[str]:
    """The errors of a point of another kernel, and of the default after it."""
    workers = LocalWorkers(QUICK, 1, timeout_s)
    try:
        workers.begin(task)
        workers.submit(0, {"schedule": "other"})
        workers.submit(1, task.default)
        found = dict(workers.take() for _ in range(2))
    finally:
        workers.close()
    return [found[number].error for number in range(2)]


def test_a_kernel_that_crashes_costs_its_trial() -> None:
    errors = trial_error(other_kernel(far_store(rows())), 60)
    assert errors == ["trial: its worker must not end, got signal 11", ""]


@pytest.mark.slow
def test_a_kernel_that_hangs_costs_its_trial() -> None:
    errors = trial_error(other_kernel(endless()), 4)
    assert errors == ["trial: it must end within 4 s, got none; its worker was started again", ""]
