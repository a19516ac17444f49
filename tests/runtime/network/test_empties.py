# SPDX-License-Identifier: Apache-2.0
"""Values without elements through whole networks, against ONNX Runtime: where a batch, a past or a
list of boxes is empty. In process and from a saved file.
"""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.graph.onnx import import_model
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import evaluate

onnxruntime.set_default_logger_severity(4)


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def model_of(nodes, arrays, constants=(), outputs=("y",), shapes=None, opset=13):
    """A model of nodes (operator, inputs, outputs, attributes), its inputs those of `arrays`."""
    made = [helper.make_node(op, list(ins), list(outs), **attributes) for op, ins, outs, attributes in nodes]
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), (shapes or {}).get(name, value.shape)
        )
        for name, value in arrays.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()]
    graph = helper.make_graph(made, "g", given, results, kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def peer(model, arrays):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, arrays)


def assert_same(model, arrays, path=None, **options):
    wanted = peer(model, arrays)
    compiled = compile_network(model, **options)
    runs = [compiled]
    if path is not None:
        compiled.save(path)
        runs.append(Model.load(path))
    for each in runs:
        for value, want in zip(each.run(arrays).outputs.values(), wanted, strict=True):
            assert (value.dtype, value.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-5)


def node(op, inputs, **attributes):
    return [(op, inputs, ["y"], attributes)]


A, B = floats(2, 0, 3), floats(2, 4, 3)
CASES = {
    "relu": (node("Relu", ["a"]), {"a": floats(0, 4)}, {}),
    "concat": (node("Concat", ["a", "b", "c"], axis=1), {"a": A, "b": B, "c": A}, {}),
    "concat of nothing": (node("Concat", ["a", "c"], axis=1), {"a": A, "c": A}, {}),
    "concat between": (
        [("Relu", ["a"], ["r"], {}), ("Concat", ["r", "b"], ["s"], {"axis": 1}), ("Relu", ["s"], ["y"], {})],
        {"a": A, "b": B},
        {},
    ),
    "slice to nothing": (
        [("Slice", ["b", "s", "e"], ["t"], {}), ("Exp", ["t"], ["y"], {})],
        {"b": B},
        {"s": [1], "e": [1]},
    ),
    "conv of no images": (
        [("Conv", ["a", "w"], ["t"], {"pads": [1] * 4}), ("Relu", ["t"], ["y"], {})],
        {"a": floats(0, 3, 5, 5)},
        {"w": floats(4, 3, 3, 3)},
    ),
    "transposed conv of no images": (
        node("ConvTranspose", ["a", "w"], strides=[2, 2]),
        {"a": floats(0, 3, 5, 5)},
        {"w": floats(3, 4, 3, 3)},
    ),
    "pool": (node("MaxPool", ["a"], kernel_shape=[2, 2]), {"a": floats(0, 3, 4, 4)}, {}),
    "sum": (node("ReduceSum", ["a"], keepdims=0), {"a": A}, {}),
    "sum over an axis": (node("ReduceSum", ["a", "d"]), {"a": A}, {"d": [1]}),
    "product": (node("ReduceProd", ["a"], axes=[1]), {"a": A}, {}),
    "largest": (node("ReduceMax", ["a"], axes=[1]), {"a": A}, {}),
    "product of no terms": (node("MatMul", ["a", "b"]), {"a": floats(3, 0), "b": floats(0, 2)}, {}),
    "gemm of no terms": (
        node("Gemm", ["a", "b", "c"]),
        {"a": floats(3, 0), "b": floats(0, 2), "c": floats(2)},
        {},
    ),
    "softmax": (node("Softmax", ["a"], axis=1), {"a": A}, {}),
    "gather": (node("Gather", ["b", "i"]), {"b": B}, {"i": np.zeros(0, np.int64)}),
    "scatter": (
        node("ScatterND", ["b", "i", "u"]),
        {"b": B},
        {"i": np.zeros((0, 1), np.int64), "u": np.zeros((0, 4, 3), np.float32)},
    ),
    "pad": (node("Pad", ["a", "p"]), {"a": A}, {"p": [0, 1, 0, 0, 1, 0]}),
    "reshape": (node("Reshape", ["a", "s"]), {"a": A}, {"s": [0, 0, 3]}),
    "parts": (
        [("Split", ["b", "s"], ["t", "y"], {"axis": 1}), ("Relu", ["t"], ["z"], {})],
        {"b": B},
        {"s": [0, 4]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_networks_with_empty_values(name, tmp_path):
    nodes, arrays, constants = CASES[name]
    outputs = ("y", "z") if name == "parts" else ("y",)
    assert_same(model_of(nodes, arrays, constants, outputs), arrays, tmp_path / "m.vdla")


@pytest.mark.parametrize("name", CASES)
def test_functions_take_empty_values(name):
    """Node by node, as where shapes are known at run time only."""
    nodes, arrays, constants = CASES[name]
    model = model_of(nodes, arrays, constants)
    (want,) = peer(model, arrays)
    shapes = {key: [None] * value.ndim for key, value in arrays.items()}
    open_shapes = import_model(model_of(nodes, arrays, constants, shapes=shapes))
    value = evaluate(open_shapes, arrays, prefer="numpy")["y"]
    assert (value.dtype, value.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-5)


def test_empty_values_take_no_step():
    nodes, arrays, constants = CASES["conv of no images"]
    assert compile_network(model_of(nodes, arrays, constants)).artifact.plan.steps == ()


def test_nothing_is_found(tmp_path):
    nodes = [
        ("NonZero", ["x"], ["t"], {}),
        ("Cast", ["t"], ["f"], {"to": TensorProto.FLOAT}),
        ("Relu", ["f"], ["y"], {}),
    ]
    arrays = {"x": np.zeros((2, 3), np.float32)}
    assert_same(model_of(nodes, arrays), arrays, tmp_path / "m.vdla")


@pytest.mark.parametrize("target", ["host", "pynq_z1"])
def test_a_symbol_is_zero(target, tmp_path):
    """The first step of a language model has no past."""
    nodes = [
        ("Concat", ["past", "x"], ["present"], {"axis": 1}),
        ("MatMul", ["present", "w"], ["t"], {}),
        ("Relu", ["t"], ["y"], {}),
    ]
    arrays = {"past": floats(1, 0, 4), "x": floats(1, 2, 4)}
    model = model_of(nodes, arrays, {"w": floats(4, 3)}, ("y", "present"), {"past": [1, "past", 4]})
    assert_same(model, arrays, tmp_path / "m.vdla", target=target, extents={"past": 0})


def test_a_symbol_is_zero_or_not():
    nodes = [("Relu", ["past"], ["r"], {}), ("Concat", ["r", "x"], ["t"], {"axis": 1}), ("Exp", ["t"], ["y"], {})]
    compiled = None
    for past in (0, 2):
        arrays = {"past": floats(1, past, 4), "x": floats(1, 2, 4)}
        model = model_of(nodes, arrays, shapes={"past": [1, "past", 4]})
        compiled = compiled or compile_network(model, extents={"past": (0, 2)})
        np.testing.assert_allclose(compiled.run(arrays).outputs["y"], peer(model, arrays)[0], rtol=1e-5)


LAYERS = [
    ("Conv", ["x", "w"], ["a"], {"pads": [1] * 4}),
    ("Relu", ["a"], ["b"], {}),
    ("ConvTranspose", ["b", "v"], ["c"], {"strides": [2, 2]}),
    ("MaxPool", ["c"], ["d"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("GlobalAveragePool", ["d"], ["e"], {}),
    ("Flatten", ["e"], ["f"], {}),
    ("MatMul", ["f", "u"], ["y"], {}),
]


@pytest.mark.parametrize("target", ["host", "pynq_z1"])
@pytest.mark.parametrize("extents", [{}, {"n": 0}, {"n": (0, 1)}])
def test_quantised_layers_of_no_images(extents, target, tmp_path):
    """The batch is open, 0, or 0 and others."""
    weights = {"w": floats(16, 16, 3, 3), "v": floats(16, 16, 2, 2), "u": floats(16, 10)}
    model = model_of(LAYERS, {"x": floats(0, 16, 6, 6)}, weights, shapes={"x": ["n", 16, 6, 6]})
    compiled = compile_network(model, target, calibration=[{"x": floats(2, 16, 6, 6)}], extents=extents)
    compiled.save(tmp_path / "m.vdla")
    for each in (compiled, Model.load(tmp_path / "m.vdla")):
        assert each.run({"x": floats(0, 16, 6, 6)}).outputs["y"].shape == (0, 10)


def test_a_result_is_empty_or_not():
    """Each plan has its own, although a file keeps constants for all of them."""
    nodes = [("Relu", ["x"], ["y"], {}), ("Shape", ["x"], ["z"], {})]
    arrays = {f"{n}": {"x": floats(n, 2)} for n in (0, 1, 3)}
    model = model_of(nodes, arrays["1"], outputs=("y", "z"), shapes={"x": ["n", 2]})
    compiled = compile_network(model, extents={"n": (0, 1, 3)})
    for given in arrays.values():
        results = compiled.run(given).outputs
        np.testing.assert_array_equal(results["y"], np.maximum(given["x"], 0))
        np.testing.assert_array_equal(results["z"], given["x"].shape)
