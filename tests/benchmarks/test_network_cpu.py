# SPDX-License-Identifier: Apache-2.0
"""Small networks in both precisions against ONNX Runtime; what becomes of the measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vdla.benchmarks import harness
from vdla.benchmarks import network_cpu as benchmark
from vdla.benchmarks.network_cpu import NetworkTimes, measure_float, measure_int8, network_of

pytest.importorskip("onnxruntime", reason="needs onnxruntime, with which results are compared")

SMALL = {
    "resnet18": {"image": 32, "width": 16, "blocks": (1, 1), "classes": 10},
    "mobilenet_v1": {"image": 32, "width": 0.5, "depth": 3, "classes": 10},
    "mobilenet_v2": {"image": 32, "width": 0.5, "depth": 3, "classes": 10},
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["resnet18", *(pytest.param(name, marks=pytest.mark.long) for name in SMALL if name != "resnet18")]
)
def test_both_precisions_agree_with_onnx_runtime(name: str) -> None:
    model, image = network_of(name, 0, **SMALL[name])
    real = measure_float(model, image, rounds=1)
    assert real["error"] < 1e-5
    quantised = measure_int8(model, image, rounds=1)
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
    monkeypatch.setattr(benchmark, "network_of", lambda *_: (None, None))
    figures = benchmark.run().figures
    assert figures["f32_geomean"] == 2.0
    assert figures["int8_geomean"] == 6.0
    assert figures["compile_seconds"] == 6.0


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "find_spec", lambda name: None if name == "onnx" else Path())
    with pytest.raises(harness.LibraryError) as error:
        benchmark.run()
    assert str(error.value) == 'bench network_cpu: onnx must be installed, got none (pip install "vdla[dev]")'
