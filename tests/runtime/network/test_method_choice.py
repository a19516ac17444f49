# SPDX-License-Identifier: Apache-2.0
"""The choice of the method of calibration: what is measured, and which network is kept."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.networks.digits import digits
from vdla.networks.digits_images import training_digits
from vdla.runtime.network import quantise as quantise_module
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.method_choice import MARGIN_DB, gain_db, ratio_db
from vdla.runtime.network.quantise import quantise
from vdla.runtime.network.quantised_network import QuantisedNetwork

RANDOM = np.random.default_rng(0)
FEATURES = 64
WEIGHT = RANDOM.standard_normal((FEATURES, 16)).astype(np.float32)


def dense(*tail: onnx.NodeProto, kind: int = TensorProto.FLOAT, rank: int = 2) -> onnx.ModelProto:
    """A matrix product of x with a constant, and nodes from its result y to z."""
    weight = numpy_helper.from_array(WEIGHT, "w")
    output = "z" if tail else "y"
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"]), *tail],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", FEATURES])],
        [helper.make_tensor_value_info(output, kind, [None] * rank)],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def normal(batch: int, count: int = 4) -> list[np.ndarray]:
    return [RANDOM.standard_normal((batch, FEATURES)).astype(np.float32) for _ in range(count)]


def with_an_outlier(batch: int) -> list[np.ndarray]:
    """Batches, the last of which has a value far from all others."""
    data = normal(batch)
    data[-1][0, 0] = 60.0
    return data


def naive_db(made: QuantisedNetwork, samples: list[np.ndarray]) -> float:
    """The ratio of the outputs of the QDQ graph, node by node."""
    exact, values = (
        np.concatenate([next(iter(Evaluator(graph, prefer="numpy").run({"x": x}).values())).ravel() for x in samples])
        for graph in (made.float_graph, made.graph)
    )
    return float(10 * np.log10((exact.astype(float) ** 2).sum() / ((values - exact.astype(float)) ** 2).sum()))


def test_ranges_of_few_normal_samples_are_kept_whole():
    data = normal(8)
    made, plain = (quantise(dense(), calibration=data, method=method) for method in ("auto", "minmax"))
    assert made.method == "minmax"
    assert made.parameters.activations == plain.parameters.activations


def test_outliers_that_cost_every_other_value_are_clipped():
    data = with_an_outlier(2048)
    made = quantise(dense(), calibration=data)
    assert made.method == "mse"
    clipped, plain = (quantise(dense(), calibration=data, method=method) for method in ("mse", "minmax"))
    assert made.parameters.activations == clipped.parameters.activations
    assert naive_db(clipped, data) > naive_db(plain, data) + MARGIN_DB


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_gain_is_that_of_a_naive_measurement(batch):
    data = normal(batch)
    model = dense()
    plain, other = (quantise(model, calibration=data, method=method) for method in ("minmax", "percentile"))
    exact = [Evaluator(plain.float_graph).run({"x": x}) for x in data]
    gain = gain_db(plain.graph, other.graph, [{"x": x} for x in data], exact)
    assert gain == pytest.approx(naive_db(other, data) - naive_db(plain, data), abs=0.05)


def test_networks_are_compared_on_the_first_batches(monkeypatch):
    seen = []

    def recorded(before, after, samples, exact):
        seen.append((len(samples), len(exact)))
        return np.inf

    monkeypatch.setattr(quantise_module, "gain_db", recorded)
    assert quantise(dense(), calibration=with_an_outlier(2048)).method == "mse"
    assert quantise(dense(), calibration=normal(8), method="minmax").method == "minmax"
    quantise(digits(batch=10), calibration=training_digits().images[:200])
    assert seen == [(4, 4), (8, 8)]


def test_weights_have_the_least_squared_error_with_either_method():
    data = normal(8)
    bits = {"weight_bits": {quantise(dense(), calibration=data).layers[0]: 3}}
    for options in ({}, bits):
        model = dense()
        made, clipped = (quantise(model, calibration=data, method=method, **options) for method in ("auto", "mse"))
        assert made.method == "minmax"
        for layer in made.layers:
            ours, theirs = made.parameters.weights[layer], clipped.parameters.weights[layer]
            np.testing.assert_array_equal(ours.scale, theirs.scale)
            np.testing.assert_array_equal(ours.values, theirs.values)


def test_integers_are_compared_by_equality():
    node = helper.make_node("ArgMax", ["y"], ["z"], axis=1, keepdims=0)
    assert quantise(dense(node, kind=TensorProto.INT64, rank=1), calibration=normal(8)).method in ("minmax", "mse")
    exact = [{"z": np.arange(10)}]
    assert ratio_db("z", exact, exact) == 60
    assert ratio_db("z", exact, [{"z": np.where(np.arange(10) == 3, 0, np.arange(10))}]) == pytest.approx(10)


def test_values_that_cannot_be_compared():
    infinite = [{"y": np.array([np.inf, np.nan, 1, 2], np.float32)}]
    assert ratio_db("y", infinite, infinite) == 60
    assert ratio_db("y", infinite, [{"y": np.zeros(3, np.float32)}]) == 0
    assert ratio_db("y", [{"y": np.zeros(2, np.float32)}], [{"y": np.ones(2, np.float32)}]) == 0
    assert ratio_db("y", [{"y": np.zeros((0, 4), np.float32)}], [{"y": np.zeros((0, 4), np.float32)}]) == 60
    assert ratio_db("y", [{"y": [np.zeros(2)]}], [{"y": [np.ones(2)]}]) == 60
