# SPDX-License-Identifier: Apache-2.0
"""Coordinate modes of Resize that later opsets lack, which converters still write."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import vdla
from vdla.compiler.graph.onnx import import_model
from vdla.runtime.network.evaluator import Evaluator

SHAPE = (1, 2, 4, 5)


def model(opset, sizes, **attributes):
    empty = ["", ""] if opset >= 13 else ["roi", "scales"]
    node = helper.make_node(
        "Resize", ["x", *empty, "sizes"], ["y"], coordinate_transformation_mode="tf_half_pixel_for_nn", **attributes
    )
    constants = [helper.make_tensor("sizes", TensorProto.INT64, [4], sizes)]
    constants += [helper.make_tensor(name, TensorProto.FLOAT, [0], []) for name in empty if name]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", SHAPE), ("y", sizes))
    ]
    graph = helper.make_graph([node], "resize", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [11, 12, 13, 18])
@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("sizes", [(1, 2, 6, 9), (1, 2, 3, 7), (1, 2, 1, 1)])
def test_nearest_pixels_of_half_pixel_centres(opset, rounding, sizes):
    session = pytest.importorskip("onnxruntime").InferenceSession
    made = model(opset, sizes, mode="nearest", nearest_mode=rounding)
    x = np.arange(40, dtype=np.float32).reshape(SHAPE)
    (expected,) = session(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_array_equal(vdla.compile(made, "host").run({"x": x}).outputs["y"], expected)
    np.testing.assert_array_equal(Evaluator(import_model(made), prefer="numpy").run({"x": x})["y"], expected)
