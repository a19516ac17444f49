# SPDX-License-Identifier: Apache-2.0
"""Integer products of vectors, with zero points that are absent, of one number, and of several."""

import numpy as np
import pytest
from onnx import helper

from vdla.runtime.network.compile_network import compile_network

SHAPES = [((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,)), ((1,), (1, 4))]


@pytest.mark.parametrize("zero", [None, (), (1,)])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_products_of_vectors(left, right, zero):
    random = np.random.default_rng(1)
    arrays = {"a": random.integers(0, 9, left).astype(np.uint8), "b": random.integers(-9, 9, right).astype(np.int8)}
    offsets = (0, 0)
    if zero is not None:
        offsets = (3, -2)
        arrays |= {"az": np.full(zero, 3, np.uint8), "bz": np.full(zero, -2, np.int8)}
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in arrays.items()
    ]
    node = helper.make_node("MatMulInteger", list(arrays), ["y"])
    graph = helper.make_graph([node], "vectors", given, [helper.make_empty_tensor_value_info("y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with compile_network(made, "host") as network:
        result = network.run(arrays).outputs["y"]
    expected = (arrays["a"].astype(np.int32) - offsets[0]) @ (arrays["b"].astype(np.int32) - offsets[1])
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected)
