# SPDX-License-Identifier: Apache-2.0
"""Figures 4 and 14 to 18: fused kernels, networks, layers and narrow numbers on this CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy.random import default_rng

from vdla.benchmarks import fusion
from vdla.benchmarks.cpu import float32, int8
from vdla.benchmarks.cpu.bitserial import SIZES, measure_size
from vdla.benchmarks.cpu.layers import layers, operands_of
from vdla.benchmarks.cpu.measurement import Measurement
from vdla.benchmarks.harness import geomean, require_libraries
from vdla.benchmarks.network_cpu import measure_float, measure_int8, network_of
from vdla.benchmarks.paper.figure import PaperClaim, PaperMeasurement, bars
from vdla.compiler.operators.workloads import Workload
from vdla.networks.registry import NETWORKS
from vdla.runtime.native import set_threads
from vdla.support.progress import Progress, steps

SERVER = ("resnet18", "mobilenet_v1", "lstm_language_model", "deep_q_network", "dcgan_generator")
PHONE = ("resnet18", "mobilenet_v1", "deep_q_network")
_LIBRARY = "ONNX Runtime"


def fused_kernels(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """Operators in one kernel, against a kernel for each."""
    del small  # the workloads of the paper are small
    rows = [dict(row) for row in fusion.run(progress, seed).rows]
    claims = (PaperClaim("speedup of fused operators", "1.2 to 2", geomean(row["speedup"] for row in rows), 1.2),)
    sides = {"fused_us": "fused", "separate_us": "separate"}
    return PaperMeasurement(rows, claims, bars("fused and separate kernels, one thread", "us", rows, "workload", sides))


def server_networks(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """Networks in float32 against ONNX Runtime."""
    return _networks(progress, seed, small, SERVER, "1.6 to 3.8")


def phone_networks(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """Networks with 8-bit integers against ONNX Runtime."""
    return _networks(progress, seed, small, PHONE, "> 1", quantised=True)


def _networks(
    progress: Progress, seed: int, small: bool, names: Sequence[str], paper: str, *, quantised: bool = False
) -> PaperMeasurement:
    require_libraries("paper", ["onnx", "onnxruntime"])
    measure, rows = measure_int8 if quantised else measure_float, []
    set_threads(1)
    try:
        for name in steps(progress, names[-2:] if small else names):
            model, data = network_of(name, seed, **(NETWORKS[name].small if small else {}))
            rows.append({"network": name, **measure(model, data)})
    finally:
        set_threads(0)
    least, mean = min(row["ratio"] for row in rows), geomean(row["ratio"] for row in rows)
    claims = (
        PaperClaim(f"speedup over {_LIBRARY}, geometric mean", paper, mean, 1.0),
        PaperClaim("speedup of the slowest network", "> 1", least, 1.0),
    )
    kind = "int8" if quantised else "float32"
    sides = {"ours_ms": "VDLA", "onnxruntime_ms": _LIBRARY}
    picture = bars(f"networks on this CPU, {kind}, one thread", "ms", rows, "network", sides)
    return PaperMeasurement(rows, claims, picture, {"threads": 1})


def float_layers(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """The convolutions of ResNet-18 and MobileNet in float32 against ONNX Runtime."""
    return _layers(progress, small, "float32", lambda layer: float32.measure_layer(layer, operands_of(layer, seed)))


def integer_layers(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """The same with 8-bit integers."""
    return _layers(progress, small, "int8", lambda layer: int8.measure_layer(layer, int8.operands_of(layer, seed)))


def _layers(progress: Progress, small: bool, kind: str, measure: Callable[[Workload], Measurement]) -> PaperMeasurement:
    require_libraries("paper", ["onnx", "onnxruntime"])
    set_threads(1)
    try:
        chosen = layers()
        rows = [measure(layer).row for layer in steps(progress, chosen[-2:] if small else chosen)]
    finally:
        set_threads(0)
    ratios = [row["ratio"] for row in rows]
    claims = (
        PaperClaim(f"speedup over {_LIBRARY}, geometric mean", "> 1", geomean(ratios), 1.0),
        PaperClaim("share of layers that are faster", "most", sum(ratio > 1 for ratio in ratios) / len(ratios), 0.5),
    )
    sides = {"ours_us": "VDLA", "theirs_us": _LIBRARY}
    picture = bars(f"layers on this CPU, {kind}, one thread", "us", rows, "name", sides)
    return PaperMeasurement(rows, claims, picture, {"threads": 1})


def narrow_numbers(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """Products of 2-bit numbers by bits, against those of 8-bit numbers."""
    sizes = SIZES[:2] if small else SIZES
    set_threads(1)
    try:
        rows = [measure_size(size, default_rng([seed, size])).row for size in steps(progress, sizes)]
    finally:
        set_threads(0)
    mean = geomean(row["ratio"] for row in rows)
    claims = (PaperClaim("speedup of narrow numbers over the baseline", "> 1", mean, 1.0),)
    sides = {"ours_us": "2 bits", "theirs_us": "8 bits"}
    picture = bars("matrix-vector products on this CPU, one thread", "us", rows, "name", sides)
    return PaperMeasurement(rows, claims, picture, {"threads": 1})
