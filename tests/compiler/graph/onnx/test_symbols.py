"""Symbols of shapes are kept, replaced by numbers on request, and take any value at run time."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.graph import TensorType
from vdla.compiler.graph.onnx import OnnxError, import_model, specialise
from vdla.runtime.evaluate import evaluate

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
    with pytest.raises(OnnxError, match=r"^rows: extents must name symbols of the model's shapes, got q$"):
        import_model(model(), extents={"q": 1})
