# SPDX-License-Identifier: Apache-2.0
"""Symbols of shapes are kept, replaced by numbers on request, and take any value at run time."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.graph import TensorType
from vdla.compiler.graph.onnx import OnnxError, import_model, specialise
from vdla.runtime.network.evaluator import evaluate

WEIGHTS = np.arange(24, dtype=np.float32).reshape(6, 4) / 8


def model():
    """Rows of an image as one product, with a shape that is computed; a branch on the first row."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    result = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    branches = {
        key: helper.make_graph([helper.make_node(op, ["p", "p"], ["r"])], key, [], [result])
        for key, op in (("then_branch", "Add"), ("else_branch", "Mul"))
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], end=1),
        helper.make_node("Concat", ["n", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["p"]),
        helper.make_node("ReduceMax", ["p"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], **branches),
    ]
    initial = {"rest": np.array([6]), "w": WEIGHTS, "zero": np.float32(0)}
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in initial.items()]
    return helper.make_model(helper.make_graph(nodes, "rows", [x], [y], tensors))


def expected(x):
    product = x.reshape(len(x), 6) @ WEIGHTS
    return product + product if product.max() > 0 else product * product


def test_symbols_reach_the_results():
    graph = import_model(model())
    assert graph.types["x"] == TensorType("float32", ("batch", 2, 3))
    assert graph.types["p"] == TensorType("float32", ("batch", 4))


@pytest.mark.parametrize("prefer", ["kernel", "numpy"])
def test_any_batch_runs(prefer):
    graph = import_model(model())
    for batch in (1, 3):
        for sign in (1, -1):
            x = sign * np.arange(1, 6 * batch + 1, dtype=np.float32).reshape(batch, 2, 3)
            np.testing.assert_allclose(evaluate(graph, {"x": x}, prefer=prefer)["y"], expected(x), rtol=1e-6)


def test_specialised_graphs_have_numbers():
    for graph in (import_model(model(), extents={"batch": 5}), specialise(import_model(model()), {"batch": 5})):
        assert graph.types["x"] == TensorType("float32", (5, 2, 3))
        assert graph.types["p"] == TensorType("float32", (5, 4))
        body = graph.producers["y"].attributes["then_branch"]
        assert body.types["p"] == TensorType("float32", (5, 4))


def test_unknown_symbols_are_refused():
    message = r"^rows: extents must name symbols of the inputs \(batch\), got q$"
    with pytest.raises(OnnxError, match=message):
        specialise(import_model(model()), {"q": 1})
    with pytest.raises(OnnxError, match=r"^rows: extents must name symbols of the model's shapes \(batch\), got q$"):
        import_model(model(), extents={"q": 1})


# --- extents without a name -----------------------------------------------------------------------


def open_model(x: list, z: list):
    """Element-wise, and with extents that follow from data, in a body too; inputs `x` and `z`."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", x), ("z", z))]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in (("y", 1), ("at", 7), ("r", 1))]
    outputs[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, ["?", "?"]))
    result = helper.make_tensor_value_info("t", TensorProto.INT64, None)
    body = helper.make_graph([helper.make_node("NonZero", ["z"], ["t"])], "b", [], [result])
    outputs[2].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.INT64, None))
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("NonZero", ["x"], ["at"]),
        helper.make_node("ReduceMax", ["z"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["positive"], to=TensorProto.BOOL),
        helper.make_node("If", ["positive"], ["r"], then_branch=body, else_branch=body),
    ]
    return helper.make_model(helper.make_graph(nodes, "open", inputs, outputs))


OPEN = [
    ([None, None], [None, 3], ("x.0", "x.1"), ("z.0", 3)),
    (["?", "?"], ["?", 3], ("x.0", "x.1"), ("z.0", 3)),
    (["", ""], ["None", "-1"], ("x.0", "x.1"), ("z.0", "z.1")),
    (["n", "n"], ["n", None], ("n", "n"), ("n", "z.1")),
    (["x.1", None], [2, 3], ("x.1", "x.1_"), (2, 3)),
    (["unk__0", None], ["unk__0", 3], ("unk__0", "x.1"), ("unk__0", 3)),
    ([2, 3], [2, 3], (2, 3), (2, 3)),
]


@pytest.mark.parametrize(("x", "z", "named_x", "named_z"), OPEN)
def test_every_open_extent_of_an_input_has_its_own_name(x, z, named_x, named_z):
    model = open_model(x, z)
    graph = import_model(model)
    assert (graph.types["x"].shape, graph.types["z"].shape) == (named_x, named_z)
    assert graph.types["y"].shape == named_x
    assert graph.types["at"].shape == (2, None)
    graphs = [graph, *(body for node in graph.nodes for body in node.bodies.values())]
    symbols = {symbol for each in graphs for kind in each.types.values() for symbol in kind.symbols}
    given = {symbol for symbol in (*named_x, *named_z) if isinstance(symbol, str)}
    assert symbols == given
    extents = {symbol: 3 for symbol in given}
    for fixed in (import_model(model, extents=extents), specialise(graph, extents)):
        assert all(fixed.types[name].static for name in ("x", "y", "z"))
        found = evaluate(fixed, {name: np.eye(*fixed.types[name].extents, dtype=np.float32) for name in ("x", "z")})
        assert found["at"].tolist() == np.array(np.nonzero(np.eye(*fixed.types["x"].extents))).tolist()


def test_an_unknown_symbol_is_refused_with_those_there_are():
    with pytest.raises(OnnxError) as error:
        import_model(open_model([None, "n"], [None, 3]), extents={"unk__0": 1})
    message = "open: extents must name symbols of the model's shapes (n, x.0, z.0), got unk__0"
    assert str(error.value) == message
