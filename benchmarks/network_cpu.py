# SPDX-License-Identifier: Apache-2.0
"""Whole networks on one thread of this CPU, in float32 and int8, against other libraries.

ResNet-18 and MobileNet v1 and v2 at batch 1, weights constant on all sides. Our side is a call of
the compiled model, copies of the image and of the result included. The libraries are ONNX Runtime
and, where it is installed, OpenVINO, with arrays that were bound before. All sides run in turns in
one process; a ratio is the time of the faster library over ours. `float32_error` is the greatest
difference of the results over the greatest result, `int8_correlation` the least correlation with
ONNX Runtime's result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.benchmarks.cpu.benchmark import receipt
from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, geomean, require_libraries, times_in_turns, total
from vdla.compiler.graph.onnx.export import export_model
from vdla.networks.registry import NETWORKS
from vdla.runtime.native import set_threads
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.quantise import quantise
from vdla.support.arrays import Array
from vdla.support.progress import Progress, numbered, silent

if TYPE_CHECKING:
    from onnx import ModelProto


NAMES = ("resnet18", "mobilenet_v1", "mobilenet_v2")
ROUNDS = 15
_ROUND_S = 0.02  # the least duration of a round
_LIBRARIES = ("onnx", "onnxruntime")


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
    require_libraries("network_cpu", _LIBRARIES)
    step = numbered(progress, 2 * len(NAMES))
    set_threads(1)
    rows: list[Row] = []
    try:
        for name in NAMES:
            model, image = network_of(name, seed)
            for precision, measure in (("float32", measure_float), ("int8", measure_int8)):
                step(f"{name} {precision}")
                rows.append({"network": name, "precision": precision, **measure(model, image)})
    finally:
        set_threads(0)
    step("done")
    return BenchmarkResult("network_cpu", _figures(rows), rows, receipt("network_cpu", seed, [*_LIBRARIES, "openvino"]))


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


def _measure(model: bytes, image: Array, rounds: int) -> tuple[Array, Row, Array]:
    """Our result, the row of a network, and the result of ONNX Runtime."""
    ours, theirs = CompiledNetwork(model, image), rivals(model, image)
    seconds = times_in_turns([ours, *(call for call, _ in theirs.values())], rounds, _ROUND_S, warm=True)
    our_ms, *their_ms = (1e3 * second for second in seconds)
    times = NetworkTimes(our_ms, dict(zip(theirs, their_ms, strict=True)))
    milliseconds = {f"{name}_ms": round(value, 3) for name, value in times.theirs.items()}
    row = {"ours_ms": round(times.ours, 3), **milliseconds, "ratio": round(times.ratio, 4)}
    return ours(), {**row, "compile_seconds": round(ours.compile_seconds, 2)}, exact_result(model, image)


def _figures(rows: list[Row]) -> Figures:
    """The geometric means of both precisions, and the worst agreement."""
    ratios = {what: [row["ratio"] for row in rows if row["precision"] == what] for what in ("float32", "int8")}
    return {
        "f32_geomean": round(geomean(ratios["float32"]), 4),
        "int8_geomean": round(geomean(ratios["int8"]), 4),
        "float32_error": max(row["error"] for row in rows if "error" in row),
        "int8_correlation": min(row["correlation"] for row in rows if "correlation" in row),
        "compile_seconds": round(total(rows, "compile_seconds"), 2),
    }


# --- our side -------------------------------------------------------------------------------------
# A model that the toolkit compiled for this CPU, called on one image.


class CompiledNetwork:
    """A model of one input and one output; `compile_seconds` are those of the clock."""

    def __init__(self, model: bytes, image: Array) -> None:
        start = time.perf_counter()
        self._model = compile_network(model)
        self.compile_seconds = time.perf_counter() - start
        self._image = image

    def __call__(self) -> Array:
        """The output for the image."""
        return np.asarray(self._model(self._image))


# --- quantised models -----------------------------------------------------------------------------
# Quantised models to compare: those of the toolkit, with activations of uint8.
#
# The kernels of ONNX Runtime for x86 are made for uint8 activations; int8 ones take it twice as
# long. Ours compute the same from either.


def quantised_model(model: ModelProto, image: Array) -> bytes:
    """The model with QuantizeLinear and DequantizeLinear nodes, ranges by one run on `image`."""
    made = export_model(quantise(model, calibration=[image], method="minmax").graph)
    _make_unsigned(made)
    return bytes(made.SerializeToString())


def _make_unsigned(model: ModelProto) -> None:
    """Give activations the type uint8: zero points of QuantizeLinear become 128 more."""
    from onnx import numpy_helper

    names = {node.input[2] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            zero_point = numpy_helper.to_array(tensor).astype(np.int64) + 128
            tensor.CopyFrom(numpy_helper.from_array(zero_point.astype(np.uint8), tensor.name))


# --- the libraries --------------------------------------------------------------------------------
# ONNX Runtime and OpenVINO on one thread, with arrays of the caller.


RivalCall = tuple[Callable[[], object], Callable[[], Array]]  # runs the model; its result


def rivals(model: bytes, image: Array) -> Mapping[str, RivalCall]:
    """A call of the model by each library that is installed."""
    result = {"onnxruntime": _onnxruntime(model, image)}
    if find_spec("openvino") is not None:
        result["openvino"] = _openvino(model, image)
    return result


def exact_result(model: bytes, image: Array) -> Array:
    """The result of ONNX Runtime with exact sums of int8 products.

    By default its kernels for AVX2 without VNNI add pairs of products in int16, which saturates.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: image})[0])


def _onnxruntime(model: bytes, image: Array) -> RivalCall:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    source, target = session.get_inputs()[0], session.get_outputs()[0]
    result = np.empty(target.shape, np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input(source.name, onnxruntime.OrtValue.ortvalue_from_numpy(image))
    binding.bind_output(target.name, "cpu", 0, np.float32, list(result.shape), result.ctypes.data)
    return lambda: session.run_with_iobinding(binding), lambda: result


def _openvino(model: bytes, image: Array) -> RivalCall:
    import openvino

    core = openvino.Core()
    options = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(core.read_model(model), "CPU", options).create_infer_request()
    request.set_input_tensor(openvino.Tensor(image, shared_memory=True))
    return request.infer, lambda: np.asarray(request.get_output_tensor().data)
