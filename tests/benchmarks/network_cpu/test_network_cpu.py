"""Small networks: layers read from ONNX, kernels in blocks, quantisation, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.benchmarks.network_cpu import benchmark
from vdla.benchmarks.network_cpu.benchmark import NetworkTimes, measure_float, measure_int8, network_of
from vdla.benchmarks.network_cpu.buffers import ResultBuffers
from vdla.benchmarks.network_cpu.layers import ConvLayer, layers_of, needed_until
from vdla.benchmarks.network_cpu.model_of_layers import float_model
from vdla.benchmarks.networks.registry import NETWORKS

pytest.importorskip("onnxruntime", reason="needs onnxruntime, with which results are compared")

SMALL = {
    "resnet18": {"image": 32, "width": 16, "blocks": (1, 1), "classes": 10},
    "mobilenet_v1": {"image": 32, "width": 0.5, "depth": 3, "classes": 10},
    "mobilenet_v2": {"image": 32, "width": 0.5, "depth": 3, "classes": 10},
}


@pytest.mark.parametrize("name", SMALL)
def test_layers_compute_what_the_network_does(name: str) -> None:
    import onnxruntime

    network = NETWORKS[name]
    model = network.build(seed=3, **SMALL[name])
    inputs = network.inputs(model)
    layers = layers_of(model)
    (source,) = inputs
    made = float_model(layers, source, inputs[source].shape, [layers[-1].y])
    sessions = [
        onnxruntime.InferenceSession(m, providers=["CPUExecutionProvider"]) for m in (model.SerializeToString(), made)
    ]
    expected, got = (session.run(None, inputs)[0] for session in sessions)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert sum(isinstance(layer, ConvLayer) for layer in layers) == sum(n.op_type == "Conv" for n in model.graph.node)


@pytest.mark.parametrize("name", SMALL)
def test_both_precisions_agree_with_onnx_runtime(name: str) -> None:
    layers, source, image = network_of(name, 0, **SMALL[name])
    real = measure_float(layers, source, image, rounds=1)
    assert real["error"] < 1e-5
    quantised = measure_int8(layers, source, image, rounds=1)
    assert quantised["correlation"] > 0.99
    assert min(real["ratio"], quantised["ratio"]) > 0


def test_a_ratio_is_that_of_the_faster_library() -> None:
    assert NetworkTimes(2.0, {"onnxruntime": 5.0, "openvino": 3.0}).ratio == 1.5


def test_figures_are_geometric_means(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = iter([1.0, 4.0, 2.0, 9.0, 4.0, 6.0])

    def measured(*_: Any) -> dict[str, Any]:
        return {"ratio": next(ratios), "error": 1e-6, "correlation": 0.999, "compile_seconds": 1.0}

    monkeypatch.setattr(benchmark, "measure_float", measured)
    monkeypatch.setattr(benchmark, "measure_int8", measured)
    monkeypatch.setattr(benchmark, "network_of", lambda *_: ([], "x", None))
    figures = benchmark.run().figures
    assert figures["f32_geomean"] == 2.0
    assert figures["int8_geomean"] == 6.0
    assert figures["compile_seconds"] == 6.0


def test_buffers_are_reused_after_the_last_reader() -> None:
    layers, *_ = network_of("resnet18", 0, **SMALL["resnet18"])
    until = needed_until(layers)
    buffers, held = ResultBuffers(until), {}
    for number, layer in enumerate(layers):
        held[layer.y] = buffers.take(layer.y, (4, 3), "float32")
        assert held[layer.y].ctypes.data % 64 == 0
        for other, array in held.items():
            if other != layer.y and until.get(other, len(layers)) >= number:
                assert not np.shares_memory(array, held[layer.y])
        buffers.release(number)
    assert len({array.ctypes.data for array in held.values()}) < len(held)


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None if name == "onnx" else Path())
    with pytest.raises(benchmark.NetworkCpuError) as error:
        benchmark.run()
    assert str(error.value) == 'bench network_cpu: onnx must be installed, got none (pip install "vdla[dev]")'
