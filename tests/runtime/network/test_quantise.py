# SPDX-License-Identifier: Apache-2.0
"""Quantisation of models on data: accuracy, options, bad input, what is saved, the report."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.exact_onnxruntime import exact_session
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.graph import Graph
from vdla.compiler.graph.passes import fuse_qdq
from vdla.compiler.graph.quantise import METHODS, QuantiseError
from vdla.networks.digits import digits
from vdla.networks.digits_images import held_out_digits, training_digits
from vdla.networks.registry import NETWORKS
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.quantise import quantise
from vdla.runtime.network.quantised_network import QuantisedNetwork
from vdla.runtime.studies.network import layers_of

BATCH = 100
IMAGES = training_digits().images[: 5 * BATCH]


@pytest.fixture(scope="module")
def network() -> QuantisedNetwork:
    return quantise(digits(batch=BATCH), calibration=IMAGES)


def logits(graph: Graph) -> np.ndarray:
    images = held_out_digits().images
    evaluator = Evaluator(graph, prefer="numpy")
    return np.concatenate([evaluator.run({"image": part})["logits"] for part in np.split(images, 6)])


@pytest.mark.parametrize("method", METHODS)
def test_accuracy_of_the_digits(method):
    made = quantise(digits(batch=BATCH), calibration=IMAGES, method=method)
    held = held_out_digits()
    exact, integer = held.top1(logits(made.float_graph)), held.top1(logits(fuse_qdq(made.graph)))
    assert exact > 0.98
    assert abs(exact - integer) <= 0.005


def test_calibration_in_every_form_is_the_same(network):
    for calibration in (
        {"image": IMAGES},
        [(part,) for part in np.split(IMAGES, 5)],
        iter(np.split(IMAGES, 5)),
    ):
        made = quantise(digits(batch=BATCH), calibration=calibration)
        assert made.parameters.activations == network.parameters.activations


def test_saved_model_runs_elsewhere(network, tmp_path):
    network.save(tmp_path / "digits.onnx")
    session = exact_session(str(tmp_path / "digits.onnx"))
    images = held_out_digits().images[:BATCH]
    [found] = session.run(None, {"image": images})
    exact = Evaluator(fuse_qdq(network.graph), prefer="numpy").run({"image": images})["logits"]
    assert (found != exact).mean() < 0.02


@pytest.mark.parametrize("target", ["host", "tiny"])
def test_a_quantised_network_compiles_as_the_saved_one(network, tmp_path, target):
    network.save(tmp_path / "digits.onnx")
    images = held_out_digits().images[:BATCH]
    models = [vdla.compile(what, target) for what in (network, network.graph, tmp_path / "digits.onnx")]
    logits, *others = (model(images) for model in models)
    assert all(np.array_equal(logits, other) for other in others)
    assert all(model.artifact.programs == models[0].artifact.programs for model in models)


def test_a_quantised_network_is_shown_in_a_line(network):
    assert repr(network) == f"<QuantisedNetwork digits: {len(network.layers)} layers by {network.method}>"


def test_layers_of_a_quantised_network(network, tmp_path):
    network.save(tmp_path / "digits.onnx")
    names = [[layer.name for layer in layers_of(what)] for what in (network, tmp_path / "digits.onnx")]
    assert names[0] and names[0] == names[1]


def test_report(network):
    report = network.report()
    assert [layer.name for layer in report.layers] == ["conv1", "conv2", "conv3", "conv4", "add", "average", "logits"]
    assert all(layer.snr_db > 25 and layer.alone_db > 35 and layer.saturated < 0.01 for layer in report.layers)
    assert report.outputs["logits"] > 30
    assert report.costliest[0].alone_db == min(layer.alone_db for layer in report.layers)
    lines = str(report).splitlines()
    assert lines[0] == "layer    SNR dB  saturated  alone dB"
    assert len(lines) == 1 + 7 + 1
    assert all(layer.alone_db is None for layer in network.report(sensitivity=False).layers)


def test_report_of_a_layer_kept_float_is_better():
    worst = quantise(digits(batch=BATCH), calibration=IMAGES).report().costliest[0].name
    kept = quantise(digits(batch=BATCH), calibration=IMAGES, keep_float=[worst])
    assert worst not in kept.layers
    assert kept.report(sensitivity=False).outputs["logits"] > 30


@pytest.mark.parametrize("name", ["vit_small", "lstm_language_model", "dcgan_generator"])
def test_other_networks(name):
    network = NETWORKS[name]
    model = network.build(batch=2, **network.small)
    made = quantise(model, calibration=[network.inputs(model, 2, seed) for seed in range(4)])
    inputs = network.inputs(model, 2, 50)
    exact, found = (Evaluator(graph, prefer="numpy").run(inputs) for graph in (made.float_graph, made.graph))
    for output, value in exact.items():
        noise = ((found[output].astype(float) - value) ** 2).sum()
        assert 10 * np.log10((value.astype(float) ** 2).sum() / noise) > 15


def refused(message: str, **options: object) -> None:
    given = {"calibration": IMAGES} | options
    with pytest.raises(QuantiseError, match=f"^{re.escape(message)}$"):
        quantise(digits(batch=BATCH), **given)


def test_bad_options_and_data():
    refused(
        "quantise: method must be one of auto, minmax, percentile, mse, entropy, got 'mes' (did you mean mse?)",
        method="mes",
    )
    refused("quantise: calibration must have at least one batch, got none", calibration=[])
    refused("quantise: calibration must be an array, arrays by name, or an iterable of these, got int", calibration=3)
    refused(
        "quantise: every batch of calibration must have the inputs image, got picture", calibration={"picture": IMAGES}
    )
    bad = IMAGES.copy()
    bad[3, 0, 0, 0] = np.nan
    refused("calibration: image must be finite, got nan in 1 of 6400", calibration=bad)


def test_weights_that_are_not_finite():
    model = digits(batch=BATCH)
    [weight] = [tensor for tensor in model.graph.initializer if tensor.name == "logits.weight"]
    values = numpy_helper.to_array(weight).copy()
    values[2, 3] = -np.inf
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    message = f"quantise: weight logits.weight must be finite, got -inf in 1 of {values.size}"
    with pytest.raises(QuantiseError, match=f"^{re.escape(message)}$"):
        quantise(model, calibration=IMAGES)


def test_symbolic_batch():
    made = quantise(digits(batch="N"), calibration=iter(np.split(IMAGES, 5)))
    assert len(made.samples) == 5
    integer = fuse_qdq(made.graph)
    assert not {node.op for node in integer.nodes} & {"Conv", "Gemm", "Add"}
    images = held_out_digits().images[:7]
    exact, found = (Evaluator(g, prefer="numpy").run({"image": images}) for g in (made.float_graph, integer))
    assert (exact["logits"].argmax(axis=1) == found["logits"].argmax(axis=1)).all()


def test_nothing_to_quantise():
    from vdla.compiler.graph import Node, TensorType

    kind = TensorType("float32", (2,))
    graph = Graph("copy", ("x",), ("y",), (Node("Relu", ("x",), ("y",)),), {}, {"x": kind, "y": kind})
    with pytest.raises(QuantiseError, match=r"^quantise: copy must have layers to quantise, got none$"):
        quantise(graph, calibration=np.zeros(2, np.float32))


@pytest.mark.parametrize("fused", [False, True])
def test_a_quantised_network_is_not_quantised_again(network, fused):
    graph = fuse_qdq(network.graph) if fused else network.graph
    message = "quantise: .* must be a float model, got a quantised one; compile it as it is"
    with pytest.raises(QuantiseError, match=f"^{message}$"):
        quantise(graph, calibration=IMAGES)


@pytest.mark.parametrize("outputs", [("", "part"), ("part", "")], ids=["first", "last"])
def test_an_absent_result_of_a_split_stays_absent(outputs):
    """The movement of DequantizeLinear behind a Split with fewer results than parts."""
    generator = np.random.default_rng(2)
    weights = {name: generator.normal(size=(8, 4, 1, 1)).astype(np.float32) for name in ("w", "v")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Split", ["c", "sizes"], outputs, axis=1),
        helper.make_node("Conv", ["part", "v"], ["y"]),
    ]
    constants = [numpy_helper.from_array(x, name) for name, x in {**weights, "sizes": np.array([4, 4])}.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 3, 3])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    x = generator.normal(size=(1, 4, 3, 3)).astype(np.float32)
    quantised = quantise(model, calibration=x, method="minmax").graph
    with compile_network(model) as exact, compile_network(quantised) as made:
        wanted, y = exact.run({"x": x}).outputs["y"], made.run({"x": x}).outputs["y"]
    assert np.abs(y - wanted).max() < 0.03 * np.abs(wanted).max()
