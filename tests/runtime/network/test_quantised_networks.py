# SPDX-License-Identifier: Apache-2.0
"""Quantised networks, every tensor, against the integer evaluator, which shares no code with us."""

import numpy as np
import pytest
from helpers.integer_evaluator import evaluate as exact
from helpers.quantiser import to_qdq

from vdla.compiler.graph import Node, TensorType
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import run_passes
from vdla.networks.registry import NETWORKS
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION, evaluate_node
from vdla.runtime.network.evaluator import Evaluator

QUANTISED = [name for name in NETWORKS if name != "lstm_language_model"]


@pytest.fixture(scope="module", params=QUANTISED)
def quantised(request):
    """A small network, quantised; an input."""
    network = NETWORKS[request.param]
    model = network.build(**network.small)
    return to_qdq(model, [network.inputs(model, seed=seed) for seed in (1, 2)]), network.inputs(model)


def test_every_tensor_of_the_integer_graph(quantised):
    model, inputs = quantised
    graph = run_passes(import_model(model), (*PREPARATION, *INTEGER))
    found = {}
    Evaluator(graph, prefer="numpy").run(inputs, observe=found.__setitem__)
    wanted = exact(model, inputs).quantised
    compared = [name for name in wanted if name in found]
    results = [node.outputs[0] for node in graph.nodes if node.op.startswith("vdla.Q")]
    assert len(compared) >= sum("_part" not in name for name in results)  # a rescaled part of a join has no tensor
    for name in compared:
        assert np.array_equal(found[name], wanted[name]), name


@pytest.mark.sampled
def test_the_compiled_network(quantised):
    model, inputs = quantised
    wanted = exact(model, inputs).outputs
    with compile_network(model) as compiled:
        results = compiled.run(inputs).outputs
    for name, array in results.items():
        if "float" in str(array.dtype) and name == "image":  # a tanh in float32 after the integers
            assert np.allclose(array, wanted[name], rtol=0, atol=1e-6)
        else:
            assert np.array_equal(array, wanted[name]), name


def test_patches_agree_with_their_rule():
    attributes = {
        "kernel_shape": (3, 2),
        "strides": (2, 1),
        "pads": (1, 0, 2, 1),
        "dilations": (1, 2),
        "padding": -7,
        "block": 16,
        "batch": 4,
    }
    x = np.random.default_rng(0).integers(-128, 128, (2, 3, 7, 6), np.int8)
    node = Node("vdla.PackPatches", ("x",), ("y",), attributes)
    wanted = evaluate_node(node, [x], prefer="numpy")[0]
    assert wanted.shape == (1, 2, 4, 5, 4, 16)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 1)], constant_values=-7)
    for n, g, i, j, m, b in np.ndindex(wanted.shape):
        (ky, kx), c = divmod((g * 16 + b) // 3, 2), (g * 16 + b) % 3
        inside = m < 2 and g * 16 + b < 18
        assert wanted[n, g, i, j, m, b] == (padded[m, c, 2 * i + ky, j + 2 * kx] if inside else 0)
    kinds = (TensorType("int8", wanted.shape),)
    assert np.array_equal(evaluate_node(node, [x], [False], kinds, prefer="kernel")[0], wanted)


@pytest.mark.parametrize("prefer", ["numpy", "kernel"])
def test_patches_of_a_signal_are_those_of_an_image_of_one_row(prefer):
    window = {"kernel_shape": (1, 3), "strides": (1, 2), "pads": (0, 2, 0, 1), "dilations": (1, 2)}
    node = Node("vdla.PackPatches", ("x",), ("y",), {**window, "padding": 5, "block": 16, "batch": 1})
    x = np.random.default_rng(0).integers(-128, 128, (2, 3, 11), np.int8)
    kinds = (TensorType("int8", (2, 1, 1, 5, 1, 16)),)
    wanted = evaluate_node(node, [x[:, :, None]], [False], kinds, prefer="numpy")[0]
    assert wanted.shape == kinds[0].extents
    assert np.array_equal(evaluate_node(node, [x], [False], kinds, prefer=prefer)[0], wanted)
