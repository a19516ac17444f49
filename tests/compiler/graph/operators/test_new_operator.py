# SPDX-License-Identifier: Apache-2.0
"""An operator of a user: one record, in a file of its own, is all that the compiler needs."""

import importlib.util

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.graph import GraphError, Node, TensorType
from vdla.compiler.graph.accelerator import ACCELERATED
from vdla.compiler.graph.operators import table
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import evaluate_node

FLOAT = '''\
"""Bump: height / (1 + |x|)."""

from vdla.compiler import te
from vdla.compiler.graph.operators import element_function, register


def bump(x, height):
    return height / (1 + te.abs(x))


register(element_function("example.Bump", bump, {"height": 1.0}, on_host=False))
'''
ON_ACCELERATOR = '''\
"""Ramp: the greater of x and 2 x."""

from vdla.compiler import operators, te, templates
from vdla.compiler.graph.integer.affine import activation, multipliers
from vdla.compiler.graph.integer.result import sole
from vdla.compiler.graph.machine.calls import elementwise
from vdla.compiler.graph.operators import OperatorRecord, Trait, element_function, register
from vdla.compiler.graph.rules import FusionClass
from vdla.compiler.graph.rules.requantise import far, rescaled_sums, zero_point


def ramp(x):
    return te.maximum(x, x * 2)


def integer(result, node):
    sole(result.graph, node)
    x = activation(result.graph, node.inputs[0])
    options = {"factors": (1, 2), "x_zero_point": x.zero_point, **multipliers(result.from_scale(x.scale))}
    return result.becomes("example.QRamp", (x.name,), options, (node,))


def quantised(call):
    x, greatest = call.tensor(0), 2 * far(call.attribute("x_zero_point"))
    zero, rescale = zero_point(call, "x_zero_point", x.dtype), rescaled_sums(call, greatest)
    return operators.elementwise(x, lambda v: rescale(ramp(te.cast("int32", v) - zero), 0), call.name())


register(
    element_function("example.Ramp", ramp, integer=integer, on_host=False),
    OperatorRecord(
        name="example.QRamp",
        fusion=FusionClass.INJECTIVE,
        expression=quantised,
        traits=Trait.ELEMENTWISE,
        template=elementwise(templates.leaky_relu),
        on_host=False,
    ),
)
'''
RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(1, 16, 8, 8)).astype(np.float32)


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Runs a file that registers operators, which are forgotten after the test."""
    before = dict(table._RECORDS)
    yield lambda text: _run(tmp_path / "records.py", text)
    table._RECORDS.clear()
    table._RECORDS.update(before)


def _run(path, text):
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("records", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def network(op, **attributes):
    """A convolution, the operator, two convolutions."""
    weights = [RANDOM.normal(size=(16, 16, 3, 3)).astype(np.float32) / 12 for _ in range(3)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, X.shape) for name in "xabcy"]
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], "first", pads=[1] * 4),
        helper.make_node(op, ["a"], ["b"], op, domain="example", **attributes),
        helper.make_node("Conv", ["b", "w"], ["c"], "second", pads=[1] * 4),
        helper.make_node("Conv", ["c", "u"], ["y"], "third", pads=[1] * 4),
    ]
    constants = [numpy_helper.from_array(array, name) for array, name in zip(weights, "vwu", strict=True)]
    graph = helper.make_graph(nodes, "network", values[:1], values[4:], constants, value_info=values[1:4])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("example", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def results(model, **options):
    with compile_network(model, **options) as compiled:
        return compiled(X)


def test_a_float_operator_is_one_record_of_15_lines(load):
    assert len(FLOAT.splitlines()) <= 15
    load(FLOAT)
    node = Node("example.Bump", ("x",), ("y",), {"height": 2.0})
    kinds = [TensorType("float32", X.shape)]
    (kernel,) = evaluate_node(node, [X], types=kinds)
    (meaning,) = evaluate_node(node, [X], types=kinds, prefer="numpy")
    assert np.array_equal(kernel, meaning)
    assert np.allclose(kernel, 2 / (1 + np.abs(X)), rtol=1e-6)
    model = network("Bump", height=2.0)
    exact = results(model)
    quantised = results(model, calibration=X)
    assert np.array_equal(quantised, results(model, target="pynq_z1", calibration=X))
    assert 0 < np.abs(quantised - exact).max() < 0.05 * np.abs(exact).max()


def nodes_after(name, model, **options):
    """The nodes of a network after a pass."""
    graphs = {}
    compile_network(model, observe=lambda pass_name, _, graph: graphs.update({pass_name: graph}), **options).close()
    return graphs[name].nodes


def after(name, model, **options):
    """The operators of a network after a pass."""
    return {node.op for node in nodes_after(name, model, **options)}


def on_accelerator(model, **options):
    """The operators of the programs of a network."""
    regions = [node for node in nodes_after("partition", model, **options) if node.op == ACCELERATED]
    return {node.op for region in regions for node in region.attributes["body"].nodes}


def test_a_float_operator_becomes_a_table_and_follows_layouts(load):
    load(FLOAT)
    assert after("fuse_qdq", network("Bump"), calibration=X) >= {"vdla.QConv", "vdla.QTable"}
    in_blocks = {"vdla.Repack", "Conv", "example.Bump"}
    assert after("layouts", network("Bump")) == in_blocks


def test_an_operator_on_the_accelerator_is_40_lines(load):
    assert len(ON_ACCELERATOR.splitlines()) <= 40
    load(ON_ACCELERATOR)
    model, place = network("Ramp"), {"Ramp": "vdla"}
    options = {"target": "pynq_z1", "calibration": X, "place": place}
    assert np.array_equal(results(model, **options), results(model, calibration=X))
    assert "example.QRamp" in on_accelerator(model, **options)


def test_a_name_is_registered_once(load):
    load(FLOAT)
    with pytest.raises(GraphError, match=r"^register: the operator must have a new name, got example\.Bump$"):
        load(FLOAT)
