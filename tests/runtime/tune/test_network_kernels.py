# SPDX-License-Identifier: Apache-2.0
"""The kernels of a network are tuned into a log, from which the network is compiled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.graphs import small_graph

import vdla
from vdla.compiler.graph import Graph, Node
from vdla.compiler.tune import TuningTask
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.tune import kernel_runs as module
from vdla.runtime.tune.best import TunedSchedules
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.log import CONFIRMED, TuningLog
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.network_kernels import network_kernels, tune_kernels
from vdla.runtime.tune.trial import Trial, TuningError
from vdla.runtime.tune.workers import InlineWorkers, Workers


@pytest.fixture
def network() -> Graph:
    """Two equal products, one with fewer rows after them, and a sum of elements."""
    square, narrow = np.ones((32, 32), np.float32), np.ones((32, 16), np.float32)
    nodes = [
        Node("MatMul", ("x", "square"), ("a",)),
        Node("MatMul", ("a", "square"), ("b",)),
        Node("MatMul", ("b", "narrow"), ("c",)),
        Node("Softmax", ("c",), ("y",), {"axis": -1}),
    ]
    shapes = {"a": (2, 6, 32), "b": (2, 6, 32), "c": (2, 6, 16), "y": (2, 6, 16)}
    return small_graph(nodes, (2, 6, 32), shapes=shapes, square=square, narrow=narrow)


def inline(task: TuningTask, measurer: Measurer, timeout_s: float) -> Workers:
    workers = InlineWorkers(measurer)
    workers.begin(task)
    return workers


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials in this process, of one short round."""
    short = CpuMeasurer(rounds=1, round_s=1e-6)
    monkeypatch.setattr(module, "one_process", inline)
    monkeypatch.setattr(module, "CpuMeasurer", partial(replace, short))
    monkeypatch.setattr(module, "AGAIN", short)


def test_kernels_of_a_network_by_their_multiply_adds(network: Graph) -> None:
    found = network_kernels(network)
    assert [(kernel.uses, kernel.macs) for kernel in found] == [(2, 12288), (1, 6144), (1, 0)]
    assert [kernel.task.name for kernel in found] == ["kernel 1 MatMul", "kernel 2 MatMul", "kernel 3 Softmax"]


@pytest.mark.usefixtures("quick")
def test_a_log_is_filled_and_used(network: Graph, tmp_path: Path) -> None:
    log, shown = tmp_path / "kernels.jsonl", []
    found = tune_kernels(network, log, trials=2, progress=lambda *step: shown.append(step))
    last = {what.split(",")[0]: (done, total) for what, done, total in shown}
    assert last == {"kernel 1 MatMul": (2, 4), "kernel 2 MatMul": (4, 4), "done": (4, 4)}
    assert "MatMul, best " in shown[0][0]
    assert [len(tuned.report.trials) for tuned in found] == [2, 2]
    assert all(tuned.report.failed == 0 for tuned in found)
    assert [tuned.report.trials[0].point for tuned in found] == [tuned.kernel.task.default for tuned in found]
    lines = len(log.read_bytes().splitlines())
    (again,) = tune_kernels(network, log, trials=2, most=1)
    assert (again.report.reused, again.schedule) == (2, found[0].schedule)
    assert len(log.read_bytes().splitlines()) == lines
    image = np.random.default_rng(0).standard_normal((2, 6, 32)).astype(np.float32)
    result = vdla.compile(network, "host", tuned=log)(image)
    np.testing.assert_allclose(np.asarray(result), 1 / 16, rtol=1e-5)  # all columns of the products are equal


@pytest.mark.usefixtures("quick")
def test_trials_from_before_a_knob_are_not_repeated(network: Graph, tmp_path: Path) -> None:
    new, old = tmp_path / "new.jsonl", tmp_path / "old.jsonl"
    (tuned,) = tune_kernels(network, new, trials=3, most=1, search="grid")
    points = [trial.point for trial in tuned.report.trials if trial.point["lanes"] == 0]
    with TuningLog(old) as log:
        for point in points:
            known = {name: value for name, value in point.items() if name != "lanes"}
            log.append(tuned.report.run, Trial(known, 1e-6, "seconds"))
    (again,) = tune_kernels(network, old, trials=3, most=1, search="grid")
    assert again.report.reused == len(points) > 0
    assert [trial.point for trial in again.report.trials] == [trial.point for trial in tuned.report.trials]


@pytest.mark.usefixtures("quick")
def test_schedules_for_threads_are_logged_apart(network: Graph, tmp_path: Path) -> None:
    log = tmp_path / "kernels.jsonl"
    (one,) = tune_kernels(network, log, trials=1, most=1, threads=1)
    (all_,) = tune_kernels(network, log, trials=2, most=1, threads=2, search="estimate")
    assert all_.report.reused == 0
    assert (one.kernel.task.threads, all_.kernel.task.threads) == (1, 2)
    point = {**all_.kernel.task.default, "threads": 2}
    with TuningLog(log) as opened:
        opened.append(replace(all_.report.run, search=CONFIRMED), Trial(point, 1e-6, "seconds"))
    schedules = TunedSchedules.of(log)
    assert schedules.kernel_point(one.kernel.task.key, 2) == point
    assert schedules.kernel_point(one.kernel.task.key) is None
    fresh = TunedSchedules.of(log)
    model = vdla.compile(network, "host", tuned=fresh, threads=2)
    assert fresh.used == [all_.kernel.task.key] * 2  # for each of the equal products
    image = np.full((2, 6, 32), 1 / 32, np.float32)  # the product with ones keeps it
    np.testing.assert_allclose(np.asarray(model(image)), 1 / 16, rtol=1e-5)


@pytest.mark.parametrize("option", ["trials", "most", "threads"])
def test_wrong_options_are_one_sentence(option: str, network: Graph, tmp_path: Path) -> None:
    with pytest.raises(TuningError) as raised:
        tune_kernels(network, tmp_path / "log.jsonl", **{option: 0})  # type: ignore[arg-type]
    assert str(raised.value) == f"tune_kernels: {option} must be an integer from 1, got 0"


def test_kernels_are_those_of_a_cpu(network: Graph) -> None:
    with pytest.raises(ModelError, match=r"^kernel_graphs: cpu must be a CPU, got the accelerator pynq_z1$"):
        network_kernels(network, "pynq_z1")
