# SPDX-License-Identifier: Apache-2.0
"""Scans of independent steps as operators on all steps, against ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.runtime.executor.plan import ControlStep
from vdla.runtime.network.compile_network import compile_network

F = TensorProto.FLOAT
DRAWN = np.random.default_rng(0)
S, ROWS, VECTOR = (np.float32(DRAWN.standard_normal(shape)) for shape in ((5, 6), (7, 6), (7,)))


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def body(step, *nodes, state="Identity", more=()):
    """The body of a Scan with the state s, a step x of this shape, and the row y."""
    kept = helper.make_node(state, ["s"] if state == "Identity" else ["s", "s"], ["t"])
    given = [helper.make_tensor_value_info("s", F, S.shape), helper.make_tensor_value_info("x", F, step)]
    made = [helper.make_tensor_value_info(name, F, None) for name in ("t", "y", *more)]
    axes = [numpy_helper.from_array(np.array([n]), f"axis{n}") for n in (0, 1, -1)]
    return helper.make_graph([kept, *nodes], "body", given, made, axes)


def model(steps, inner, outputs=("t", "rows"), **attributes):
    scan = helper.make_node("Scan", ["s0", "steps"], list(outputs), body=inner, num_scan_inputs=1, **attributes)
    inputs = {"s0": S, "steps": steps, "captured": ROWS[0]}
    graph = helper.make_graph(
        [scan],
        "g",
        [helper.make_tensor_value_info(name, F, x.shape) for name, x in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), inputs


DISTANCE = (node("Sub", "s x", "d"), node("ReduceSumSquare", "d axis1", "y", keepdims=0))
MAPPED = {
    "distances": (ROWS, body((6,), *DISTANCE), {}),
    "kept dimensions": (ROWS, body((6,), node("Mul", "x s", "d"), node("ReduceMax", "d axis0", "y")), {}),
    "the last axis": (ROWS, body((6,), node("Add", "s x", "d"), node("ReduceMean", "d axis-1", "y", keepdims=0)), {}),
    "numbers": (VECTOR, body((), node("Mul", "s x", "y")), {}),
    "a captured value": (ROWS, body((6,), node("Max", "x s captured", "d"), node("Exp", "d", "y")), {}),
    "of the state": (ROWS, body((6,), node("Tanh", "s", "a"), node("ReduceL2", "a axis0", "b", keepdims=0),
                                node("Sub", "b x", "y")), {}),
    "steps themselves": (ROWS, body((6,), node("Identity", "x", "y")), {}),
}  # fmt: skip
KEPT = {
    "a state that changes": (ROWS, body((6,), *DISTANCE, state="Add"), {}),
    "steps backwards": (ROWS, body((6,), *DISTANCE), {"scan_input_directions": [1]}),
    "another axis": (ROWS, body((7,), node("Neg", "x", "y")), {"scan_input_axes": [1]}),
    "rows as columns": (ROWS, body((6,), *DISTANCE), {"scan_output_axes": [1]}),
    "rows backwards": (ROWS, body((6,), *DISTANCE), {"scan_output_directions": [1]}),
    "a matrix product": (ROWS, body((6,), node("MatMul", "s x", "y")), {}),
    "a reduction of all": (ROWS, body((6,), node("ReduceSum", "x", "y")), {}),
    "the same row": (ROWS, body((6,), node("Neg", "s", "y")), {}),
}


def check(steps, inner, attributes):
    made, inputs = model(steps, inner, **attributes)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    names = {item.name for item in session.get_inputs()}
    expected = session.run(None, {name: x for name, x in inputs.items() if name in names})
    network = compile_network(made)
    results = network.run({name: inputs[name] for name in network.inputs}).outputs
    for got, right in zip(results.values(), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)
    return [step for step in network.artifact.plan.steps if isinstance(step, ControlStep)]


@pytest.mark.parametrize("name", MAPPED)
def test_independent_steps_run_at_once(name):
    assert not check(*MAPPED[name])


@pytest.mark.parametrize("name", KEPT)
def test_other_scans_run_step_by_step(name):
    assert check(*KEPT[name])


def test_no_steps_make_no_rows():
    made, inputs = model(ROWS[:0], body((6,), *DISTANCE))
    results = compile_network(made).run({name: inputs[name] for name in ("s0", "steps", "captured")}).outputs
    assert results["rows"].shape == (0, 5)
