# SPDX-License-Identifier: Apache-2.0
"""Nodes whose operands contradict each other are refused at import, with the node and the rule."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.graph.onnx import OnnxError, import_model

IMAGE, ROWS = [1, 4, 8, 8], [4, 3]
KINDS = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int64": TensorProto.INT64}


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def int64(*values):
    return np.array(values, np.int64)


def model(op, shape, constants, dtype="float32", inputs=None, **attributes):
    domain, _, name = op.rpartition("/")
    named = {f"c{i}": value for i, value in enumerate(constants) if value is not None}
    names = ["x", *(f"c{i}" if value is not None else "" for i, value in enumerate(constants))]
    node = helper.make_node(name, names if inputs is None else inputs, ["y"], domain=domain, **attributes)
    given = [helper.make_tensor_value_info("x", KINDS[dtype], shape)]
    held = [numpy_helper.from_array(value, key) for key, value in named.items()]
    graph = helper.make_graph([node], "g", given, [helper.make_empty_tensor_value_info("y")], held)
    opsets = [helper.make_opsetid("", 21), *([helper.make_opsetid(domain, 3)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


QUANTISED = (np.float32(1), np.uint8(0))
TREE = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [1.0, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0], "target_ids": [0, 0], "target_nodeids": [1, 2], "target_treeids": [0, 0],
    "target_weights": [1.0, 2.0], "n_targets": 1,
}  # fmt: skip
TREES = "ai.onnx.ml/TreeEnsembleRegressor"
BACK = {"nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"], "nodes_truenodeids": [1, 0, 0]}

CASES = [
    ("Conv", IMAGE, [ones(4, 3, 3, 3)], {}, "the weight must read the 4 channels of the data, got 3"),
    ("Conv", IMAGE, [ones(4, 4, 3, 3)], {"group": 2},
     "the weight must read the 4 channels of the data, got 4 in each of 2 groups"),
    ("Conv", IMAGE, [ones(5, 2, 3, 3)], {"group": 2},
     "the weight's first extent must be a multiple of the 2 groups, got 5"),
    ("Conv", IMAGE, [ones(4, 4, 3, 3)], {"kernel_shape": [5, 5]},
     "kernel_shape must be that of the weight, [3, 3], got [5, 5]"),
    ("Conv", IMAGE, [ones(4, 4, 3, 3), ones(5)], {}, "the bias must be of [4], got [5]"),
    ("Conv", [1, 4, 2, 2], [ones(4, 4, 3, 3)], {}, "the padded data must be at least as large as the kernel, 3, got 2"),
    ("Conv", IMAGE, [ones(4, 4, 3, 3)], {"auto_pad": "FULL"},
     "auto_pad must be one of NOTSET, SAME_UPPER, SAME_LOWER, VALID, got FULL"),
    ("ConvTranspose", IMAGE, [ones(3, 4, 2, 2)], {}, "the weight must read the 4 channels of the data, got 3"),
    ("ConvTranspose", IMAGE, [ones(4, 3, 2, 2), ones(5)], {"group": 2}, "the bias must be of [6], got [5]"),
    ("Reshape", IMAGE, [int64(7, 7)], {}, "the result must have the 256 elements of the data, got [7, 7]"),
    ("Gather", ROWS, [int64(1, 5)], {"axis": 1}, "indices must be from -3 to 2, got 5"),
    ("GatherElements", ROWS, [int64(-5).reshape(1, 1)], {}, "indices must be from -4 to 3, got -5"),
    ("GatherND", ROWS, [int64(0, 3).reshape(1, 2)], {}, "indices must be from -3 to 2, got 3"),
    ("CumSum", ROWS, [np.int64(3)], {}, "axis must be from -2 to 1, got 3"),
    ("QuantizeLinear", ROWS, [ones(2)], {"axis": 1}, "the scale must be of [3], got [2]"),
    ("QuantizeLinear", ROWS, [ones(3)], {"axis": 5}, "axis must be from -2 to 1, got 5"),
    ("QuantizeLinear", ROWS, [ones(3), ones(2, dtype=np.int8)], {"axis": 1}, "the zero point must be of [3], got [2]"),
    ("LSTM", [5, 1, 3], [ones(1, 16, 2), ones(1, 16, 4)], {"hidden_size": 4},
     "W must be of [1, 16, 3], got [1, 16, 2]"),
    ("GRU", [5, 1, 3], [ones(2, 12, 3), ones(2, 12, 4), ones(2, 12)], {"hidden_size": 4, "direction": "bidirectional"},
     "B must be of [2, 24], got [2, 12]"),
    ("DepthToSpace", [1, 6, 2, 2], [], {"blocksize": 2}, "channels must be multiples of 4, got 6"),
    ("SpaceToDepth", [1, 6, 3, 2], [], {"blocksize": 2}, "height and width must be multiples of 2, got 3"),
    ("PRelu", IMAGE, [ones(5, 1, 1)], {}, "the slope must broadcast to [1, 4, 8, 8], got [5, 1, 1]"),
    ("Gemm", ROWS, [ones(3, 2), ones(3)], {}, "the bias must broadcast to [4, 2], got [3]"),
    ("LayerNormalization", ROWS, [ones(4)], {}, "the scale must broadcast to [3], got [4]"),
    ("InstanceNormalization", IMAGE, [ones(3), ones(3)], {}, "the scale must be of [4], got [3]"),
    ("LRN", IMAGE, [], {"size": 0}, "size must be positive, got 0"),
    ("Resize", IMAGE, [None, np.float32([1, 1, -2, 2])], {}, "scales must be positive, got -2"),
    ("Pad", ROWS, [int64(0, 0, 1, 1)], {"mode": "round"},
     "mode must be one of constant, reflect, edge, wrap, got round"),
    ("ai.onnx.ml/Scaler", ROWS, [], {"offset": [1.0, 2.0], "scale": [1.0]},
     "offset must have 1 number or 3, as the data has columns, got 2"),
    ("ai.onnx.ml/LinearRegressor", ROWS, [], {"coefficients": [1.0, 2.0]},
     "coefficients must be so many for each of the 3 columns of the data, got 2"),
    ("ai.onnx.ml/SVMRegressor", ROWS, [],
     {"n_supports": 5, "support_vectors": [1.0], "coefficients": [1.0], "rho": [0.0], "kernel_params": [1.0, 0.0, 1.0]},
     "support_vectors must be 5 of 3 columns, got 1 numbers"),
    (TREES, ROWS, [], TREE | {"nodes_truenodeids": [7, 0, 0]},
     "branches must lead to nodes of their tree, got node 7 after node 0 of tree 0"),
    (TREES, ROWS, [], TREE | {"nodes_featureids": [9, 0, 0]},
     "features must be columns of the data, 0 to 2, got 9 at node 0 of tree 0"),
    (TREES, ROWS, [], TREE | {"nodes_modes": ["LEAF"]},
     "attributes of nodes must have one length, got nodes_treeids 3, "
     "nodes_nodeids 3, nodes_modes 1, nodes_featureids 3, nodes_truenodeids 3, nodes_falsenodeids 3"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shape", "constants", "attributes", "rule"), CASES, ids=lambda case: str(case)[:40])
def test_a_node_is_refused_with_its_rule(op, shape, constants, attributes, rule):
    name = op.replace("/", ".")
    with pytest.raises(OnnxError, match=f"^{re.escape(f'g: {name} y: {rule}')}$"):
        import_model(model(op, shape, constants, **attributes))


def test_branches_that_lead_back_are_refused():
    with pytest.raises(OnnxError, match=r"^g: .* y: branches must not lead back, got node \d of tree 0 after itself$"):
        import_model(model(TREES, ROWS, [], **(TREE | BACK)))


@pytest.mark.parametrize(
    ("op", "constants", "rule"),
    [
        ("QLinearConv", [*QUANTISED, ones(2, 3, 3, 3, dtype=np.uint8), *QUANTISED, *QUANTISED],
         "the weight must read the 4 channels of the data, got 3"),
        ("ConvInteger", [ones(2, 3, 3, 3, dtype=np.uint8)], "the weight must read the 4 channels of the data, got 3"),
    ],
)  # fmt: skip
def test_integer_convolutions_are_checked(op, constants, rule):
    with pytest.raises(OnnxError, match=f"^g: {op} y: {rule}$"):
        import_model(model(op, IMAGE, constants, dtype="uint8"))


def test_zero_points_of_products_are_one_a_row_or_column():
    constants = [ones(3, 2, dtype=np.uint8), np.uint8(0), ones(3, dtype=np.uint8)]
    with pytest.raises(OnnxError, match=r"^g: MatMulInteger y: the second zero point must be of \[2\], got \[3\]$"):
        import_model(model("MatMulInteger", ROWS, constants, dtype="uint8"))


def test_open_extents_break_no_rule():
    graph = import_model(model("Conv", ["n", "c", "h", "w"], [ones(4, 3, 3, 3), ones(4)]))
    assert [node.op for node in graph.nodes] == ["Conv"]


def test_nodes_of_bodies_are_checked():
    body = helper.make_graph(
        [helper.make_node("Gather", ["x", "i"], ["t"])], "b", [], [helper.make_empty_tensor_value_info("t")],
        [numpy_helper.from_array(int64(9), "i")],
    )  # fmt: skip
    open_result = [helper.make_empty_tensor_value_info("r")]
    good = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "b", [], open_result)
    made = model("Identity", ROWS, [])
    made.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    made.graph.node[0].CopyFrom(helper.make_node("If", ["c"], ["y"], then_branch=good, else_branch=body))
    with pytest.raises(OnnxError, match=r"^g, else_branch of If y: Gather t: indices must be from -4 to 3, got 9$"):
        import_model(made)


# --- types ----------------------------------------------------------------------------------------


def chain(*ops):
    """A row of nodes, of which one may contradict its operands."""
    values = ["x", *(f"v{i}" for i in range(len(ops)))]
    nodes = [helper.make_node(op, [*values[i : i + 1], *more], [values[i + 1]]) for i, (op, *more) in enumerate(ops)]
    made = model("Identity", ROWS, [ones(5)], inputs=["x"])
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    made.graph.output[0].name = values[-1]
    return made


def test_the_first_node_whose_types_contradict_each_other_is_named():
    rule = "its types must follow from those of its inputs (float32[4, 3], float32[5])"
    for before in range(3):
        ops = [("Relu",)] * before + [("Add", "c0"), ("Abs",), ("Neg",)]
        with pytest.raises(
            OnnxError, match=f"^{re.escape(f'g: Add v{before}: {rule}, got: Incompatible dimensions')}$"
        ):
            import_model(chain(*ops))


def test_a_call_with_more_operands_than_its_function_is_refused():
    function = helper.make_function(
        "own", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    made = model("own/F", ROWS, [], inputs=["x", "x"])
    made.functions.append(function)
    with pytest.raises(OnnxError, match=r"^F y: the number of inputs must be at most 1, as of its function, got 2$"):
        import_model(made)


def test_results_that_are_no_tensors_are_refused_with_the_remedy():
    made = model("SequenceConstruct", ROWS, [])
    remedy = "export the model with tensors in its place, such as the elements of a list one by one"
    rule = f"model g: y must be a tensor, got sequence<float32[4, 3]>; {remedy}"
    with pytest.raises(vdla.Error, match=f"^{re.escape(rule)}$"):
        vdla.compile(made, "host")
