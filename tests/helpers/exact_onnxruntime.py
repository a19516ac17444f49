# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime with exact sums of products of bytes on every processor."""

from __future__ import annotations

import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernelError


def exact_session(model: bytes | str) -> onnxruntime.InferenceSession:
    """A session of a model or its file.

    By default kernels for AVX2 without VNNI add pairs of products of an unsigned and a signed byte
    in int16, which saturates. The option makes both unsigned; it breaks a QGemm of signed bytes,
    whose sums are exact without it.
    """
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    providers = ["CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except NoKernelError:
        return onnxruntime.InferenceSession(model, providers=providers)
