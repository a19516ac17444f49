"""Small compiled networks with every kind of step: the begin of hostile ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from vdla.runtime.grid.opencl_context import OpenClDeviceError
from vdla.runtime.network.compile_network import compile_network

_FLOAT, _INT8 = TensorProto.FLOAT, TensorProto.INT8


def artifacts() -> Iterator[bytes]:
    """The files."""
    yield compile_network(_floats(), "host").artifact.to_bytes()
    yield compile_network(_functions(), "host").artifact.to_bytes()
    yield compile_network(_bodies(), "host").artifact.to_bytes()
    for machine in ("tiny", "pynq_z1"):
        place = dict.fromkeys(("c", "d", "y"), "vdla")
        yield compile_network(_quantised(), machine, place=place).artifact.to_bytes()
    with suppress(OpenClDeviceError):  # where there is no device
        yield compile_network(_floats(), "opencl").artifact.to_bytes()


def _model(nodes: list[NodeProto], inputs: dict[str, list[int]], outputs: list[str], **initial: Any) -> ModelProto:  # noqa: ANN401
    values = [helper.make_tensor_value_info(name, _FLOAT, shape) for name, shape in inputs.items()]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in initial.items()]
    results = [_untyped(name) for name in outputs]
    graph = helper.make_graph(nodes, "small", values, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def _untyped(name: str) -> ValueInfoProto:
    return helper.make_empty_tensor_value_info(name)


def _weights(*shape: int) -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(shape), dtype=np.float32) / 7 - 1).reshape(shape)


def _floats() -> ModelProto:
    """Kernels in a row that share the arena, a view, indices among the constants."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "g"], ["h"], transB=1),
        helper.make_node("Gather", ["h", "i"], ["t"], axis=1),
        helper.make_node("Softmax", ["t"], ["y"]),
    ]
    constants = {"w": _weights(4, 2, 3, 3), "g": _weights(5, 36), "i": np.array([3, 0, 4, 1])}
    return _model(nodes, {"x": [2, 2, 6, 6]}, ["y", "f"], **constants)


def _functions() -> ModelProto:
    """NumPy functions with attributes, between kernels."""
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1, largest=0),
        helper.make_node("Det", ["v"], ["d"]),
        helper.make_node("GatherND", ["x", "n"], ["g"]),
        helper.make_node("Hardmax", ["x"], ["m"], axis=-1),
        helper.make_node("Relu", ["d"], ["r"]),
    ]
    constants = {"k": np.array([4]), "n": np.array([[0, 1], [1, 2]])}
    return _model(nodes, {"x": [2, 5, 4]}, ["r", "i", "g", "m"], **constants)


def _bodies() -> ModelProto:
    """A branch that captures, a scan over rows."""
    then = helper.make_graph([helper.make_node("Add", ["x", "one"], ["r"])], "then", [], [_untyped("r")])
    other = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["r"])], "else", [], [_untyped("r")])
    state, row = (helper.make_tensor_value_info(name, _FLOAT, [4]) for name in ("state", "row"))
    add = [helper.make_node("Add", ["state", "row"], ["next"]), helper.make_node("Neg", ["next"], ["out"])]
    scan = helper.make_graph(add, "scan", [state, row], [_untyped("next"), _untyped("out")])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0),
        helper.make_node("Less", ["t", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other),
        helper.make_node("Scan", ["start", "b"], ["last", "y"], body=scan, num_scan_inputs=1),
    ]
    constants = {"one": np.float32(1), "zero": np.float32(0), "start": np.zeros(4, np.float32)}
    return _model(nodes, {"x": [3, 4]}, ["last", "y"], **constants)


def _quantised() -> ModelProto:
    """Convolutions and an addition, for the accelerator."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        *_convolution("q", "w1", "c"),
        *_convolution("c", "w2", "d"),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["left"]),
        helper.make_node("DequantizeLinear", ["d", "s", "z"], ["right"]),
        helper.make_node("Add", ["left", "right"], ["sum"]),
        helper.make_node("QuantizeLinear", ["sum", "s", "z"], ["y"]),
    ]
    weights = (np.arange(144) % 7 - 3).astype(np.int8).reshape(4, 4, 3, 3)
    constants = {"s": np.float32(0.125), "z": np.int8(0), "w1": weights, "w2": weights[:, :, 1:2, 1:2]}
    return _model(nodes, {"x": [1, 4, 6, 6]}, ["y"], **constants)


def _convolution(x: str, weight: str, name: str) -> list[NodeProto]:
    """A quantised convolution that keeps the extents of its input."""
    auto = {"auto_pad": "SAME_UPPER"}
    return [
        helper.make_node("DequantizeLinear", [x, "s", "z"], [f"{name}.x"]),
        helper.make_node("DequantizeLinear", [weight, "s", "z"], [f"{name}.w"]),
        helper.make_node("Conv", [f"{name}.x", f"{name}.w"], [f"{name}.f"], **auto),
        helper.make_node("QuantizeLinear", [f"{name}.f", "s", "z"], [name]),
    ]
