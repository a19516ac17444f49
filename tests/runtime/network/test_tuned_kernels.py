# SPDX-License-Identifier: Apache-2.0
"""Networks on CPUs take the best known schedules of their kernels, found by content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.graphs import small_graph

import vdla
from vdla.compiler.graph import Graph, Node
from vdla.compiler.operators import OperatorError
from vdla.compiler.target import host
from vdla.compiler.tune import CpuTask, Point, kernel_task
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.network.compile_network import compile_network, kernel_graphs
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.trial import Trial


@pytest.fixture(scope="module")
def network() -> Graph:
    rng = np.random.default_rng(0)
    nodes = [Node("Conv", ("x", "w"), ("a",), {"pads": (1, 1, 1, 1)}), Node("Relu", ("a",), ("y",))]
    weight, results = rng.standard_normal((16, 8, 3, 3)).astype(np.float32), (1, 16, 8, 8)
    return small_graph(nodes, (1, 8, 8, 8), shapes={"a": results, "y": results}, w=weight)


@pytest.fixture(scope="module")
def task(network: Graph) -> CpuTask:
    (graph,) = kernel_graphs(network)
    return kernel_task(graph, host(), "layer")


def tuned_point(task: CpuTask, **values: object) -> Point:
    """A point of another form than the default, by default of another algorithm."""
    wanted = values or {"algorithm": "winograd4"}
    return next(point for point in task.space.points() if wanted.items() <= point.items())


def test_a_network_takes_the_schedule_of_a_log(network: Graph, task: CpuTask, tmp_path: Path) -> None:
    run = TaskRun(task.key, task.name, task.target.cpu, task.space.name, "given", 0)
    with TuningLog(tmp_path / "log.jsonl") as log:
        log.append(run, Trial(task.default, 2e-6, "seconds"))
        log.append(run, Trial(tuned_point(task), 1e-6, "seconds"))
    image = np.random.default_rng(1).standard_normal((1, 8, 8, 8)).astype(np.float32)
    plain = vdla.compile(network, "host")
    tuned = vdla.compile(network, "host", tuned=tmp_path / "log.jsonl")
    wanted = np.asarray(plain(image))
    assert np.abs(np.asarray(tuned(image)) - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert (6, 6) in [array.shape[:2] for array in tuned.artifact.constants.values()]
    assert (6, 6) not in [array.shape[:2] for array in plain.artifact.constants.values()]


@pytest.mark.parametrize("knob", ["layout", pytest.param("lanes", marks=pytest.mark.long)])
def test_a_kernel_repacks_what_it_computes_in_another_layout(knob: str, network: Graph, task: CpuTask) -> None:
    (values,) = (each.values for each in task.space.knobs if each.name == knob)
    point = tuned_point(task, **{knob: values[1]})
    image = np.random.default_rng(1).standard_normal((1, 8, 8, 8)).astype(np.float32)
    plain, other = (compile_network(network, kernel_points=lambda key, p=p: p) for p in (None, point))
    np.testing.assert_allclose(np.asarray(other(image)), np.asarray(plain(image)), atol=1e-4)


@pytest.mark.long
def test_points_without_the_layout_are_of_the_default_one(network: Graph, task: CpuTask) -> None:
    point = {name: value for name, value in task.default.items() if name not in ("layout", "lanes")}
    image = np.random.default_rng(1).standard_normal((1, 8, 8, 8)).astype(np.float32)
    plain, old = (compile_network(network, kernel_points=lambda key, p=p: p) for p in (None, point))
    assert np.array_equal(np.asarray(old(image)), np.asarray(plain(image)))


def test_kernels_are_looked_up_by_the_keys_of_their_tasks(network: Graph, task: CpuTask) -> None:
    asked: list[str] = []
    compile_network(network, kernel_points=asked.append)
    assert asked == [task.key]


def test_a_point_of_another_space_is_refused(network: Graph) -> None:
    with pytest.raises(OperatorError, match=r"^schedule: point must have .*, got schedule$"):
        compile_network(network, kernel_points=lambda key: {"schedule": "default"})


def test_kernels_are_those_of_a_cpu(network: Graph) -> None:
    with pytest.raises(ModelError) as raised:
        kernel_graphs(network, "pynq_z1")
    assert str(raised.value) == "kernel_graphs: cpu must be a CPU, got the accelerator pynq_z1"
