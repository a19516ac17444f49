# SPDX-License-Identifier: Apache-2.0
"""A model as a graph, by what it is: ONNX or TensorFlow Lite, a file, its content, or in memory; a
graph; a quantised network.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.graph import Graph
from vdla.compiler.graph.onnx import import_model, specialise
from vdla.compiler.graph.tflite import import_tflite
from vdla.runtime.network.quantised_network import QuantisedNetwork
from vdla.runtime.network.targets import ShapeSet
from vdla.support.file_kind import TFLITE_MODEL, file_kind

if TYPE_CHECKING:
    import onnx

    ModelSource = onnx.ModelProto | Graph | QuantisedNetwork | bytes | str | Path

_FIRST_BYTES = 16


def import_network(source: ModelSource, given: ShapeSet | None = None) -> Graph:
    """The graph of a model, for the shapes of inputs that are given.

    Raises:
        OnnxError, TfliteError, UnsupportedError: the model is not valid, or has nodes that cannot
            run here.
    """
    extents, shapes = (given.extents, given.shapes) if given is not None else ({}, {})
    if isinstance(source, bytes | str | Path) and _is_tflite(source):
        source = import_tflite(source)
    if isinstance(source, QuantisedNetwork):
        source = source.graph
    if isinstance(source, Graph):
        return specialise(source, extents, shapes) if extents or shapes else source
    return import_model(source, extents=extents, shapes=shapes)


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
