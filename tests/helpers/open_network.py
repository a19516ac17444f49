# SPDX-License-Identifier: Apache-2.0
"""A network whose extents the model may leave open."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def open_network(dims: list[int | str | None]) -> onnx.ModelProto:
    """A convolution, what follows from its extents, and operators that no kernel has."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in (("y", 1), ("at", 7))]
    w = numpy_helper.from_array(np.ones((2, 2, 3, 3), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv"),
        helper.make_node("Relu", ["a"], ["y"], "relu"),
        helper.make_node("NonZero", ["y"], ["at"], "where"),
    ]
    return helper.make_model(helper.make_graph(nodes, "open", [x], outputs, [w]))
