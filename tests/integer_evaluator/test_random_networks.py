# SPDX-License-Identifier: Apache-2.0
"""Random networks of power-of-two scales: the evaluator equals ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.integer_evaluator import evaluate
from helpers.quantiser import to_qdq
from helpers.quantiser.graphs import session, with_outputs
from helpers.random_network import RandomNetwork


@pytest.mark.parametrize("seed", range(60))
def test_every_tensor_equals_that_of_onnx_runtime(seed: int) -> None:
    network = RandomNetwork(seed, length=4 + seed % 9, exact_averages=True)
    model = network.build()
    data = [network.inputs(at) for at in (0, 1)]
    qdq = to_qdq(model, data, power_of_two=True, uint8=seed % 2 == 1, weight_bits=7, per_channel=seed % 3 > 0)
    found = evaluate(qdq, network.inputs(2))
    assert found.by_float == frozenset()
    names = list(found.quantised)
    expected = session(with_outputs(qdq, names), optimised=False).run(names, network.inputs(2))
    different = {n for n, array in zip(names, expected, strict=True) if not np.array_equal(found.quantised[n], array)}
    assert different == set()
    [result] = found.outputs.values()
    [fused] = session(qdq).run(None, network.inputs(2))
    assert np.array_equal(result, fused)


def test_random_networks_use_every_operator() -> None:
    models = [RandomNetwork(seed, length=4 + seed % 9).build() for seed in range(60)]
    assert {node.op_type for model in models for node in model.graph.node} == {
        "Add", "AveragePool", "Clip", "Concat", "Conv", "ConvTranspose", "Flatten", "MatMul", "MaxPool", "Pad", "Relu",
        "Resize", "Slice", "Transpose",
    }  # fmt: skip
