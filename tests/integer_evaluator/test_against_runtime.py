# SPDX-License-Identifier: Apache-2.0
"""The evaluator against ONNX Runtime.

Networks of power-of-two scales are equal to the bit, with and without its graph optimisations, and
single operators of general scales differ by at most 1, in at most 2e-5 of the values. Weights have
7 bits, so that no processor saturates a sum of two products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from helpers.integer_evaluator import evaluate
from helpers.quantiser import to_qdq, to_qlinear
from helpers.quantiser.graphs import session, with_outputs
from onnx import helper, numpy_helper

from vdla.networks.registry import NETWORKS

Array = np.ndarray[Any, Any]
INTEGER_NETWORKS = ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "deep_q_network", "dcgan_generator")
FLOAT_PARTS = ("lstm_language_model", "vit_small")
MOST_DIFFERENT = 2e-5


def runtime(model: onnx.ModelProto, inputs: dict[str, Array], names: list[str], optimised: bool) -> dict[str, Array]:
    running = session(with_outputs(model, names), optimised)
    return dict(zip(names, running.run(names, inputs), strict=True))


def quantised(name: str, **how: Any) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The small variant of a network, and an input that calibration has not seen."""
    network = NETWORKS[name]
    model = network.build(**network.small)
    data = [network.inputs(model, seed=seed) for seed in (1, 2)]
    return to_qdq(model, data, weight_bits=7, **how), network.inputs(model, seed=3)


@pytest.mark.parametrize("uint8", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", INTEGER_NETWORKS)
def test_networks_of_power_of_two_scales_are_equal(name: str, uint8: bool) -> None:
    model, inputs = quantised(name, power_of_two=True, uint8=uint8)
    found = evaluate(model, inputs)
    tensors = list(found.quantised)
    outputs = [info.name for info in model.graph.output]
    unfused = runtime(model, inputs, tensors, optimised=False)
    assert {name for name in tensors if not np.array_equal(found.quantised[name], unfused[name])} == set()
    last = tensors[-1]
    fused = runtime(model, inputs, [last], optimised=True)[last]
    assert np.array_equal(found.quantised[last], fused)
    exact = name != "dcgan_generator"  # a hyperbolic tangent of the result differs in its last bit
    for output in outputs if exact else ():
        assert np.array_equal(found.outputs[output], runtime(model, inputs, [output], True)[output])
    assert all(len(np.unique(found.quantised[name])) > 4 for name in tensors)


@pytest.mark.parametrize("name", FLOAT_PARTS)
def test_integer_operators_between_float_ones_are_equal(name: str) -> None:
    """The float operators may differ in their last bits, so that one in 1,000 results differs by 1.

    With the runtime's results of float operators, all other tensors are equal.
    """
    model, inputs = quantised(name, power_of_two=True)
    found = evaluate(model, inputs)
    tensors = list(found.quantised)
    unfused = runtime(model, inputs, tensors, optimised=False)
    assert 0 < len(found.by_float) < len(tensors)
    given = {name: unfused[name] for name in found.by_float}
    exact = evaluate(model, inputs, given).quantised
    assert {name for name in tensors if not np.array_equal(exact[name], unfused[name])} == set()
    own = found.quantised
    steps = np.concatenate([np.abs(own[name].astype(int) - unfused[name]).reshape(-1) for name in given])
    assert steps.max() <= 1
    assert (steps > 0).mean() <= 1e-3


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "deep_q_network", "vit_small"])
def test_qlinear_networks_have_the_tensors_of_qdq_networks(name: str) -> None:
    model, inputs = quantised(name)
    qlinear = to_qlinear(model)
    assert {"QLinearConv"} <= {node.op_type for node in qlinear.graph.node}
    expected, found = evaluate(model, inputs).quantised, evaluate(qlinear, inputs).quantised
    assert sorted(found) == sorted(expected)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


# --- operators of general scales ------------------------------------------------------------------


def floats(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(0.3, 1.0, shape).astype(np.float32)


IMAGE = (4, 16, 40, 40)
OPERATORS: dict[str, tuple[str, list[tuple[int, ...]], list[tuple[int, ...]], dict[str, Any]]] = {
    "conv": ("Conv", [IMAGE], [(48, 16, 3, 3), (48,)], {"pads": [1, 1, 1, 1]}),
    "grouped": ("Conv", [IMAGE], [(48, 4, 3, 3), (48,)], {"group": 4, "dilations": [2, 2]}),
    "depthwise": ("Conv", [(8, 32, 40, 40)], [(32, 1, 3, 3), (32,)], {"group": 32, "pads": [1, 1, 1, 1]}),
    "strided": ("Conv", [(8, 16, 65, 65)], [(64, 16, 3, 3)], {"strides": [2, 2]}),
    "transposed": (
        "ConvTranspose",
        [(4, 16, 24, 24)],
        [(16, 48, 4, 4), (48,)],
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    "gemm": ("Gemm", [(512, 64)], [(640, 64), (640,)], {"transB": 1}),
    "matmul": ("MatMul", [(512, 64)], [(64, 640)], {}),
    "product of activations": ("MatMul", [(6, 256, 32), (6, 32, 196)], [], {}),
    "add": ("Add", [(64, 4096), (64, 4096)], [], {}),
    "broadcast add": ("Add", [(64, 4096), (1, 4096)], [], {}),
    "average pool": ("AveragePool", [(8, 48, 32, 32)], [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "global average pool": ("GlobalAveragePool", [(256, 256, 3, 5)], [], {}),
    "concat": ("Concat", [(64, 2048), (64, 2048)], [], {"axis": 1}),
    "max pool": ("MaxPool", [(8, 48, 32, 32)], [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
}


def operator_model(name: str) -> tuple[onnx.ModelProto, dict[str, Array]]:
    operator, shapes, weights, attributes = OPERATORS[name]
    inputs = {f"x{at}": (1 + at) * floats(at, *shape) for at, shape in enumerate(shapes)}
    constants = {f"w{at}": floats(10 + at, *shape) for at, shape in enumerate(weights)}
    graph = helper.make_graph(
        [helper.make_node(operator, [*inputs, *constants], ["y"], name="operator", **attributes)],
        "operator",
        [helper.make_tensor_value_info(name, 1, array.shape) for name, array in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model), inputs


@pytest.mark.parametrize("uint8", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_general_scales_differ_by_at_most_one(name: str, uint8: bool) -> None:
    model, inputs = operator_model(name)
    qdq = to_qdq(model, [inputs], uint8=uint8, weight_bits=7)
    result = "y_QuantizeLinear_Output"
    found = evaluate(qdq, inputs).quantised[result].astype(int)
    for optimised in (False, True):
        differences = np.abs(found - runtime(qdq, inputs, [result], optimised)[result])
        assert differences.max() <= 1
        assert (differences > 0).mean() <= MOST_DIFFERENT
    assert len(np.unique(found)) > 200 or name.endswith("pool")


def test_resnet18_in_full_size_is_equal() -> None:
    network = NETWORKS["resnet18"]
    model = network.build()
    qdq = to_qdq(model, [network.inputs(model, seed=1)], power_of_two=True, weight_bits=7)
    inputs = network.inputs(model, seed=2)
    found = evaluate(qdq, inputs)
    tensors = list(found.quantised)
    unfused = runtime(qdq, inputs, tensors, optimised=False)
    assert len(tensors) == 33
    assert {name for name in tensors if not np.array_equal(found.quantised[name], unfused[name])} == set()
    assert np.array_equal(found.outputs["logits"], runtime(qdq, inputs, ["logits"], optimised=True)["logits"])
