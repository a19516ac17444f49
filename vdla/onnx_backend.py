# SPDX-License-Identifier: Apache-2.0
"""ONNX's backend interface as `vdla.onnx_backend`; needs the package `onnx`."""

from vdla.runtime.network.onnx_backend import OnnxBackend, PreparedModel, prepare, run_model, run_node, supports_device

__all__ = ["OnnxBackend", "PreparedModel", "prepare", "run_model", "run_node", "supports_device"]
