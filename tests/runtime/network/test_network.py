# SPDX-License-Identifier: Apache-2.0
"""Networks compiled for the CPU, against ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest
from helpers.graphs import small_graph

from vdla.compiler.graph import Node
from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.errors import ExecutorError, ModelError
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network
from vdla.support import parallel


@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "lstm_language_model"])
def test_small_networks_agree_with_onnx_runtime(name, tmp_path):
    network = NETWORKS[name]
    source = network.build(**network.small)
    compile_network(source).save(tmp_path / "m.vdla")
    inputs = network.inputs(source)
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    with Model.load(tmp_path / "m.vdla") as model:
        results = model.run(inputs).outputs
        again = model.run(inputs).outputs
    assert tuple(results) == tuple(output.name for output in session.get_outputs())
    for got, repeated, wanted in zip(results.values(), again.values(), session.run(None, inputs), strict=True):
        assert np.array_equal(got, repeated)
        assert np.allclose(got, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def reshapes():
    nodes = (
        Node("Relu", ("x",), ("a",)),
        Node("Reshape", ("a", "s"), ("b",)),
        Node("Neg", ("b",), ("c",)),
        Node("Reshape", ("c", "s"), ("y",)),
    )
    return small_graph(nodes, (2, 6), shapes={"b": (3, 4), "c": (3, 4), "y": (3, 4)}, s=np.array([3, 4]))


def test_a_reshape_is_no_step():
    model = compile_network(reshapes())
    assert [step.outputs for step in model.artifact.plan.steps] == [("a",), ("y",)]
    assert model.artifact.plan.values["b"].alias_of == "a"
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    assert np.array_equal(model(x), -np.maximum(x, 0).reshape(3, 4))


def test_calls_by_position_and_name():
    model = compile_network(reshapes())
    x = np.ones((2, 6), np.float32)
    assert np.array_equal(model(x), model(x=x))
    with pytest.raises(ModelError, match=r"^model g: x must be given once, got it twice$"):
        model(x, x=x)
    with pytest.raises(ModelError, match=r"^model g: inputs must be at most 1, got 2$"):
        model(x, x)
    with pytest.raises(ExecutorError, match=r"^model g: inputs must be x, got z$"):
        model(z=x)
    with pytest.raises(
        ExecutorError, match=r"^model g: x must be an array float32\[2, 6\], got float64\[2, 6\] \(x\.astype"
    ):
        model(x.astype(np.float64))
    with pytest.raises(ExecutorError, match=r"^model g: x must be an array float32\[2, 6\], got float32\[6\]$"):
        model(x[0])


def test_equal_kernels_are_compiled_once():
    w = np.eye(3, dtype=np.float32)
    nodes = [Node("MatMul", ("x", "w"), ("a",)), Node("MatMul", ("a", "v"), ("b",)), Node("MatMul", ("b", "w"), ("y",))]
    model = compile_network(small_graph(nodes, w=w, v=2 * w))
    assert len(model.artifact.plan.steps) == 3
    assert len(model.artifact.kernels) == 1
    assert len(model.artifact.constants) == 2


def test_kernels_do_not_depend_on_the_processes_that_compile_them(monkeypatch, tmp_path):
    """With a worker from the beginning, and with none."""
    nodes = [Node("MatMul", ("x", "w"), ("a",)), Node("MatMul", ("a", "v"), ("y",))]
    weights = {"w": np.ones((3, 4), np.float32), "v": np.ones((4, 5), np.float32)}
    source = small_graph(nodes, shapes={"a": (2, 4), "y": (2, 5)}, **weights)
    monkeypatch.setattr(parallel, "PATIENCE_S", 0.0)
    found = []
    for processors in (1, 2):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(processors)))
        monkeypatch.setattr(parallel, "processors", lambda count=processors: count)
        found.append(compile_network(source).artifact.kernels)
    assert len(found[0]) == 2
    assert found[0] == found[1]


def test_what_no_device_runs_is_one_error():
    nodes = [Node("Unknown", ("x",), ("a",), name="first"), Node("Other", ("a",), ("y",))]
    with pytest.raises(ModelError) as error:
        compile_network(small_graph(nodes))
    assert str(error.value) == (
        "model g: every node must run on some device, got\n"
        "  Unknown first: the operator must have a tensor expression, got Unknown\n"
        "  Other y: the operator must have a tensor expression, got Other"
    )


def test_the_public_names(tmp_path):
    import vdla

    network = NETWORKS["deep_q_network"]
    source = network.build(**network.small)
    model = vdla.compile(source, "host")
    assert isinstance(model, vdla.Model)
    model.save(tmp_path / "m.vdla")
    inputs = network.inputs(source)
    loaded = vdla.load(tmp_path / "m.vdla")
    assert np.array_equal(loaded(**inputs), model(**inputs))
    with pytest.raises(vdla.Error, match=r"^compile: weights must be left out for the model, got \('w',\)$"):
        vdla.compile(source, "host", weights=("w",))
    with pytest.raises(vdla.Error, match=r"^compile: method must be left out for all but models, got 'mse'$"):
        vdla.compile(vdla.Schedule, "host", method="mse")
    with pytest.raises(vdla.Error, match=r"^compile: threads must be left out without tuned, got 2$"):
        vdla.compile("model.onnx", "host", threads=2)
    with pytest.raises(vdla.Error, match=r"^compile: threads must be left out for all but models, got 2$"):
        vdla.compile(object(), "host", threads=2)


def test_calibration_quantises(tmp_path):
    network = NETWORKS["deep_q_network"]
    source = network.build(**network.small)
    data = [network.inputs(source, seed=seed) for seed in range(3)]
    model = compile_network(source, "pynq_z1", calibration=data, method="minmax")
    ops = [op.op for step in model.artifact.plan.steps for op in step.placement.operators]
    assert ops.count("vdla.QConv") == 3
    exact = compile_network(source)
    (got,), (wanted,) = (m.run(data[0]).outputs.values() for m in (model, exact))
    assert np.abs(got - wanted).max() < 0.1 * np.abs(wanted).max()


@pytest.mark.parametrize(("option", "value"), [("method", "minmax"), ("keep_float", ("a",))])
def test_options_of_calibration_need_data(option, value):
    with pytest.raises(ModelError) as error:
        compile_network(reshapes(), **{option: value})
    assert str(error.value) == f"compile: {option} must be left out without calibration, got {value!r}"
