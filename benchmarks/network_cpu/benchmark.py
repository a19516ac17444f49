"""Whole networks on one thread of this CPU, in float32 and int8, against other libraries.

ResNet-18 and MobileNet v1 and v2 at batch 1, weights constant on all sides. Our side is a call of
the compiled model, copies of the image and of the result included. The libraries are ONNX Runtime
and, where it is installed, OpenVINO, with arrays that were bound before. All sides run in turns in
one process; a ratio is the time of the faster library over ours. `float32_error` is the greatest
difference of the results over the greatest result, `int8_correlation` the least correlation with
ONNX Runtime's result.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.benchmarks.cpu.paired_timing import geomean
from vdla.benchmarks.harness import BenchmarkResult, Row, installed_version, versions
from vdla.benchmarks.network_cpu.compiled_network import CompiledNetwork
from vdla.benchmarks.network_cpu.quantised_model import quantised_model
from vdla.benchmarks.network_cpu.rivals import Array, exact_result, rivals
from vdla.compiler.target import host
from vdla.networks.registry import NETWORKS
from vdla.runtime.native import set_threads
from vdla.support.errors import Error
from vdla.support.processor import cpu_model
from vdla.support.progress import Progress, silent

if TYPE_CHECKING:
    from onnx import ModelProto

NAMES = ("resnet18", "mobilenet_v1", "mobilenet_v2")
ROUNDS = 15
_ROUND_S = 0.02  # the least duration of a round
_LIBRARIES = ("onnx", "onnxruntime")


class NetworkCpuError(Error, RuntimeError):
    """A library to compare with is missing."""


@dataclass(frozen=True, slots=True)
class NetworkTimes:
    """Median milliseconds of one run on each side."""

    ours: float
    theirs: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """The time of the faster library over ours."""
        return min(self.theirs.values()) / self.ours


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Measure every network in both precisions."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        text = f'{", ".join(missing)} must be installed, got none (pip install "vdla[dev]")'
        raise NetworkCpuError(f"bench network_cpu: {text}")
    set_threads(1)
    rows: list[Row] = []
    try:
        for name in NAMES:
            model, image = network_of(name, seed)
            for precision, measure in (("float32", measure_float), ("int8", measure_int8)):
                progress(f"{name} {precision}", len(rows), 2 * len(NAMES))
                rows.append({"network": name, "precision": precision, **measure(model, image)})
    finally:
        set_threads(0)
    progress("done", len(rows), len(rows))
    return BenchmarkResult("network_cpu", _figures(rows), rows, _receipt(seed))


def network_of(name: str, seed: int, **parameters: Any) -> tuple[ModelProto, Array]:  # noqa: ANN401
    """The float model of a network and a random image."""
    network = NETWORKS[name]
    model = network.build(seed=seed, **parameters)
    (image,) = network.inputs(model, seed=seed).values()
    return model, image


def measure_float(model: ModelProto, image: Array, rounds: int = ROUNDS) -> Row:
    """One network in float32."""
    ours, row, expected = _measure(model.SerializeToString(), image, rounds)
    return {**row, "error": float(np.abs(ours - expected).max() / np.abs(expected).max())}


def measure_int8(model: ModelProto, image: Array, rounds: int = ROUNDS) -> Row:
    """One quantised network."""
    ours, row, expected = _measure(quantised_model(model, image), image, rounds)
    return {**row, "correlation": float(np.corrcoef(ours.ravel(), expected.ravel())[0, 1])}


def _measure(model: bytes, image: Array, rounds: int) -> tuple[Array, dict[str, Any], Array]:
    """Our result, the row of a network, and the result of ONNX Runtime."""
    ours, theirs = CompiledNetwork(model, image), rivals(model, image)
    times = _times_in_turns(ours, {name: call for name, (call, _) in theirs.items()}, rounds)
    milliseconds = {f"{name}_ms": round(value, 3) for name, value in times.theirs.items()}
    row = {"ours_ms": round(times.ours, 3), **milliseconds, "ratio": round(times.ratio, 4)}
    return ours(), {**row, "compile_seconds": round(ours.compile_seconds, 2)}, exact_result(model, image)


def _times_in_turns(
    ours: Callable[[], object], theirs: Mapping[str, Callable[[], object]], rounds: int
) -> NetworkTimes:
    """Median times of alternating rounds, after a warm-up."""
    sides = {"ours": ours, **theirs}
    repeats = {name: _repeats(work) for name, work in sides.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            times[name].append(_milliseconds(work, repeats[name]))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return NetworkTimes(medians.pop("ours"), medians)


def _repeats(work: Callable[[], object]) -> int:
    """The runs of a round."""
    work()
    return max(1, int(1e3 * _ROUND_S / _milliseconds(work, 1)))


def _milliseconds(work: Callable[[], object], repeats: int) -> float:
    """The mean CPU time of a run, after one that brings its data into the caches."""
    work()
    start = time.process_time()
    for _ in range(repeats):
        work()
    return 1e3 * (time.process_time() - start) / repeats


def _figures(rows: list[Row]) -> dict[str, float]:
    """The geometric means of both precisions, and the worst agreement."""
    ratios = {what: [row["ratio"] for row in rows if row["precision"] == what] for what in ("float32", "int8")}
    return {
        "f32_geomean": round(geomean(ratios["float32"]), 4),
        "int8_geomean": round(geomean(ratios["int8"]), 4),
        "float32_error": max(row["error"] for row in rows if "error" in row),
        "int8_correlation": min(row["correlation"] for row in rows if "correlation" in row),
        "compile_seconds": round(sum(row["compile_seconds"] for row in rows), 2),
    }


def _receipt(seed: int) -> dict[str, Any]:
    """Everything the figures depend on except the speed of the machine."""
    machine = host()
    libraries = ("llvmlite", *_LIBRARIES, "openvino")
    return {
        "versions": versions() | {name: installed_version(name) or "absent" for name in libraries},
        "cpu": cpu_model(),
        "target": {"cpu": machine.cpu, "vector_bytes": machine.vector_bytes},
        "threads": 1,
        "seed": seed,
        "command": f"vdla bench network_cpu --seed {seed} --json -",
    }
