# SPDX-License-Identifier: Apache-2.0
"""Executors that overwrite the memory that holds no value: mistakes of plans show in results."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.graphs import small_graph
from helpers.plans import expected, small_artifact

from vdla.compiler.graph import Node, TensorType
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.bind_kernels import KernelBinder
from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.executor import Executor
from vdla.runtime.executor.grid_executor import GridExecutor
from vdla.runtime.grid.registry import open_grid_device
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.numpy_operators import FUNCTIONS

X = np.arange(1, 7).reshape(2, 3)
W = np.eye(3)


def output(artifact: Artifact, x: np.ndarray, poison: bool) -> np.ndarray:
    part = artifact.grid
    grid = None if part is None else GridExecutor(part, artifact.constants, open_grid_device(part.device))
    executor = Executor(artifact, KernelBinder(artifact).bind, FUNCTIONS, grid=grid, poison=poison)
    return next(iter(executor.outputs({"x": x}).values()))


TABLE = {"keys_floats": (*map(float, range(1, 7)), np.nan), "values_floats": (*map(float, range(-1, -7, -1)), 0.0)}
NEGATIONS = {
    "host": Node("ai.onnx.ml.LabelEncoder", ("x",), ("a",), TABLE),  # kernels refuse overlapping arguments
    "opencl": Node("Neg", ("x",), ("a",)),
}


@cache
def negated(dtype: str, target: str) -> Artifact:
    """a = -x in one step, y = a @ w in the next."""
    graph = small_graph([NEGATIONS[target], Node("MatMul", ("a", "w"), ("y",))], w=W.astype(dtype))
    return compile_network(
        graph.replace(types={name: TensorType(dtype, kind.shape) for name, kind in graph.types.items()}), target
    ).artifact


def in_place(artifact: Artifact) -> Artifact:
    """The artifact with x, which is live until a is computed, at the place of a."""
    values, mark = dict(artifact.plan.values), "@gpu" if artifact.grid else ""
    values[f"x{mark}"] = replace(values[f"x{mark}"], offset=values[f"a{mark}"].offset)
    return replace(artifact, plan=replace(artifact.plan, values=values))


@pytest.mark.parametrize("poison", [False, True])
def test_a_right_plan_computes_the_same(poison):
    x = X.astype(np.float32)
    assert np.allclose(output(small_artifact(), x, poison), expected(x))
    assert np.array_equal(output(negated("float32", "host"), x, poison), -x)


@pytest.mark.parametrize(("dtype", "target"), [("float32", "host"), ("float32", "opencl"), ("int32", "opencl")])
def test_an_overlap_that_does_no_harm_by_chance_is_found(dtype, target):
    """Negation in place: each element is read before the result is written there."""
    overlapping, x = in_place(negated(dtype, target)), X.astype(dtype)
    with pytest.raises(ArtifactError, match=r"a(@gpu)? must share no bytes with x(@gpu)?, live at one step$"):
        overlapping.check()
    assert np.array_equal(output(overlapping, x, poison=False), -x)
    found = output(overlapping, x, poison=True)
    assert np.isnan(found).all() if dtype == "float32" else (found > 2**30).all()
