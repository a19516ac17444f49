"""The kernels of a network are tuned into a log, from which the network is compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.graphs import small_graph

import vdla
from vdla.compiler.graph import Graph, Node
from vdla.runtime.executor import ModelError
from vdla.runtime.tune import CpuMeasurer, InlineWorkers, Trial, TuningReport
from vdla.runtime.tune import network_kernels as module
from vdla.runtime.tune.network_kernels import NetworkKernel, TunedKernel, network_kernels, tune_kernels


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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials in this process, of one short round."""
    monkeypatch.setattr(module, "LocalWorkers", lambda measurer, count: InlineWorkers(measurer))
    monkeypatch.setattr(module, "CpuMeasurer", lambda: CpuMeasurer(rounds=1, round_s=1e-6))


def test_kernels_of_a_network_by_their_multiply_adds(network: Graph) -> None:
    found = network_kernels(network)
    assert [(kernel.uses, kernel.macs) for kernel in found] == [(2, 12288), (1, 6144), (1, 0)]
    assert [kernel.task.name for kernel in found] == ["kernel 1 MatMul", "kernel 2 MatMul", "kernel 3 Softmax"]


@pytest.mark.usefixtures("quick")
def test_a_log_is_filled_and_used(network: Graph, tmp_path: Path) -> None:
    log, shown = tmp_path / "kernels.jsonl", []
    found = tune_kernels(network, log, trials=2, progress=lambda *step: shown.append(step))
    assert shown == [("kernel 1 MatMul", 0, 2), ("kernel 2 MatMul", 1, 2), ("done", 2, 2)]
    assert [len(tuned.report.trials) for tuned in found] == [2, 2]
    assert all(tuned.report.failed == 0 and tuned.speedup >= 1 for tuned in found)
    again = tune_kernels(network, log, trials=2, most=1)
    assert [tuned.report.reused for tuned in again] == [2]
    image = np.random.default_rng(0).standard_normal((2, 6, 32)).astype(np.float32)
    plain, tuned = (vdla.compile(network, "host", tuned=source) for source in (None, log))
    np.testing.assert_allclose(np.asarray(tuned(image)), np.asarray(plain(image)), rtol=1e-5)


def test_the_speedup_is_over_the_default_schedule(network: Graph) -> None:
    kernel: NetworkKernel = network_kernels(network)[0]
    other = {**kernel.task.default, "algorithm": "packed"}
    trials = (Trial(kernel.task.default, 3.0, "seconds"), Trial(other, 2.0, "seconds"))
    run = module.TaskRun(kernel.task.key, "", "", "", "given", 0)
    assert TunedKernel(kernel, TuningReport(run, trials, 0)).speedup == 1.5
    assert TunedKernel(kernel, TuningReport(run, trials[1:], 0)).speedup == 1.0


def test_kernels_are_those_of_a_cpu(network: Graph) -> None:
    with pytest.raises(ModelError, match=r"^kernel_graphs: cpu must be a CPU, got the accelerator pynq_z1$"):
        network_kernels(network, "pynq_z1")
