"""Quantised networks, every tensor, against the integer evaluator, which shares no code with us."""

import numpy as np
import pytest
from helpers.integer_evaluator import evaluate as exact
from helpers.quantiser import to_qdq

from vdla.benchmarks.networks.registry import NETWORKS
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import run_passes
from vdla.runtime.evaluate import Evaluator
from vdla.runtime.network import compile_network
from vdla.runtime.network.compile_network import INTEGER, PREPARATION

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
    assert len(compared) >= sum(node.op.startswith("vdla.Q") for node in graph.nodes)
    for name in compared:
        assert np.array_equal(found[name], wanted[name]), name


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
