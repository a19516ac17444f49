# SPDX-License-Identifier: Apache-2.0
"""Integer graphs against ONNX Runtime, on models of our scales and on those that it quantises."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from helpers.qdq_graphs import every_value
from helpers.quantiser import to_qdq
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quant_pre_process, quantize_static

from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import explain_fusion, fuse_qdq
from vdla.networks.registry import NETWORKS


@pytest.mark.parametrize("uint8", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "deep_q_network"])
def test_networks_of_power_of_two_scales_are_equal_to_the_bit(name, uint8):
    network = NETWORKS[name]
    model = network.build(**network.small)
    data = [network.inputs(model, seed=seed) for seed in range(2)]
    quantised = to_qdq(model, data, power_of_two=True, uint8=uint8, weight_bits=7)
    inputs = network.inputs(model, seed=3)
    graph = fuse_qdq(import_model(quantised))
    values = every_value(graph, inputs)
    [wanted] = onnxruntime.InferenceSession(quantised.SerializeToString()).run(None, inputs)
    np.testing.assert_array_equal(values[graph.outputs[0]], wanted)


class Reader(CalibrationDataReader):
    def __init__(self, data: list[dict[str, np.ndarray]]) -> None:
        self.data = iter(data)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.data, None)


@pytest.mark.parametrize(
    ("activations", "per_channel"), [(QuantType.QUInt8, False), (QuantType.QInt8, True)], ids=["uint8", "int8"]
)
def test_models_quantised_by_the_runtime(activations, per_channel, tmp_path: Path):
    """All operators become integer ones; results differ by one rounding in few values."""
    network = NETWORKS["resnet18"]
    model = network.build(**network.small)
    plain = onnx.version_converter.convert_version(model, 21) if model.opset_import[0].version > 21 else model
    onnx.save(plain, tmp_path / "float.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quant_pre_process(tmp_path / "float.onnx", tmp_path / "folded.onnx", skip_symbolic_shape=True)
        quantize_static(
            tmp_path / "folded.onnx",
            tmp_path / "int8.onnx",
            Reader([network.inputs(model, seed=seed) for seed in range(2)]),
            quant_format=QuantFormat.QDQ,
            activation_type=activations,
            weight_type=QuantType.QInt8,
            per_channel=per_channel,
            reduce_range=True,  # so that no processor saturates sums of pairs of products
        )
    found = explain_fusion(import_model(onnx.load(tmp_path / "int8.onnx")))
    assert not found.reasons
    assert not {node.op for node in found.graph.nodes} & {"Conv", "Gemm", "Add", "MaxPool"}
    inputs = network.inputs(model, seed=3)
    values = every_value(found.graph, inputs)
    [wanted] = onnxruntime.InferenceSession(str(tmp_path / "int8.onnx")).run(None, inputs)
    steps = np.abs(values[found.graph.outputs[0]] - wanted) / np.abs(wanted).max()
    assert steps.max() < 0.1
