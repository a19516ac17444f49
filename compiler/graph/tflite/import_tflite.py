# SPDX-License-Identifier: Apache-2.0
"""The importer: a file of TensorFlow Lite as a graph."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.check import check_graph
from vdla.compiler.graph.graph import Graph, TensorType
from vdla.compiler.graph.integer.affine import NotIntegerError
from vdla.compiler.graph.onnx.errors import UnsupportedError
from vdla.compiler.graph.tflite.builder import GraphBuilder
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import NotImportedError, TfliteError
from vdla.compiler.graph.tflite.model import ELEMENT_TYPES, TfliteModel, TfliteOperator
from vdla.support.file_kind import TFLITE_MODEL, unreadable

_PACKAGE = "tflite"


def import_tflite(source: bytes | str | Path, *, name: str | None = None) -> Graph:
    """The graph of a TensorFlow Lite model, given as a file or as its content.

    Inputs and results keep their names, types and shapes, images have their channels last there.
    Operators of int8 become the toolkit's integer operators, which rescale as the reference kernels
    of TensorFlow Lite do; operators of float32 become those of ONNX.

    Raises:
        TfliteError: the model is damaged or contradicts itself, or `tflite` is not installed.
        UnsupportedError: it has operators that cannot run here; the error lists all of them.
    """
    content, place = _content(source)
    if not content[4:].startswith(TFLITE_MODEL.magic):
        raise TfliteError(f"{place}: the file must be a TensorFlow Lite model, got {_kind(content)}")
    if find_spec(_PACKAGE) is None:
        raise TfliteError(f"{place}: the package tflite must be installed, got none; do: pip install 'vdla[tflite]'")
    from vdla.compiler.graph.tflite.read import read_model

    model = read_model(content, place)
    builder = GraphBuilder(model, place)
    for index in dict.fromkeys(model.inputs):
        tensor, label = model.tensors[index], builder.names[index]
        if tensor.dtype not in ELEMENT_TYPES:
            raise TfliteError(f"{place}: input {label} must be of numbers, got {tensor.dtype}")
        builder.types[label] = TensorType(tensor.dtype, tensor.shape)
        builder.plain[index] = label
    _convert(model, builder, place)
    builder.label = ""
    label = name or (Path(source).stem if isinstance(source, str | Path) else "model")
    return check_graph(builder.graph(label), "import of")


def _content(source: bytes | str | Path) -> tuple[bytes, str]:
    """The bytes of a model and its name in messages."""
    if isinstance(source, bytes):
        return source, "model"
    try:
        return Path(source).read_bytes(), str(source)
    except OSError as error:
        raise TfliteError(unreadable(source, error)) from None


def _kind(content: bytes) -> str:
    return f"{len(content)} bytes of another format" if content else "an empty file"


def _convert(model: TfliteModel, builder: GraphBuilder, place: str) -> None:
    """Adds the nodes of every operator; those that are refused are listed together."""
    from vdla.compiler.graph.tflite.table import CONVERTERS, remedy

    reasons: dict[str, str] = {}
    refused: set[int] = set()
    for operator in model.operators:
        if operator.name not in CONVERTERS:
            reasons[_label(builder, operator)] = remedy(operator.name)
            refused |= set(operator.outputs)
            continue
        if not refused.isdisjoint(operator.inputs):
            refused |= set(operator.outputs)
            continue
        builder.label = _result(builder, operator)
        try:
            CONVERTERS[operator.name](OperatorContext(builder, operator))
        except (NotImportedError, NotIntegerError) as error:
            reasons[_label(builder, operator)] = f"the operator must {error}"
            refused |= set(operator.outputs)
        except TfliteError:
            raise
        except GraphError as error:
            reasons[_label(builder, operator)] = str(error)
            refused |= set(operator.outputs)
    if reasons:
        raise UnsupportedError(place, reasons)


def _label(builder: GraphBuilder, operator: TfliteOperator) -> str:
    """The operator in messages: its name and its first result."""
    return f"{operator.name} {_result(builder, operator)}".rstrip()


def _result(builder: GraphBuilder, operator: TfliteOperator) -> str:
    present: Iterable[int] = (index for index in operator.outputs if index >= 0)
    return builder.names.get(next(iter(present), -1), "")
