# SPDX-License-Identifier: Apache-2.0
"""IsInf finds the infinities that it is asked for, and never NaN."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from vdla.runtime.network.compile_network import compile_network

X = np.array([np.nan, np.inf, -np.inf, 0, 1], np.float32)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("negative", [0, 1])
def test_infinities_by_sign(negative, positive, kind):
    x = X.astype(kind)
    node = helper.make_node("IsInf", ["x"], ["y"], detect_negative=negative, detect_positive=positive)
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), [5])
    result = helper.make_tensor_value_info("y", TensorProto.BOOL, [5])
    graph = helper.make_graph([node], "infinities", [given], [result])
    with compile_network(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), "host") as network:
        y = network.run({"x": x}).outputs["y"]
    assert y.tolist() == [False, bool(positive), bool(negative), False, False]
