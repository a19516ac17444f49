# SPDX-License-Identifier: Apache-2.0
"""Weights with a zero point are integer operators: channels that leave int8 come in parts."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from vdla.compiler.graph.integer.products import in_int8
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import run_passes
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("extreme", [130, -255, 254, 255])
@pytest.mark.parametrize(("group", "axis"), [(1, 1), (1, 0), (3, 1), (3, 0)])
def test_the_parts_of_a_weight_are_of_int8_and_have_the_same_sums(group, axis, extreme):
    """Of layouts in which the dimension of the input channels is that of a group, or of all."""
    values = RANDOM.integers(-128, 128, (6, 6, 2)).astype(np.int16)
    values[2, 4, 1] = extreme
    places, parts = in_int8(values, axis, group)
    assert parts.dtype == np.int8
    channels = 6 if axis == 0 or group == 1 else 6 * group
    count = -(-abs(extreme) // 127) if extreme > 0 else 2
    assert len(places) == (channels + count - 1 if group == 1 else channels * count)
    assert (np.sort(places) == places).all()
    assert set(places) == set(range(channels))
    owners = places if axis == 0 or group == 1 else np.repeat(np.arange(6), count)
    total = np.zeros_like(values)
    np.add.at(total, (owners,) if axis == 0 else (slice(None), owners), parts)
    np.testing.assert_array_equal(total, values)


def test_a_weight_within_int8_stays():
    values = RANDOM.integers(-128, 128, (3, 4)).astype(np.int16)
    places, parts = in_int8(values, 1)
    assert places is None
    np.testing.assert_array_equal(parts, values)


def model(op, x, w, zero, channels, **attributes):
    """A product of x and the weight, which has a scale for each index of the axis `channels`."""
    names = {"xs": np.float32(0.05), "xz": np.uint8(120), "ys": np.float32(8), "yz": np.uint8(130)}
    scale = np.float32(0.02) if channels is None else np.linspace(0.01, 0.03, w.shape[channels], dtype=np.float32)
    names |= {"w": w, "ws": scale, "wz": np.broadcast_to(np.asarray(zero, w.dtype), scale.shape)}
    axis = {} if channels is None else {"axis": channels}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], **axis),
        helper.make_node(op, ["xf", "wf"], ["yf"], **attributes),
        helper.make_node("QuantizeLinear", ["yf", "ys", "yz"], ["y"]),
    ]
    given = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
    fixed = [numpy_helper.from_array(np.asarray(value), name) for name, value in names.items()]
    graph = helper.make_graph(nodes, "weights", given, [helper.make_empty_tensor_value_info("y")], fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


IMAGE, ROWS = (1, 4, 7, 6), (3, 10)
CASES = {
    "conv": ("Conv", IMAGE, (5, 4, 3, 3), 0, {"pads": [1, 1, 1, 1]}),
    "conv of one dimension": ("Conv", (2, 4, 9), (5, 4, 3), 0, {"strides": [2]}),
    "groups": ("Conv", IMAGE, (6, 2, 3, 3), 0, {"group": 2}),
    "depthwise": ("Conv", IMAGE, (4, 1, 3, 3), 0, {"group": 4, "pads": [1, 1, 1, 1]}),
    "transposed": ("ConvTranspose", IMAGE, (4, 5, 3, 3), 1, {"strides": [2, 2]}),
    "matmul": ("MatMul", ROWS, (10, 7), 1, {}),
    "matmul of batches": ("MatMul", (2, 3, 10), (10, 7), 1, {}),
    "gemm": ("Gemm", ROWS, (7, 10), 0, {"transB": 1}),
}


@pytest.mark.sampled
@pytest.mark.parametrize("channels", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("zero", [0, 100, 255])
@pytest.mark.parametrize("target", ["host", "pynq_z1"])
@pytest.mark.parametrize("case", CASES)
def test_products_equal_those_of_onnx_runtime(case, target, zero, channels):
    import onnxruntime

    op, shape, weight, axis, attributes = CASES[case]
    x = RANDOM.integers(0, 256, shape).astype(np.uint8)
    made = model(
        op, x, RANDOM.integers(0, 256, weight).astype(np.uint8), zero, axis if channels else None, **attributes
    )
    operators = {node.op for node in run_passes(import_model(made), (*PREPARATION, *INTEGER)).nodes}
    assert operators & {"vdla.QConv", "vdla.QConvTranspose", "vdla.QDense"}
    assert not operators & {"Conv", "ConvTranspose", "Gemm", "MatMul"}
    (expected,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    with compile_network(made, target) as network:
        result = network.run({"x": x}).outputs["y"]
    assert np.abs(result.astype(int) - expected).max() <= 1  # a tie of float32 sums may round the other way
    assert (result != expected).mean() < 0.02
