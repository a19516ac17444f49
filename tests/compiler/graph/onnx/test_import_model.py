# SPDX-License-Identifier: Apache-2.0
"""Models become graphs: constants, types, closed bodies, functions, errors."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.graph import TensorType, check_graph
from vdla.compiler.graph.onnx import OnnxError, UnsupportedError, import_model

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)


def model(nodes, inputs=(X,), outputs=(Y,), initial=(), opset=28, functions=(), domains=()):
    graph = helper.make_graph(nodes, "small", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in initial])
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=functions)


def test_constants_and_types():
    weights = np.ones((8, 300), np.float32)
    graph = import_model(model([helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")], initial=[("w", weights)]))
    assert str(graph) == (
        "graph small\n"
        "  input x: float32[batch, 8]\n"
        "  constant w: float32[8, 300]\n"
        "  y: float32[batch, 300] = MatMul(x, w)\n"
        "  output y"
    )
    assert import_model(model([helper.make_node("Relu", ["x"], ["y"])]), extents={"batch": 3}).types["y"] == TensorType(
        "float32", (3, 8)
    )


def test_bodies_are_closed():
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    branches = {
        key: helper.make_graph([helper.make_node("Add", ["x", other], ["r"])], key, [], [Y_named("r")])
        for key, other in (("then_branch", "one"), ("else_branch", "q"))
    }
    nodes = [
        helper.make_node("Constant", [], ["one"], value=one),
        helper.make_node("Relu", ["x"], ["q"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    graph = import_model(model(nodes, (helper.make_tensor_value_info("c", TensorProto.BOOL, []), X)))
    node = graph.producers["y"]
    assert node.inputs == ("c", "x", "q")
    assert node.attributes["captures"] == 2
    assert {body.inputs for body in node.bodies.values()} == {("x", "q")}
    assert set(node.bodies["then_branch"].constants) == {"one"}
    check_graph(graph)


def Y_named(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def test_functions_of_the_model_are_inlined():
    body = [helper.make_node("Relu", ["a"], ["t"]), helper.make_node("Add", ["t", "a"], ["b"])]
    function = helper.make_function("own", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 28)])
    calls = [
        helper.make_node("Twice", ["x"], ["m"], domain="own"),
        helper.make_node("Twice", ["m"], ["y"], domain="own"),
    ]
    graph = import_model(model(calls, functions=[function], domains=["own"]))
    assert [str(node) for node in graph.nodes] == [
        "m/t = Relu(x)", "m = Add(m/t, x)", "y/t = Relu(m)", "y = Add(y/t, m)",
    ]  # fmt: skip


def test_unsupported_nodes_are_all_listed():
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Gather2", ["r"], ["y"], name="pick", domain="com.example"),
        helper.make_node("Sort", ["r"], ["z"], domain="com.example"),
    ]
    with pytest.raises(UnsupportedError) as raised:
        import_model(model(nodes, domains=("com.example",)))
    reason = "operators of the domain com.example are unknown"
    assert raised.value.reasons == {"Gather2 pick": reason, "Sort z": reason}


QOPERATOR = "quantise the float model with quant_format=QuantFormat.QDQ instead of QOperator"
UNKNOWN = "operators of the domain com.microsoft.nchwc are unknown"
QCDQ = "export the network with these, or with QuantizeLinear and DequantizeLinear (QCDQ)"
OPTIMISED = "save the model without the extended optimisations of ONNX Runtime (ORT_ENABLE_BASIC)"


@pytest.mark.parametrize(
    ("domain", "op", "reason"),
    [
        (
            "com.microsoft",
            "QLinearWhere",
            f"QLinearWhere of ONNX Runtime is not among its operators that run; {QOPERATOR}",
        ),
        (
            "com.microsoft",
            "NGramRepeatBlock",
            f"NGramRepeatBlock of ONNX Runtime is not among its operators that run; {OPTIMISED}",
        ),
        ("com.microsoft.nchwc", "Conv", f"{UNKNOWN}; {OPTIMISED}"),
        (
            "qonnx.custom_op.general",
            "FloatQuant",
            f"of QONNX's operators BipolarQuant, IntQuant, Quant and Trunc run, not FloatQuant; {QCDQ}",
        ),
    ],
)
def test_operators_of_other_domains_are_refused_with_the_remedy(domain, op, reason):
    with pytest.raises(UnsupportedError) as raised:
        import_model(model([helper.make_node(op, ["x", "x"], ["y"], domain=domain)], domains=(domain,)))
    assert raised.value.reasons == {f"{op} y": reason}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (b"no model", "model: the file must be an ONNX model, got 8 bytes of another format"),
        (
            model([helper.make_node("Relu", ["q"], ["y"])]),
            "small: Relu y: inputs must be computed before it, got q, which nothing computes",
        ),
        (model([helper.make_node("Relu", ["x"], ["y"])], opset=3), "small: opset must be 6 to 28, got 3"),
    ],
)
def test_errors(made, message):
    with pytest.raises(OnnxError, match=f"^{re.escape(message)}$"):
        import_model(made)


# --- the order of nodes


CHAIN = [
    helper.make_node("Relu", ["x"], ["a"]),
    helper.make_node("Neg", ["a"], ["b"]),
    helper.make_node("Add", ["a", "b"], ["y"]),
]


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 0, 2), (0, 2, 1), (0, 1, 2)])
def test_nodes_may_come_in_any_order(order):
    graph = import_model(model([CHAIN[place] for place in order]))
    assert [node.op for node in graph.nodes] == ["Relu", "Neg", "Add"]
    check_graph(graph)


def test_nodes_of_bodies_may_come_in_any_order():
    body = helper.make_graph(CHAIN[::-1], "body", [], [Y_named("y")])
    condition, source = (helper.make_tensor_value_info(*of) for of in (("c", TensorProto.BOOL, []), ("q", 1, [2])))
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
        helper.make_node("Neg", ["q"], ["x"]),
    ]
    graph = import_model(model(nodes, (condition, source)))
    check_graph(graph)
    assert [node.op for node in graph.nodes] == ["Neg", "If"]
    assert [node.op for node in graph.nodes[1].bodies["then_branch"].nodes] == ["Relu", "Neg", "Add"]


def test_nodes_of_functions_may_come_in_any_order():
    steps = [helper.make_node("Neg", ["q"], ["r"]), helper.make_node("Relu", ["p"], ["q"])]
    function = helper.make_function("own", "Same", ["p"], ["r"], steps, [helper.make_opsetid("", 28)])
    graph = import_model(
        model([helper.make_node("Same", ["x"], ["y"], domain="own")], (X,), functions=[function], domains=["own"])
    )
    assert [node.op for node in graph.nodes] == ["Relu", "Neg"]


def test_a_cycle_is_refused():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"]), CHAIN[2]]
    with pytest.raises(
        OnnxError, match=r"^small: Add a: inputs must be computed before it, got b, which is computed from itself$"
    ):
        import_model(model(nodes))


@pytest.mark.parametrize("shape", [[2], [2, 3], ["n"]])
def test_bodies_may_share_names_of_their_values(shape):
    body = helper.make_graph(CHAIN, "body", [], [Y_named("y")])
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("x", 1, shape)]
    graph = import_model(model([helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)], inputs))
    assert graph.types["y"] == TensorType("float32", tuple(shape))
