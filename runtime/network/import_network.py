# SPDX-License-Identifier: Apache-2.0
"""A model as a graph, by what it is: ONNX or TensorFlow Lite, a file, its content, or in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.graph import Graph
from vdla.compiler.graph.onnx import import_model, specialise
from vdla.compiler.graph.tflite import import_tflite
from vdla.support.file_kind import TFLITE_MODEL, file_kind

if TYPE_CHECKING:
    import onnx

_FIRST_BYTES = 16


def import_network(
    source: onnx.ModelProto | Graph | bytes | str | Path, extents: Mapping[str, int] | None = None
) -> Graph:
    """The graph of a model, with numbers in place of symbols of its inputs.

    Raises:
        OnnxError, TfliteError, UnsupportedError: the model is not valid, or has nodes that cannot
            run here.
    """
    if isinstance(source, Graph):
        return specialise(source, extents) if extents else source
    if isinstance(source, bytes | str | Path) and _is_tflite(source):
        graph = import_tflite(source)
        return specialise(graph, extents) if extents else graph
    return import_model(source, extents=extents)


def _is_tflite(source: bytes | str | Path) -> bool:
    """Whether a model is one of TensorFlow Lite, by its first bytes, else by its name."""
    if isinstance(source, bytes):
        return file_kind("", source) is TFLITE_MODEL
    try:
        with Path(source).open("rb") as file:
            start = file.read(_FIRST_BYTES)
    except OSError:
        start = b""
    return file_kind(source, start or None) is TFLITE_MODEL
