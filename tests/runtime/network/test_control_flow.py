# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan in compiled models: written to a file, read, equal to ONNX Runtime.

Bodies capture values and weights, nest, give rows of unknown number, and choose between shapes.
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import ControlStep, KernelStep
from vdla.runtime.network.compile_network import compile_network

F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
WEIGHT = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32) / 2


def info(name, kind=F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def const(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name))


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def graph(name, nodes, inputs, outputs, initializers=()):
    made = [numpy_helper.from_array(array, key) for key, array in initializers]
    return helper.make_graph(nodes, name, inputs, outputs, made)


def model(nodes, inputs, outputs):
    made = graph("g", nodes, inputs, outputs, [("w", WEIGHT)])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def choice():
    """Branches of different shapes; one captures x, the other x and a weight."""
    small = graph("small", [node("ReduceSum", "x axes", "s", keepdims=0)], [], [info("s")])
    small.node.insert(0, const("axes", np.array([0])))
    large = graph("large", [node("MatMul", "x w", "m"), node("Relu", "m", "l")], [], [info("l")])
    nodes = [node("If", "c", "y", then_branch=small, else_branch=large), node("Neg", "y", "z")]
    return model(nodes, [info("c", B, []), info("x", F, [3, 4])], [info("z")])


def loop(trips="n", condition=""):
    """h = relu(h @ w + x) at most 6 times; the trips so far, a state that grows; rows of h."""
    body = graph(
        "body",
        [
            node("MatMul", "h w", "m"),
            node("Add", "m x", "a"),
            node("Relu", "a", "next"),
            const("last_trip", np.int64(5)),
            node("Less", "i last_trip", "going"),
            const("vector", np.array([1])),
            node("Reshape", "i vector", "i1"),
            node("Concat", "seen i1", "longer", axis=0),
        ],
        [info("i", INT, []), info("c", B, []), info("h"), info("seen", INT)],
        [info("going", B, []), info("next"), info("longer", INT), info("next")],
    )
    outer = [
        const("none", np.zeros(0, np.int64)),
        node("Relu", "x", "start"),
        helper.make_node("Loop", [trips, condition, "start", "none"], ["last", "seen_all", "rows"], body=body),
    ]
    inputs = [info("x", F, [2, 4]), *([info("n", INT, [])] if trips else [])]
    return model(outer, inputs, [info("last"), info("seen_all", INT), info("rows")])


def scan(backwards=0, length=5):
    """A running product of sums with the state of a cell."""
    body = graph(
        "body",
        [
            node("MatMul", "h w", "m"),
            node("Add", "m t", "a"),
            node("Tanh", "a", "next"),
            node("Mul", "next t", "row"),
        ],
        [info("h", F, [4]), info("t", F, [4])],
        [info("next", F, [4]), info("row", F, [4])],
    )
    node_ = node("Scan", "h0 x", "last rows", body=body, num_scan_inputs=1, scan_input_directions=[backwards],
                 scan_output_axes=[1])  # fmt: skip
    return model([node_], [info("h0", F, [4]), info("x", F, [length, 4])], [info("last"), info("rows")])


def nested():
    """A Loop in a branch of an If in a Loop; the innermost captures through both."""
    inner = graph(
        "inner",
        [node("Add", "v x", "u"), node("Identity", "q", "q_out")],
        [info("j", INT, []), info("q", B, []), info("v", F, [3])],
        [info("q_out", B, []), info("u", F, [3])],
    )
    many = graph("many", [node("Loop", "i always h", "t", body=inner)], [], [info("t", F, [3])])
    few = graph("few", [node("Neg", "h", "f")], [], [info("f", F, [3])])
    body = graph(
        "body",
        [
            const("one", np.int64(1)),
            node("Greater", "i one", "big"),
            node("If", "big", "next", then_branch=many, else_branch=few),
            node("Identity", "always", "go"),
        ],
        [info("i", INT, []), info("c", B, []), info("h", F, [3])],
        [info("go", B, []), info("next", F, [3]), info("next", F, [3])],
    )
    outer = [const("always", np.array(True)), node("Loop", "n always x", "last rows", body=body)]
    return model(outer, [info("x", F, [3]), info("n", INT, [])], [info("last"), info("rows")])


def copies():
    """Bodies two of whose results are copies of one value."""
    branches = [
        graph(name, [node("Relu", source, "r"), node("Identity", "r", "p"), node("Identity", "r", "q")], [],
              [info("p"), info("q")])
        for name, source in (("then", "x"), ("else", "s"))
    ]  # fmt: skip
    body = graph(
        "body",
        [
            node("Add", "s x", "t"),
            helper.make_node("If", ["c"], ["u", "v"], then_branch=branches[0], else_branch=branches[1]),
            node("Identity", "t", "next"),
            node("Identity", "t", "row"),
            node("Identity", "c", "go"),
        ],
        [info("i", INT, []), info("c", B, []), info("s", F, [2, 3])],
        [info("go", B, []), info("next"), info("row"), info("u"), info("v")],
    )
    outer = [const("three", np.int64(3)), node("Loop", "three  x", "last rows u v", body=body)]
    outer[1].input[:] = ["three", "", "x"]
    return model(outer, [info("x", F, [2, 3])], [info("last"), info("rows"), info("u"), info("v")])


def empty_state():
    """A state that has no elements in any iteration, beside one that has."""
    body = graph(
        "body",
        [
            node("Relu", "e", "e_next"),
            node("Concat", "e s", "s_next", axis=0),
            node("Neg", "s_next", "row"),
            node("Identity", "c", "go"),
        ],
        [info("i", INT, []), info("c", B, []), info("e", F, [0, 3]), info("s", F, [2, 3])],
        [info("go", B, []), info("e_next"), info("s_next"), info("e_next"), info("row")],
    )
    outer = [
        const("three", np.int64(3)),
        helper.make_node("Loop", ["three", "", "e0", "x"], ["e", "s", "es", "rows"], body=body),
    ]
    return model(outer, [info("e0", F, [0, 3]), info("x", F, [2, 3])], [info("e"), info("s"), info("es"), info("rows")])


def rng(*shape):
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


CASES = {
    "then": (choice, {"c": np.array(True), "x": rng(3, 4)}),
    "else": (choice, {"c": np.array(False), "x": rng(3, 4)}),
    "trips": (loop, {"x": rng(2, 4), "n": np.array(3)}),
    "condition ends": (loop, {"x": rng(2, 4), "n": np.array(50)}),
    "no trip count": (lambda: loop(trips=""), {"x": rng(2, 4)}),
    "no iteration": (nested, {"x": rng(3), "n": np.array(0)}),
    "scan": (scan, {"h0": rng(4), "x": rng(5, 4)}),
    "scan backwards": (lambda: scan(1), {"h0": rng(4), "x": rng(5, 4)}),
    "copies": (copies, {"x": rng(2, 3)}),
    "empty state": (empty_state, {"e0": rng(0, 3), "x": rng(2, 3)}),
    "nested": (nested, {"x": rng(3), "n": np.array(5)}),
}


def compiled(made: onnx.ModelProto, tmp_path) -> Model:
    compile_network(made).save(tmp_path / "m.vdla")
    return Model.load(tmp_path / "m.vdla")


@pytest.mark.parametrize("case", CASES)
def test_models_equal_onnx_runtime(case, tmp_path):
    make, inputs = CASES[case]
    session = onnxruntime.InferenceSession(make().SerializeToString())
    loaded = compiled(make(), tmp_path)
    names = [output.name for output in session.get_outputs()]
    for _ in range(2):  # nothing is left from the run before
        results = loaded.run(inputs).outputs
        for name, wanted in zip(names, session.run(names, inputs), strict=True):
            assert results[name].shape == wanted.shape and results[name].dtype == wanted.dtype
            assert np.allclose(results[name], wanted, rtol=1e-5, atol=1e-5), name


def test_scan_of_nothing(tmp_path):
    """ONNX Runtime refuses it."""
    results = compiled(scan(length=0), tmp_path).run({"h0": rng(4), "x": rng(0, 4)}).outputs
    assert np.array_equal(results["last"], rng(4))
    assert results["rows"].shape == (4, 0)


def test_bodies_are_compiled_where_states_keep_their_shape(tmp_path):
    (step,) = (each for each in compiled(loop(), tmp_path).artifact.plan.steps if isinstance(each, ControlStep))
    body = step.bodies["body"]
    kernels = [each.name for each in body.steps if isinstance(each, KernelStep)]
    assert "MatMul+Add+Relu" in kernels
    assert body.arena_bytes > 0 and body.values[body.outputs[1]].shape == (2, 4)
    assert body.values[body.outputs[2]].shape is None  # grows
    assert step.attributes == {"captures": 1} and step.rows[3].shape == (2, 4)


@pytest.mark.parametrize("length", [8, 5000])
@pytest.mark.parametrize("result", ["constant", "node"])
def test_branches_have_constants_of_any_size_for_shapes_that_are_known_when_it_runs(tmp_path, length, result):
    weight = np.arange(length, dtype=np.float32)
    nodes = [const("k", weight)] + ([node("Add", "k x", "s")] if result == "node" else [])
    branch = graph("branch", nodes, [], [info("s" if result == "node" else "k")])
    negated = graph("negated", [node("Neg", "x", "n")], [], [info("n")])
    nodes = [node("If", "c", "y", then_branch=branch, else_branch=negated)]
    made = model(nodes, [info("c", B, []), info("x", F, ["n"])], [info("y")])
    with compile_network(made) as network:
        network.save(tmp_path / "model.vdla")
    x = np.ones(length, np.float32)
    with Model.load(tmp_path / "model.vdla") as network:
        results = [network.run({"c": np.asarray(flag), "x": x}).outputs["y"] for flag in (True, False)]
    np.testing.assert_array_equal(results, [weight + (result == "node"), -x])
