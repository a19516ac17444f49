# SPDX-License-Identifier: Apache-2.0
"""Constants of compiled models: what is folded is read as it comes back from a file, and decides
shapes before kernels are chosen.
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from helpers.graphs import small_graph
from helpers.shape_arithmetic import ShapeArithmetic
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.graph import Node, TensorType
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import NumpyStep
from vdla.runtime.network.compile_network import compile_network

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5)).astype(np.float32)
TARGETS = ("host", "opencl")


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, **constants):
    made = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def expected(source: onnx.ModelProto, *arrays):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(source.SerializeToString(), options)
    return session.run(None, dict(zip((each.name for each in source.graph.input), arrays, strict=True)))


def check(source, target, tmp_path, *arrays):
    """The compiled model, whose results in this process and from a file are ONNX Runtime's."""
    made = compile_network(source, target)
    made.save(tmp_path / "m.vdla")
    for each in (made, Model.load(tmp_path / "m.vdla")):
        with each:
            results = each.run(dict(zip(each.inputs, arrays, strict=True))).outputs.values()
            for found, wanted in zip(results, expected(source, *arrays), strict=True):
                assert found.dtype == wanted.dtype
                assert np.allclose(found, wanted, rtol=1e-5, atol=1e-5)
    return made


# --- memory order ---------------------------------------------------------------------------------

TURNED = RNG.normal(size=(5, 4)).astype(np.float32)
REVERSED = {"start": [-1], "end": [-9], "axes": [1], "steps": [-1]}
FOLDED = {
    "transposed": (helper.make_node("Transpose", ["c"], ["t"]), {"c": TURNED}),
    "broadcast": (helper.make_node("Expand", ["c", "s"], ["t"]), {"c": TURNED[:1, :1], "s": [4, 5]}),
    "reversed": (helper.make_node("Slice", ["c", *REVERSED], ["t"]), {"c": TURNED.T.copy(), **REVERSED}),
    "scalar": (helper.make_node("Squeeze", ["c"], ["t"]), {"c": TURNED[:1, :1]}),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FOLDED)
def test_constants_of_any_memory_order(kind, target, tmp_path):
    folded, constants = FOLDED[kind]
    nodes = [folded, helper.make_node("Sub", ["x", "t"], ["y"])]
    check(model(nodes, [info("x", (4, 5))], [info("y", None), info("t", None)], **constants), target, tmp_path, X)


@pytest.mark.parametrize("choice", [True, False])
def test_constants_of_any_memory_order_in_branches(choice, tmp_path):
    branches = {}
    for kind, key in (("transposed", "then_branch"), ("broadcast", "else_branch")):
        turned, constants = FOLDED[kind]
        made = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
        nodes = [turned, helper.make_node("Sub", ["x", "t"], ["o"])]
        branches[key] = helper.make_graph(nodes, kind, [], [info("o", None)], made)
    inputs = [info("x", (4, 5)), info("choice", (), TensorProto.BOOL)]
    source = model([helper.make_node("If", ["choice"], ["y"], **branches)], inputs, [info("y", None)])
    check(source, "host", tmp_path, X, np.array(choice))


def test_constants_of_another_byte_order(tmp_path):
    graph = small_graph([Node("Sub", ("x", "c"), ("y",))], c=np.arange(6, dtype=np.float32).reshape(2, 3))
    swapped = graph.replace(constants={"c": graph.constants["c"].astype(">f4")})
    x = np.ones((2, 3), np.float32)
    made = compile_network(swapped)
    made.save(tmp_path / "m.vdla")
    for each in (made, Model.load(tmp_path / "m.vdla")):
        assert np.array_equal(each(x), x - graph.constants["c"])


@pytest.mark.parametrize("x", [X.T.copy().T, X[::-1, ::-1], np.broadcast_to(X[:1], (4, 5))])
@pytest.mark.parametrize("target", TARGETS)
def test_inputs_of_any_memory_order(x, target, tmp_path):
    relu = helper.make_node("Relu", ["x"], ["y"])
    check(model([relu], [info("x", (4, 5))], [info("y", None)]), target, tmp_path, x)


# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_padding_that_is_computed_makes_a_kernel(target, tmp_path):
    nodes = [
        helper.make_node("Cast", ["c"], ["pads"], to=TensorProto.INT64),
        helper.make_node("Pad", ["x", "pads"], ["y"], mode="reflect"),
    ]
    source = model(nodes, [info("x", (4, 5))], [info("y", None)], c=np.array([1, 2, 0, 1], np.float32))
    made = check(source, target, tmp_path, X)
    assert not any(isinstance(step, NumpyStep) for step in made.artifact.plan.steps)


@pytest.mark.parametrize(("seed", "in_branch"), [(0, False), (1, False), (1000, True)])
def test_shapes_from_arithmetic_make_kernels(seed, in_branch, tmp_path):
    source = ShapeArithmetic(seed).model(steps=6, in_branch=in_branch)
    choice = [np.array(True)] if in_branch else []
    made = check(source, "host", tmp_path, RNG.normal(size=(2, 3, 4)).astype(np.float32), *choice)
    plans = made.artifact.plan.bodies if in_branch else (made.artifact.plan,)
    reasons = [op.reason for plan in plans for step in plan.steps for op in step.placement.operators]
    assert not any("must be known" in reason for reason in reasons), f"seed {seed}"


@pytest.mark.parametrize("extent", [4, "n"])
def test_views_outlive_the_value_that_they_show(extent, tmp_path):
    """Slices of x, of sizes known only at run time, are read when x has gone."""
    nodes = [
        helper.make_node("Neg", ["x"], ["m"]),
        helper.make_node("Slice", ["m", "start", "end", "axis"], ["p"]),
        helper.make_node("Slice", ["m", "end", "last", "axis"], ["q"]),
        helper.make_node("Reshape", ["p", "six"], ["r"]),
        helper.make_node("Reshape", ["q", "six"], ["s"]),
        helper.make_node("Concat", ["r", "s"], ["y"], axis=0),
    ]
    inputs = [info("x", (3, extent)), info("end", (1,), TensorProto.INT64)]
    source = model(nodes, inputs, [info("y", None)], start=[0], last=[4], axis=[1], six=[3, 2])
    check(source, "host", tmp_path, X[:3, :4].copy(), np.array([2]))


@pytest.mark.parametrize("target", TARGETS)
def test_slices_to_a_bound_that_is_computed(target, tmp_path):
    nodes = [
        helper.make_node("Mul", ["two", "one"], ["a"]),
        helper.make_node("Slice", ["x", "zero", "a", "two"], ["p"]),
        helper.make_node("Slice", ["x", "a", "four", "two"], ["q"]),
        helper.make_node("Reshape", ["p", "six"], ["r"]),
        helper.make_node("Reshape", ["q", "six"], ["s"]),
        helper.make_node("Concat", ["r", "s"], ["y"], axis=0),
    ]
    constants = {"two": [2], "one": [1], "zero": [0], "four": [4], "six": [3, 2]}
    source = model(nodes, [info("x", (1, 3, 4))], [info("y", None)], **constants)
    made = check(source, target, tmp_path, RNG.normal(size=(1, 3, 4)).astype(np.float32))
    assert not any(isinstance(step, NumpyStep) for step in made.artifact.plan.steps)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_state_of_a_loop_outlives_the_value_that_it_began_with(count, tmp_path):
    """Without an iteration the result of the loop is its first state, which has gone by then."""
    truth = helper.make_tensor_value_info("go", TensorProto.BOOL, ())
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["state"], ["next"])],
        "body",
        [info("i", (), TensorProto.INT64), truth, info("state", (4, 5))],
        [info("on", (), TensorProto.BOOL), info("next", (4, 5))],
    )
    nodes = [
        helper.make_node("Exp", ["x"], ["m"]),
        helper.make_node("Loop", ["n", "", "m"], ["last"], body=body),
        helper.make_node("Abs", ["x"], ["k"]),
        helper.make_node("Sub", ["last", "k"], ["y"]),
    ]
    source = model(nodes, [info("x", (4, 5)), info("n", (), TensorProto.INT64)], [info("y", None)])
    check(source, "host", tmp_path, X, np.array(count))


def test_an_extent_of_types_is_refined_only():
    """What a model declares and no constant decides stays."""
    graph = small_graph([Node("Mul", ("c", "c"), ("n",)), Node("Expand", ("x", "n"), ("y",))], c=np.array([1, 1]))
    kinds = {**graph.types, "n": TensorType("int64", (2,)), "y": TensorType("float32", ("rows", None))}
    made = compile_network(graph.replace(types=kinds))
    assert made.artifact.plan.values["y"].shape == (2, 3)
