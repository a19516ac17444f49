"""ONNX Runtime and OpenVINO on one thread, with arrays of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
RivalCall = tuple[Callable[[], object], Callable[[], Array]]  # runs the model; its result


def rivals(model: bytes, image: Array) -> Mapping[str, RivalCall]:
    """A call of the model by each library that is installed."""
    found = {"onnxruntime": _onnxruntime(model, image)}
    if find_spec("openvino") is not None:
        found["openvino"] = _openvino(model, image)
    return found


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
