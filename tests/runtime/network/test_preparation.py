# SPDX-License-Identifier: Apache-2.0
"""What every network goes through first: constants and the shapes that follow from them."""

import numpy as np
import onnxruntime
import pytest
from helpers.seeds import seeds
from helpers.shape_arithmetic import ShapeArithmetic

from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import run_passes
from vdla.runtime.network.evaluate_nodes import PREPARATION
from vdla.runtime.network.evaluator import evaluate

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def expected(source, **inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(source.SerializeToString(), options).run(None, inputs)[0]


@pytest.mark.parametrize("seed", seeds(range(400), 60))
def test_shapes_follow_from_arithmetic_on_constants(seed):
    source = ShapeArithmetic(seed).model(steps=8)
    graph = run_passes(import_model(source), PREPARATION)
    assert all(kind.static for kind in graph.types.values()), f"seed {seed}: {graph}"
    (found,) = evaluate(graph, {"x": X}, prefer="numpy").values()
    assert np.allclose(found, expected(source, x=X), atol=1e-5), f"seed {seed}"
    assert graph.tensor(graph.outputs[0]).extents == found.shape


@pytest.mark.parametrize("seed", seeds(range(1000, 1100), 15))
def test_shapes_follow_in_branches(seed):
    source = ShapeArithmetic(seed).model(steps=4, in_branch=True)
    (graph,) = [node for node in run_passes(import_model(source), PREPARATION).nodes if node.op == "If"]
    branch = graph.attributes["then_branch"]
    assert all(kind.static for kind in branch.types.values()), f"seed {seed}: {branch}"
