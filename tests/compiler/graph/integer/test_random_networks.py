# SPDX-License-Identifier: Apache-2.0
"""Random quantised networks in integer operators, against the evaluator of QDQ models."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.integer_evaluator import evaluate
from helpers.qdq_graphs import every_value
from helpers.quantiser import to_qdq
from helpers.random_network import RandomNetwork

from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import fuse_qdq


@pytest.mark.parametrize("seed", range(40))
def test_every_tensor_that_is_left_equals_the_evaluator(seed):
    network = RandomNetwork(seed, length=4 + seed % 9)
    floats = network.build()
    data = [network.inputs(at) for at in (0, 1)]
    model = to_qdq(floats, data, uint8=seed % 2 == 1, per_channel=seed % 3 > 0)
    wanted = evaluate(model, network.inputs(2))
    values = every_value(fuse_qdq(import_model(model)), network.inputs(2))
    compared = 0
    for tensor, expected in wanted.quantised.items():
        found = values.get(f"{tensor}_int8", values.get(tensor))
        if found is not None:
            offset = 128 if found.dtype != expected.dtype else 0
            assert np.array_equal(found.astype(int) + offset, expected), tensor
            compared += 1
    assert compared >= 3
    for name, expected in wanted.outputs.items():
        assert np.array_equal(values[name], expected)
