# SPDX-License-Identifier: Apache-2.0
"""Shapes of inputs: given before, in sets, and known only when a model runs."""

import re
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.graph.onnx import OnnxError
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.errors import ExecutorError, ModelError, ModelWarning
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import ControlStep, KernelStep, ProgramStep

FLOAT = TensorProto.FLOAT


def network(shapes, nodes, constants=None):
    """A model of nodes (operator, inputs, result, attributes), whose last result is the output."""
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
    made = [helper.make_node(op, ins, [out], name=out, **more) for op, ins, out, more in nodes]
    output = helper.make_tensor_value_info(nodes[-1][2], FLOAT, None)
    arrays = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(made, "net", inputs, [output], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def weights(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32) / 8


def pictures(shape=("n", 16, "h", "w")):
    nodes = [("Conv", ["x", "w"], "c", {"pads": [1] * 4}), ("Relu", ["c"], "y", {})]
    return network({"x": list(shape)}, nodes, {"w": weights(16, 16, 3, 3)})


def sequences():
    return network(
        {"x": ["b", "s", 8]},
        [("MatMul", ["x", "w"], "m", {}), ("Softmax", ["m"], "y", {"axis": 1})],
        {"w": weights(8, 8)},
    )


def volumes():
    return network({"x": [1, 2, "d", "h", "w"]}, [("Conv", ["x", "w"], "y", {})], {"w": weights(3, 2, 2, 2, 2)})


def pairs():
    nodes = [("Concat", ["a", "b"], "c", {"axis": 1}), ("Relu", ["c"], "y", {})]
    return network({"a": ["n", 8], "b": ["n", "m"]}, nodes)


def vectors():
    return network({"x": ["n"]}, [("Exp", ["x"], "y", {})])


def array(*shape):
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


CASES = {
    "pictures": (pictures, [{"x": array(1, 16, 6, 9)}, {"x": array(2, 16, 5, 5)}]),
    "sequences": (sequences, [{"x": array(1, 7, 8)}, {"x": array(3, 2, 8)}]),
    "volumes": (volumes, [{"x": array(1, 2, 3, 4, 5)}, {"x": array(1, 2, 2, 2, 2)}]),
    "pairs": (pairs, [{"a": array(3, 8), "b": array(3, 5)}, {"a": array(4, 8), "b": array(4, 1)}]),
    "vectors": (vectors, [{"x": array(5)}, {"x": array(1)}]),
}


@pytest.mark.parametrize("source", ["process", "file"])
@pytest.mark.parametrize("case", CASES)
def test_open_extents_run_compiled_kernels(case, source, tmp_path):
    make, runs = CASES[case]
    model = vdla.compile(make(), "host")
    if source == "file":
        model.save(tmp_path / "net.vdla")
        model = vdla.load(tmp_path / "net.vdla")
    session = onnxruntime.InferenceSession(make().SerializeToString())
    for inputs in (*runs, runs[0]):
        result = model.run(inputs)
        assert all(isinstance(run.step, KernelStep) for run in result.steps)
        assert np.allclose(result.outputs["y"], session.run(None, inputs)[0], atol=1e-5)
        assert np.array_equal(model(**inputs), result.outputs["y"])


@pytest.mark.parametrize("source", ["process", "file"])
def test_open_extents_run_on_the_accelerator(source, tmp_path):
    data = np.clip(array(4, 16, 8, 8), -2, 2)
    model = vdla.compile(pictures(), "pynq_z1", calibration=data, method="minmax")
    assert model.artifact.plan.input_shapes == "x[1, 16, 8, 8]"  # that of the data
    if source == "file":
        model.save(tmp_path / "net.vdla")
        model = vdla.load(tmp_path / "net.vdla")
    with model:
        for shape in ((1, 16, 8, 8), (1, 16, 6, 10)):
            x = np.clip(array(*shape), -2, 2)
            result = model.run({"x": x})
            assert any(isinstance(run.step, ProgramStep) for run in result.steps)
            assert result.cycles
            (want,) = onnxruntime.InferenceSession(pictures().SerializeToString()).run(None, {"x": x})
            assert np.abs(result.outputs["y"] - want).mean() < 0.02 * np.abs(want).max()


def test_shapes_make_a_plan_each(tmp_path):
    shapes = {"x": [(1, 16, 6, 6), (2, 16, 8, 4)]}
    vdla.compile(pictures(), "host", shapes=shapes).save(tmp_path / "net.vdla")
    model = vdla.load(tmp_path / "net.vdla")
    assert [plan.input_shapes for plan in model.artifact.plans] == ["x[1, 16, 6, 6]", "x[2, 16, 8, 4]"]
    assert model.artifact.recipe is None
    for shape in shapes["x"]:
        assert model(array(*shape)).shape == shape
    message = "model net: inputs must have the shapes x[1, 16, 6, 6] or x[2, 16, 8, 4], got x[1, 16, 7, 7]; "
    message += "compile the model with --shape x=1x16x7x7 as well to add them"
    with pytest.raises(ExecutorError, match=f"^{re.escape(message)}$"):
        model(array(1, 16, 7, 7))


@pytest.mark.parametrize("shapes", [(1, 16, 6, 6), {"": (1, 16, 6, 6)}, {"x": [(1, 16, 6, 6)]}])
def test_the_only_input_needs_no_name(shapes):
    model = vdla.compile(pictures(), "host", shapes=shapes)
    assert [plan.input_shapes for plan in model.artifact.plans] == ["x[1, 16, 6, 6]"]


def test_an_input_of_any_rank_takes_the_shape_given():
    source = pictures()
    source.graph.input[0].type.tensor_type.ClearField("shape")
    model = vdla.compile(source, "host", shapes={"x": (1, 16, 6, 6)})
    assert model.artifact.plan.input_shapes == "x[1, 16, 6, 6]"


def test_one_shape_is_in_all_sets():
    made = vdla.compile(pairs(), "host", shapes={"a": (3, 8), "b": [(3, 5), (3, 6)]})
    assert [plan.input_shapes for plan in made.artifact.plans] == ["a[3, 8], b[3, 5]", "a[3, 8], b[3, 6]"]


WRONG = [
    ({"x": (1, 3, 6, 6)}, OnnxError,
     "net: shape of x must fit [n, 16, h, w], got [1, 3, 6, 6], whose axis 1 is 3, not 16"),
    ({"x": (1, 16, 6)}, OnnxError, "net: shape of x must fit [n, 16, h, w], got [1, 16, 6], which has 3 axes, not 4"),
    ({"xx": (1, 16, 6, 6)}, OnnxError, "net: shapes must be those of inputs, one of x, got xx (did you mean x?)"),
    ({"x": (1, 16, -6, 6)}, ModelError,
     "compile: shape of x must have integers from 0 as extents, got (1, 16, -6, 6)"),
    ({"x": (1, 16, 6.0, 6)}, ModelError,
     "compile: shape of x must have integers from 0 as extents, got (1, 16, 6.0, 6)"),
    (7, ModelError, "compile: shape must have integers from 0 as extents, got 7"),
    ([(1, 16, 6, 6)] * 2, ModelError, "compile: sets of shapes must differ, got 1x16x6x6 twice"),
    ([(n, 16, 6, 6) for n in range(17)], ModelError, "compile: shapes must give at most 16 plans, got 17"),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "kind", "message"), WRONG)
def test_wrong_shapes(shapes, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        vdla.compile(pictures(), "host", shapes=shapes)


WRONG_PAIRS = [
    ({"a": (3, 8), "b": (4, 5)}, "net: shape of b must fit [n, m], got [4, 5], as n is 3 in the shape of a"),
    ((3, 8), "net: the shape 3x8 must name one of the inputs (a, b), got no name"),
    ({"a": [(3, 8), (4, 8)], "b": [(3, 5)] * 3}, "compile: shapes of a must be one or 3, as many as b has, got 2"),
]


@pytest.mark.parametrize(("shapes", "message"), WRONG_PAIRS)
def test_wrong_shapes_of_several_inputs(shapes, message):
    with pytest.raises(vdla.Error, match=f"^{re.escape(message)}$"):
        vdla.compile(pairs(), "host", shapes=shapes)


def test_extents_and_shapes_agree():
    message = "net: shape of x must fit [n, 16, h, w], got [1, 16, 6, 6], as n is 2 in extents"
    with pytest.raises(OnnxError, match=f"^{re.escape(message)}$"):
        vdla.compile(pictures(), "host", extents={"n": 2}, shapes={"x": (1, 16, 6, 6)})


WRONG_AT_RUN_TIME = [
    ((1, 3, 6, 6), "model net: shape of x must fit [n, 16, h, w], got [1, 3, 6, 6], whose axis 1 is 3, not 16"),
    ((16, 6), "model net: shape of x must fit [n, 16, h, w], got [16, 6], which has 2 axes, not 4"),
]


@pytest.mark.parametrize("source", ["process", "file"])
@pytest.mark.parametrize(("shape", "message"), WRONG_AT_RUN_TIME)
def test_shapes_that_are_wrong_at_run_time(shape, message, source, tmp_path):
    model = vdla.compile(pictures(), "host")
    if source == "file":
        model.save(tmp_path / "net.vdla")
        model = vdla.load(tmp_path / "net.vdla")
    with pytest.raises(ExecutorError, match=f"^{re.escape(message)}$"):
        model(array(*shape))


def test_without_a_compiler_numpy_functions_run_and_a_warning_says_so_once(monkeypatch):
    monkeypatch.setattr("vdla.runtime.executor.specialised.find_spec", lambda name: None)
    made = vdla.compile(pictures(), "host", calibration=array(2, 16, 8, 8))
    board = Model(Artifact.from_bytes(made.artifact.to_bytes(), "net"))
    message = "model net: inputs should have the shapes x[1, 16, 8, 8], got x[1, 16, 6, 6], which run on NumPy "
    message += "functions without a compiler; vdla compile --shape x=1x16x6x6, where there is one, adds them"
    with pytest.warns(ModelWarning, match=f"^{re.escape(message)}$"):
        found = board(array(1, 16, 6, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.allclose(board(array(1, 16, 6, 6)), found)
        board(array(1, 16, 8, 8))
    assert np.allclose(found, made(array(1, 16, 6, 6)), atol=1e-4)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((1, 2, 1, 3, 1, 2), [1, 2, 3, 2]), ((1, 1, 1, 2, 3, 1), [1, 2, 3, 1])],
    ids=["in turn", "known, then closed"],
)
def test_the_least_recently_used_shapes_are_compiled_again(monkeypatch, counts, expected):
    monkeypatch.setattr("vdla.runtime.executor.specialised._MOST", 2)
    model, compiled = vdla.compile(vectors(), "host"), []
    specialise = model._specialised._specialise
    monkeypatch.setattr(
        model._specialised, "_specialise", lambda shapes: compiled.append(shapes["x"][0]) or specialise(shapes)
    )
    for count in counts:
        model(array(count))
    assert compiled == expected


def test_a_cpu_beside_a_cpu_is_refused():
    message = "compile: cpu must be left out for the target x86-64, a CPU, got 'aarch64'"
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        vdla.compile(pictures(), "x86-64", cpu="aarch64", shapes=(1, 16, 6, 6))


def branches() -> onnx.ModelProto:
    """An If whose bodies capture a value that a pass renames."""

    def branch(op, name):
        nodes = [helper.make_node("MatMul", ["h", "w"], [f"{name}m"]), helper.make_node(op, [f"{name}m"], [name])]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, FLOAT, None)])

    inputs = {"x": ["n", 8]}
    model = network(inputs, [("Relu", ["x"], "r", {}), ("Identity", ["r"], "h", {})], {"w": weights(8, 8)})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    bodies = {"then_branch": branch("Relu", "t"), "else_branch": branch("Neg", "e")}
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], **bodies))
    model.graph.output[0].name = "y"
    return model


@pytest.mark.parametrize("extents", [{"n": (4, 6)}, None])
def test_bodies_that_capture_renamed_values_are_compiled_for_each_extent(extents):
    model = vdla.compile(branches(), "host", extents=extents)
    session = onnxruntime.InferenceSession(branches().SerializeToString())
    for count in (4, 6):
        for condition in (True, False):
            inputs = {"x": array(count, 8), "c": np.array(condition)}
            result = model.run(inputs)
            assert np.allclose(result.outputs["y"], session.run(None, inputs)[0], atol=1e-5)
            (control,) = [run.step for run in result.steps if isinstance(run.step, ControlStep)]
            assert all(isinstance(step, KernelStep) for body in control.bodies.values() for step in body.steps)
