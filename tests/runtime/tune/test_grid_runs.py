# SPDX-License-Identifier: Apache-2.0
"""Tiles of a grid are tuned by the model or on a device, logged, and taken by vdla.compile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.inline_workers import inline_workers
from helpers.opencl_functions import needs_opencl
from helpers.stub_cuda import StubCuda

import vdla
from vdla.compiler import ir, te
from vdla.compiler.operators import matmul, relu
from vdla.compiler.target import GridLimits, host
from vdla.compiler.tune import function_task
from vdla.compiler.tune.grid import grid_task, modelled_cost
from vdla.runtime.grid.opencl_devices import open_opencl
from vdla.runtime.grid.registry import open_grid_device
from vdla.runtime.tune.best import TunedSchedules
from vdla.runtime.tune.grid_measurer import MODEL_LIMITS, GridMeasurer, GridModelMeasurer
from vdla.runtime.tune.grid_runs import tune_grid
from vdla.runtime.tune.log import read_logs
from vdla.runtime.tune.trial import TuningError


def product() -> ir.Function:
    a, b = te.placeholder((16, 16), "float32", "a"), te.placeholder((16, 16), "float32", "b")
    return te.create_function([a, b], [matmul(a, b, name="c")], "product")


def positive() -> ir.Function:
    x = te.placeholder((40, 64), "float32", "x")
    return te.create_function([x], [relu(x, name="y")], "positive")


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials run in this process."""
    monkeypatch.setattr("vdla.runtime.tune.grid_runs.one_process", inline_workers)


@pytest.mark.usefixtures("inline")
def test_modelled_costs_need_no_device_and_are_exact(tmp_path: Path) -> None:
    log = tmp_path / "grid.jsonl"
    tuned = tune_grid(positive(), log, costs="modelled", search="exhaustive", trials=100)
    assert (tuned.unit, tuned.report.failed, len(tuned.report.trials)) == ("cycles", 0, tuned.task.space.size)
    assert tuned.cost == modelled_cost(tuned.built, MODEL_LIMITS) == min(t.cost for t in tuned.report.trials)
    assert tuned.report.trials[0].point == tuned.task.default
    assert tuned.speedup >= 1
    again = tune_grid(positive(), log, costs="modelled", search="exhaustive", trials=100)
    assert (again.report.reused, again.point) == (tuned.task.space.size, tuned.point)


@needs_opencl
@pytest.mark.usefixtures("inline")
def test_what_was_measured_is_compiled(tmp_path: Path) -> None:
    log, function = tmp_path / "grid.jsonl", positive()
    tuned = tune_grid(function, log, search="random", trials=3)
    assert (tuned.unit, tuned.report.failed) == ("seconds", 0)
    kernel = vdla.compile(function, "opencl", tuned=log)
    expected = vdla.compile(tuned.built, "opencl")
    assert kernel.source.text == expected.source.text
    x = np.linspace(-1, 1, 40 * 64, dtype=np.float32).reshape(40, 64)
    np.testing.assert_array_equal(kernel(x), np.maximum(x, 0))
    assert tune_grid(function, log, search="random", trials=3).report.reused == 3


@needs_opencl
@pytest.mark.usefixtures("inline")
def test_modelled_tiles_are_compiled_where_nothing_was_measured(tmp_path: Path) -> None:
    log, function = tmp_path / "grid.jsonl", positive()
    tuned = tune_grid(function, log, costs="modelled", search="exhaustive", trials=100)
    threads = tuned.point["threads"]
    assert threads != tuned.task.default["threads"]
    assert vdla.compile(function, "opencl", tuned=log).source.launches[0].threads == (threads, 1, 1)
    limits = open_opencl().limits
    assert vdla.compile(product(), "opencl", tuned=log).source.text == vdla.compile(product(), "opencl").source.text
    small = GridLimits("small", threads=16)
    found = TunedSchedules(read_logs(log))
    assert found.grid_function(function, small) is None
    assert str(found.grid_function(function, limits)) == str(tuned.built)
    with_tensor_cores = GridLimits("another", warp=32, tensor_cores=True)
    assert str(found.grid_function(function, with_tensor_cores)) == str(tuned.built)


@needs_opencl
def test_results_must_be_those_of_the_default_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    task = grid_task(positive(), open_opencl().limits)
    other = next(point for point in task.space.points() if point != task.default)
    wrong = grid_task(wrong_function(), open_opencl().limits).build
    build = type(task).build
    monkeypatch.setattr(type(task), "build", lambda own, at: build(own, at) if at == own.default else wrong(at))
    with pytest.raises(TuningError, match=r"^tune positive: results must be within 1e-05 of the largest, got a diff"):
        GridMeasurer(rounds=1).measure(task, other)


def wrong_function() -> ir.Function:
    x = te.placeholder((40, 64), "float32", "x")
    return te.create_function([x], [te.compute((40, 64), lambda i, j: x[i, j] * 2.0, "y")], "positive")


def test_targets_tasks_and_limits_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TuningError, match=r"^tune: target of a grid must be opencl\[:NAME\] or cuda\[:NAME\], got 'host'$"
    ):
        tune_grid(product(), tmp_path / "grid.jsonl", target="host")
    cpu = function_task(product(), host())
    with pytest.raises(TuningError, match=r"^tune product: task must be a function for a grid, got a CpuTask$"):
        GridModelMeasurer().measure(cpu, {})


@needs_opencl
def test_a_device_measures_what_was_made_for_it() -> None:
    task = grid_task(product(), GridLimits("other"))
    assert GridMeasurer().missing(task).startswith("device must have GridLimits(name='other', ")


def test_a_cuda_device_is_measured_as_well(stub_cuda: StubCuda) -> None:
    limits = open_grid_device("cuda").limits
    task = grid_task(positive(), limits)
    stub_cuda.interpret(task.build(task.default), limits=limits)
    measurer = GridMeasurer("cuda", rounds=1)
    assert measurer.missing(task) == ""
    assert measurer.measure(task, task.default) > 0
    assert any(line.startswith("cuLaunchKernel") for line in stub_cuda.log)


@needs_opencl
def test_bound_loops_leave_nothing_to_tune(tmp_path: Path) -> None:
    task = grid_task(positive(), GridLimits("any"))
    bound = task.build(task.default)
    with pytest.raises(vdla.Error, match=r"^compile: tuned must be left out for a function with bound loops, got 'l'$"):
        vdla.compile(bound, "opencl", tuned="l")


@pytest.mark.long
@needs_opencl
def test_a_process_measures_products(tmp_path: Path) -> None:
    tuned = tune_grid(product(), tmp_path / "grid.jsonl", search="estimate", trials=2)
    assert tuned.report.failed == 0
    assert tuned.speedup >= 1
