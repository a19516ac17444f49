# SPDX-License-Identifier: Apache-2.0
"""The quantiser of the tests: the form of its graphs, and how close to float they stay."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from helpers.integer_evaluator import evaluate
from helpers.quantiser import to_qdq
from helpers.quantiser.graphs import attribute, constants, fold_batch_norm, ranges, session
from helpers.quantiser.qdq import OPERATORS
from onnx import numpy_helper

from vdla.networks.registry import NETWORKS

Array = np.ndarray[Any, Any]


@cache
def case(name: str) -> tuple[onnx.ModelProto, list[dict[str, Array]]]:
    model = NETWORKS[name].build(**NETWORKS[name].small)
    return model, [NETWORKS[name].inputs(model, seed=seed) for seed in (1, 2)]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_quantised_network_is_close_to_the_float_one(name: str) -> None:
    model, data = case(name)
    [expected] = session(model).run(None, data[0])
    [found] = evaluate(to_qdq(model, data), data[0]).outputs.values()
    noise = ((found - expected) ** 2).mean()
    assert 10 * np.log10((expected**2).mean() / noise) > 10  # dB


@pytest.mark.parametrize("name", NETWORKS)
def test_operands_of_quantised_operators_are_dequantised(name: str) -> None:
    model, data = case(name)
    qdq = to_qdq(model, data)
    makers = {result: node.op_type for node in qdq.graph.node for result in node.output}
    for node in qdq.graph.node:
        if node.op_type in OPERATORS:
            assert {makers[name] for name in node.input} == {"DequantizeLinear"}, node.name


def test_batch_normalisation_is_folded() -> None:
    model, data = case("resnet18")
    folded = fold_batch_norm(model)
    assert "BatchNormalization" not in {node.op_type for node in folded.graph.node}
    assert "bn1.weight" not in constants(folded)
    before, after = (session(version).run(None, data[0])[0] for version in (model, folded))
    assert np.allclose(before, after, rtol=1e-3, atol=1e-3)


def test_bias_has_the_scale_of_the_sums() -> None:
    model, data = case("deep_q_network")
    qdq = to_qdq(model, data)
    arrays = constants(qdq)
    for node in qdq.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            x, w, b = (name.removesuffix("_DequantizeLinear_Output") for name in node.input)
            assert np.array_equal(arrays[f"{b}_scale"], arrays[f"{x}_scale"] * arrays[f"{w}_scale"])
            assert arrays[f"{b}_quantized"].dtype == np.int32
            assert np.abs(arrays[f"{w}_quantized"]).max() == 127
            assert not arrays[f"{w}_zero_point"].any()


def test_a_scale_for_each_channel_or_one() -> None:
    model, data = case("dcgan_generator")
    shapes = [
        {
            array.shape
            for name, array in constants(to_qdq(model, data, per_channel=each)).items()
            if "weight_scale" in name
        }
        for each in (True, False)
    ]
    assert shapes == [{(32,), (16,), (8,), (3,)}, {()}]
    dequantise = [
        node for node in to_qdq(model, data).graph.node if node.name == "deconv0.folded.weight_DequantizeLinear"
    ]
    assert [attribute(node, "axis", None) for node in dequantise] == [1]


@pytest.mark.parametrize("uint8", [False, True], ids=["int8", "uint8"])
def test_scales_are_powers_of_two_and_zero_points_even(uint8: bool) -> None:
    model, data = case("mobilenet_v2")
    arrays = constants(to_qdq(model, data, power_of_two=True, uint8=uint8))
    scales = np.concatenate([array.reshape(-1) for name, array in arrays.items() if name.endswith("_scale")])
    assert (np.frexp(scales)[0] == 0.5).all()
    zero_points = [array for name, array in arrays.items() if name.endswith("_zero_point") and array.ndim == 0]
    assert {array.dtype.name for array in zero_points} == {"uint8" if uint8 else "int8"}
    assert not any(array.item() % 2 for array in zero_points)


def test_ranges_cover_all_calibration_data() -> None:
    model, data = case("resnet18")
    found = ranges(model, data)
    assert found["image"] == (min(x["image"].min() for x in data), max(x["image"].max() for x in data))
    assert found["stem.relu"][0] == 0
    assert set(found) == {"image", *(name for node in model.graph.node for name in node.output)}


def test_weights_of_seven_bits() -> None:
    model, data = case("deep_q_network")
    qdq = to_qdq(model, data, weight_bits=7)
    weights = [numpy_helper.to_array(tensor) for tensor in qdq.graph.initializer if "weight_quantized" in tensor.name]
    assert {np.abs(weight).max() for weight in weights} == {63}
