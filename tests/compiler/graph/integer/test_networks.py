# SPDX-License-Identifier: Apache-2.0
"""Networks in integer operators against an evaluator of QDQ models that shares no code."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.integer_evaluator import evaluate
from helpers.qdq_graphs import every_value
from helpers.quantiser import to_qdq

from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import fuse_qdq
from vdla.networks.registry import NETWORKS


@pytest.mark.parametrize("uint8", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v1", "mobilenet_v2", "deep_q_network", "dcgan_generator"])
def test_every_tensor_equals_the_evaluator(name, uint8):
    network = NETWORKS[name]
    model = network.build(batch=2, **network.small)
    quantised = to_qdq(model, [network.inputs(model, 2, seed) for seed in range(2)], uint8=uint8)
    inputs = network.inputs(model, 2, 9)
    wanted = evaluate(quantised, inputs)
    graph = fuse_qdq(import_model(quantised))
    floats = {node.op for node in graph.nodes if not node.op.startswith("vdla.")}
    assert floats <= {"QuantizeLinear", "DequantizeLinear", "Reshape", "Flatten", "Tanh"}
    values = every_value(graph, inputs)
    compared = 0
    for tensor, expected in wanted.quantised.items():
        found = values.get(f"{tensor}_int8", values.get(tensor))
        if found is not None:
            offset = 128 if found.dtype != expected.dtype else 0
            np.testing.assert_array_equal(found.astype(int) + offset, expected, err_msg=tensor)
            compared += 1
    assert compared >= 0.8 * len(wanted.quantised)
    for output, expected in wanted.outputs.items():
        np.testing.assert_allclose(values[output], expected, atol=1e-6)
