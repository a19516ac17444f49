# SPDX-License-Identifier: Apache-2.0
"""Nodes of domains without schemas: what is missing or wrong is refused in words."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import vdla
from vdla.compiler.graph.onnx.microsoft import MICROSOFT
from vdla.compiler.graph.onnx.qonnx import QONNX

TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64}
SHAPES = ([], [2], [2, 4], [1, 4, 8], [1, 3, 8, 8])
N_BITS = {"bits": 4, "block_size": 32, "K": 8, "N": 4}
ATTRIBUTES = (
    *({name: value} for name in ("axis", "num_heads", "alpha", "activation") for value in (0, 9, -9, 0.5, "Relu")),
    *({"rounding_mode": value} for value in ("ROUND", "CEIL", "none", 3)),
    *(N_BITS | {name: value} for name in N_BITS for value in (0, -3, 8, "a")),
    {"kernel_shape": [2, 2]},
    {"signed": [1]},
    {"narrow": 1, "signed": 0},
    {"num_heads": 2, "qkv_hidden_sizes": [2, 2]},
    {"hidden_size": 3, "direction": "forward"},
    {"activation": "HardSigmoid", "activation_params": [1.0]},
)


def model(op, attributes, inputs, constants, dtype=1, shape=()):
    domain, _, name = op.rpartition(".")
    node = helper.make_node(name, inputs, ["y"], domain=domain, **attributes)
    fed = [helper.make_tensor_value_info(name, dtype, shape) for name in inputs[:1] if name]
    result = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([node], "g", fed, result, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def random_model(r, op):
    def shape():
        return SHAPES[r.integers(len(SHAPES))] if r.random() < 0.6 else [[], [2], [0]][r.integers(3)]

    def dtype():
        return list(TYPES)[r.integers(len(TYPES))]

    inputs = [f"x{n}" if r.random() > 0.1 else "" for n in range(r.integers(13))]
    values = {name: np.ones(shape()) * r.choice([-1, 0, 1, 3, 8, 100]) for name in inputs[1:] if name}
    constants = {name: value.astype(TYPES[dtype()]) for name, value in values.items()}
    attributes = ATTRIBUTES[r.integers(len(ATTRIBUTES))] if r.random() < 0.7 else {}
    return model(op, attributes, inputs, constants, dtype(), shape())


@pytest.mark.parametrize("op", [*MICROSOFT, *QONNX])
def test_a_malformed_node_is_refused_in_words(op):
    r = np.random.default_rng([ord(letter) for letter in op])
    for _ in range(30):
        try:
            vdla.compile(random_model(r, op), "host")
        except vdla.Error as error:
            assert str(error)


ONES = np.ones((), np.float32)


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "text"),
    [
        ("com.microsoft.FusedMatMul", {}, ["x"], "FusedMatMul y: the node must have the input B, got none"),
        ("com.microsoft.FusedMatMul", {}, ["x", "a", "b"], "FusedMatMul y: the node must have at most 2 inputs, got 3"),
        ("com.microsoft.QLinearAdd", {}, ["x", "a"], "QLinearAdd y: the node must have the input B, got none"),
        ("com.microsoft.Attention", {}, ["x", "a"],
         "Attention y: the node must have a positive integer as num_heads, got none"),
        ("com.microsoft.MatMulNBits", N_BITS | {"K": 0}, ["x", "a", "b"],
         "MatMulNBits y: the node must have a positive integer as K, got 0"),
        ("com.microsoft.FusedGemm", {"activation": 3}, ["x", "a"],
         "FusedGemm y: the node must have a string as activation, got 3"),
        ("qonnx.custom_op.general.Quant", {}, ["x", "a", "b"],
         "Quant y: the node must have the input bit_width, got none"),
        ("qonnx.custom_op.general.Quant", {}, ["x", "a", "b", "big"],
         "Quant y: the node must have one constant bit width from 1 to 32, got 64.0"),
        ("qonnx.custom_op.general.Quant", {}, ["x", "two", "three", "four"],
         "Quant y: the node must have parameters of shapes that broadcast, got [2] and [3]"),
        ("com.amd.quark.ExtendedQuantizeLinear", {}, ["x"],
         "ExtendedQuantizeLinear y: the node must have the input scale, got none"),
    ],
)  # fmt: skip
def test_the_message_names_what_is_missing_or_wrong(op, attributes, inputs, text):
    known = {
        "a": ONES,
        "b": ONES,
        "big": ONES * 64,
        "four": ONES * 4,
        "two": np.ones(2, np.float32),
        "three": np.zeros(3, np.float32),
    }
    made = model(op, attributes, inputs, {name: known[name] for name in inputs[1:]}, shape=[2, 2])
    with pytest.raises(vdla.Error) as error:
        vdla.compile(made, "host")
    assert str(error.value) == text
