# SPDX-License-Identifier: Apache-2.0
"""What an executor takes, at the first run and after inputs of the same kind."""

from collections import OrderedDict
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from helpers.graphs import small_graph

from vdla.compiler.graph import Node
from vdla.runtime.executor import executor as executor_module
from vdla.runtime.executor import plan_runner
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.bind_kernels import KernelBinder
from vdla.runtime.executor.errors import ExecutorError
from vdla.runtime.executor.executor import Executor
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.numpy_operators import FUNCTIONS

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def executor_of(artifact: Artifact) -> Executor:
    return Executor(artifact, KernelBinder(artifact).bind, FUNCTIONS)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return compile_network(small_graph([Node("Neg", ("x",), ("y",))]), "host").artifact


WRONG = {
    "no mapping": X,
    "no array": {"x": X.tolist()},
    "another name": {"z": X},
    "one more": {"x": X, "z": X},
    "another type": {"x": X.astype(np.float64)},
    "another byte order": {"x": X.astype(">f4")},
    "another shape": {"x": X.reshape(3, 2)},
    "another rank": {"x": X[0]},
    "a number": {"x": np.float32(1)},
}


@pytest.mark.parametrize("way", ["run", "outputs"])
@pytest.mark.parametrize("inputs", WRONG.values(), ids=WRONG)
def test_wrong_inputs_are_refused_after_right_ones_as_before(inputs, way, artifact):
    executor = executor_of(artifact)
    with pytest.raises(ExecutorError) as first:
        getattr(executor, way)(inputs)
    assert np.array_equal(executor.run({"x": X}).outputs["y"], -X)
    with pytest.raises(ExecutorError) as second:
        getattr(executor, way)(inputs)
    assert str(first.value) == str(second.value)


@pytest.mark.parametrize("inputs", WRONG.values(), ids=WRONG)
def test_a_model_refuses_wrong_inputs_after_right_ones_as_its_executor(inputs, artifact):
    model = Model(artifact)
    for _ in range(2):
        assert np.array_equal(model.run({"x": X}).outputs["y"], -X)
    with pytest.raises(ExecutorError) as of_model:
        model.run(inputs)
    with pytest.raises(ExecutorError) as of_executor:
        executor_of(artifact).run(inputs)
    assert str(of_model.value) == str(of_executor.value)
    model.close()
    assert np.array_equal(model.run({"x": 2 * X}).outputs["y"], -2 * X)


def test_equal_kinds_are_checked_once(artifact, monkeypatch):
    executor = executor_of(artifact)
    assert np.array_equal(executor.outputs({"x": X})["y"], -X)
    monkeypatch.setattr(Executor, "_checked_plan", None)
    for inputs in ({"x": 2 * X}, OrderedDict(x=2 * X), {"x": np.asfortranarray(2 * X)}):
        assert np.array_equal(executor.outputs(inputs)["y"], -2 * X)


def test_kinds_are_forgotten_where_there_are_many(artifact, monkeypatch):
    monkeypatch.setattr(executor_module, "_MOST_KINDS", 2)
    values = {name: replace(value, shape=None, offset=None) for name, value in artifact.plan.values.items()}
    executor = executor_of(artifact)
    executor.plan = replace(artifact.plan, values=values)
    executor.artifact = replace(artifact, plan=executor.plan)
    for rows in range(1, 8):
        executor.plan_for({"x": np.zeros((rows, 3), np.float32)})
        assert len(executor._plans) <= 2


@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "uint2"])
def test_integers_of_few_bits_are_taken_by_both_ways(kind):
    dtype = getattr(ml_dtypes, kind)
    graph = small_graph([Node("Identity", ("x",), ("y",))])
    types = {name: replace(type_, dtype=kind) for name, type_ in graph.types.items()}
    executor = executor_of(compile_network(graph.replace(types=types), "host").artifact)
    x = (np.arange(6) % 2).reshape(2, 3)
    for given in (x.astype(dtype), x.astype(dtype), x.astype(kind[:-1] + "8")):
        assert np.array_equal(executor.run({"x": given}).outputs["y"], x)
        assert np.array_equal(executor.outputs({"x": given})["y"], x)


CHAIN = [Node("Neg", ("x",), ("a",)), Node("Softmax", ("a",), ("b",)), Node("Softmax", ("b",), ("y",))]


def test_chained_kernels_equal_those_one_by_one_and_have_times():
    executor = executor_of(compile_network(small_graph(CHAIN), "host").artifact)
    chained, seen = executor.run({"x": X}), []
    apart = executor.run({"x": X}, seen.append)
    assert np.array_equal(chained.outputs["y"], apart.outputs["y"])
    assert np.array_equal(chained.outputs["y"], executor.outputs({"x": X})["y"])
    steps = executor.plan.steps
    assert len(steps) > 1
    assert tuple(seen) == steps
    for result in (chained, apart):
        assert tuple(run.step for run in result.steps) == steps
        assert all(run.seconds > 0 and run.statistics is None for run in result.steps)


def test_kernels_run_one_by_one_without_chains(monkeypatch):
    artifact = compile_network(small_graph(CHAIN), "host").artifact
    expected = executor_of(artifact).outputs({"x": X})["y"]
    monkeypatch.setattr(plan_runner, "has_chains", lambda: False)
    result = executor_of(artifact).run({"x": X})
    assert np.array_equal(result.outputs["y"], expected)
    assert len(result.steps) == len(artifact.plan.steps)
