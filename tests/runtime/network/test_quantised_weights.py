# SPDX-License-Identifier: Apache-2.0
"""Weights that the model quantises itself: QuantizeLinear of a constant, then DequantizeLinear.

They run as integers, also on the accelerator, whatever lies between and whoever else reads them.
"""

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.runtime.executor.plan import ProgramStep
from vdla.runtime.network.compile_network import compile_network

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(16, 16, 3, 3)).astype(np.float32)
IMAGE = RNG.normal(size=(1, 16, 6, 6)).astype(np.float32)
ROWS = RNG.normal(size=(4, 32)).astype(np.float32)
DENSE = RNG.normal(size=(32, 16)).astype(np.float32)
STEP = 0.1  # of the result
F = TensorProto.FLOAT


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def pair(dtype="int8", moved=(), weight="w", shape=(), limit=127, **attributes):
    """Q and DQ of the weight, with nodes in between; the constants of both."""
    last = moved[-1].output[0] if moved else "wq"
    nodes = [
        node("QuantizeLinear", f"{weight} ws wz", "wq", **attributes),
        *moved,
        node("DequantizeLinear", f"{last} ws wz", "wd", **attributes),
    ]
    scale = np.linspace(2.5, 3.5, int(np.prod(shape))).astype(np.float32).reshape(shape) / limit
    return nodes, {"ws": scale, "wz": np.zeros(shape, getattr(ml_dtypes, dtype, dtype))}


def model(nodes, op, outputs=(), body=False, bias="", **constants):
    """y = DQ(Q(op(DQ(Q(x)), wd))), and further `outputs`."""
    shape = IMAGE.shape if op == "Conv" else ROWS.shape
    padding = {"pads": [1, 1, 1, 1]} if op == "Conv" else {}
    constants = {
        "xs": np.float32(0.03), "xz": np.int8(3), "ys": np.float32(STEP), "yz": np.int8(-5), **constants,
    }  # fmt: skip
    product = [*nodes, node(op, f"xd wd {bias}".strip(), "c", **padding)]
    if body:
        branches = [helper.make_graph(product, key, [], [info("c")]) for key in ("then", "else")]
        product = [node("If", "yes", "cc", then_branch=branches[0], else_branch=branches[1])]
        constants["yes"] = np.array(True)
    result = product[-1].output[0]
    whole = [
        node("QuantizeLinear", "x xs xz", "xq"),
        node("DequantizeLinear", "xq xs xz", "xd"),
        *product,
        node("QuantizeLinear", f"{result} ys yz", "yq"),
        node("DequantizeLinear", "yq ys yz", "y"),
    ]
    made = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    inputs, results = [helper.make_tensor_value_info("x", F, shape)], [info("y"), *outputs]
    graph = helper.make_graph(whole, "g", inputs, results, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def info(name, kind=F):
    return helper.make_tensor_value_info(name, kind, None)


def convolution(moved=(), before=(), weight=WEIGHT, outputs=(), bias="", more=None, **options):
    nodes, constants = pair(moved=moved, weight=before[-1].output[0] if before else "w", **options)
    return model([*before, *nodes], "Conv", outputs, bias=bias, w=weight, **constants, **(more or {}))


def dense(moved=(), weight=DENSE, body=False, **options):
    nodes, constants = pair(moved=moved, **options)
    return model(nodes, "MatMul", body=body, w=weight, **constants)


TURN, COPY = node("Transpose", "wq", "wm", perm=[1, 0, 2, 3]), node("Identity", "wq", "wm")
BIAS = {"bq": np.arange(16, dtype=np.int32) * 100 - 700, "bs": np.float32(1e-3)}
CONVOLUTIONS = {
    "per tensor": convolution(),
    "per channel": convolution(shape=(16,), axis=0),
    "transposed between": convolution([TURN]),
    "copied between": convolution([COPY]),
    "reshaped between": convolution(
        [node("Reshape", "wq shape", "wm")], weight=WEIGHT.reshape(16, -1), more={"shape": WEIGHT.shape}
    ),
    "transposed before": convolution(before=[node("Transpose", "w", "wt", perm=[1, 0, 2, 3])]),
    "read as a result": convolution(outputs=[info("wq", TensorProto.INT8), info("wd")]),
    "quantised bias": convolution(
        before=[node("DequantizeLinear", "bq bs", "b"), node("Identity", "w", "wi")], bias="b", more=BIAS
    ),
}
PRODUCTS = {
    "per channel": dense(shape=(16,), axis=1),
    "int16": dense(dtype="int16", limit=32767),
    "int4": dense(dtype="int4", limit=7),
    "uint4 per channel": dense(dtype="uint4", limit=7, shape=(16,), axis=1),
    "blocks": dense(shape=(4, 16), axis=0, block_size=8),
    "int4 in blocks": dense(dtype="int4", limit=7, shape=(4, 16), axis=0, block_size=8),
    "transposed between": dense([node("Transpose", "wq", "wm")], weight=DENSE.T.copy()),
    "in a branch": dense(body=True),
}


def check(source, x, target):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = onnxruntime.InferenceSession(source.SerializeToString(), options).run(None, {"x": x})
    made = compile_network(source, target)
    with made:
        found = made.run({"x": x}).outputs
    for name, result in zip((output.name for output in source.graph.output), wanted, strict=True):
        step = STEP if name == "y" else 0
        assert np.abs(found[name].astype(np.float64) - result).max() <= step * 1.01, name
    return made


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "target"),
    [*((kind, "pynq_z1") for kind in CONVOLUTIONS), ("per channel", "host"), ("per channel", "opencl")],
)
def test_convolutions(kind, target):
    made = check(CONVOLUTIONS[kind], IMAGE, target)
    steps = made.artifact.plan.steps
    assert "vdla.QConv" in {op.op for step in steps for op in step.placement.operators}
    assert any(isinstance(step, ProgramStep) for step in steps) == (target == "pynq_z1")


@pytest.mark.parametrize("kind", PRODUCTS)
def test_products(kind):
    check(PRODUCTS[kind], ROWS, "host")
