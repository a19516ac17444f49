# SPDX-License-Identifier: Apache-2.0
"""The layers of a network, from its model or from the cache of an earlier run.

A layer is a convolution or a product, without duplicates; its weights, quantised or not, do not
matter. A model is imported only if its layers are not cached, since that takes longer than
everything else when results are cached.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.graph import TensorType
from vdla.compiler.graph.passes import run_passes
from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition
from vdla.runtime.network.evaluate_nodes import PREPARATION
from vdla.runtime.network.import_network import import_network
from vdla.runtime.studies.layers import EvaluatedLayer, EvaluateError, OperandTypes
from vdla.support.atomic import write_text
from vdla.support.cache import user_cache
from vdla.support.toolkit_digest import toolkit_digest

if TYPE_CHECKING:
    import onnx

    from vdla.runtime.network.import_network import ModelSource


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """A definition with its options, as JSON can hold it; a network has it `count` times."""

    name: str
    define: str
    options: dict[str, Any]
    count: int


_CONVOLUTIONS = ("Conv", "ConvInteger", "QLinearConv", "vdla.QConv")
_PRODUCTS = ("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul", "vdla.QDense", "vdla.QMatMul")
_TRANSPOSED = ("ConvTranspose", "vdla.QConvTranspose")
_WEIGHT_OF = {"QLinearConv": 3, "QLinearMatMul": 3}  # the input that has the weights; 1 for all others

_NetworkLayer = tuple[str, str, dict[str, Any]]  # name in tables, definition, its options


def records_of(model: ModelSource) -> list[LayerRecord]:
    """The layers of a model, by kernel and channels; OnnxError, UnsupportedError if it is not a
    valid model.
    """
    graph = run_passes(import_network(model), PREPARATION, None)
    every = [_layer(graph, node) for node in _nodes(graph)]
    known = [item for item in every if item is not None]
    distinct = [item for at, item in enumerate(known) if item not in known[:at]]
    return [LayerRecord(*item, known.count(item)) for item in distinct]


def record_name(graph: Graph, node: Node) -> str | None:
    """The name of the layer that a node of a float network forms, or None."""
    layer = _layer(graph, node) if node in _nodes(graph) else None
    return None if layer is None else layer[0]


def _nodes(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.op in (*_CONVOLUTIONS, *_PRODUCTS, *_TRANSPOSED))


def _layer(graph: Graph, node: Node) -> _NetworkLayer | None:
    """The definition of a node; None where an extent is unknown."""
    weight = node.inputs[_WEIGHT_OF.get(node.op, 1)]
    x, w, y = (_extents(graph, name) for name in (node.inputs[0], weight, node.outputs[0]))
    if not x or not w or not y:
        return None
    return _product(node, x, w, y) if node.op in _PRODUCTS else _convolution(node, x, w)


def _extents(graph: Graph, name: str) -> tuple[int, ...]:
    kind = graph.types.get(name)
    return kind.extents if isinstance(kind, TensorType) and kind.static else ()


def _convolution(node: Node, x: tuple[int, ...], w: tuple[int, ...]) -> _NetworkLayer:
    groups, axes = int(node.attributes.get("group", 1)), len(x) - 2
    options: dict[str, Any] = {"batch": x[0], "size": x[2:], "kernel": w[2:], "raw": False}
    for option, attribute in (("strides", "strides"), ("pads", "pads"), ("dilations", "dilations")):
        if attribute in node.attributes:
            options[option] = tuple(int(value) for value in node.attributes[attribute])
    taps = "x".join(map(str, w[2:]))
    size = "x".join(map(str, x[2:]))
    step = "".join(f"/{value}" for value in sorted(set(options.get("strides", (1,) * axes))) if value != 1)
    if node.op in _TRANSPOSED:
        if "output_padding" in node.attributes:
            options["output_padding"] = tuple(int(value) for value in node.attributes["output_padding"])
        name = f"transposed {taps}{step} {x[1]}>{w[1]} {size}"
        return name, "transposed_convolution", {**options, "in_channels": x[1], "out_channels": w[1]}
    if groups == x[1] == w[0]:
        return f"depthwise {taps}{step} {x[1]} {size}", "depthwise_convolution", {**options, "channels": x[1]}
    name = f"conv {taps}{step} {x[1]}>{w[0]} {size}"
    return name, "convolution", {**options, "in_channels": x[1], "out_channels": w[0], "groups": groups}


def _product(node: Node, x: tuple[int, ...], w: tuple[int, ...], y: Sequence[int]) -> _NetworkLayer:
    """A product of a matrix with weights, or of several pairs of matrices."""
    depth, columns = (x[0] if node.attributes.get("transA", 0) else x[-1]), y[-1]
    if len(w) <= 2:
        rows = prod(y[:-1])
        options = {"rows": rows, "in_features": depth, "out_features": columns, "raw": False}
        return f"dense {depth}>{columns} {rows}", "dense", options
    batch, rows = prod(y[:-2]), y[-2]
    name = f"product {batch} x {rows}x{depth}x{columns}"
    return name, "batched_product", {"batch": batch, "rows": rows, "depth": depth, "columns": columns}


_DEFINITIONS = ("convolution", "depthwise_convolution", "transposed_convolution", "dense", "batched_product")


def layers_of(model: ModelSource) -> list[EvaluatedLayer]:
    """The convolutions and products of a model, each distinct one once, in the machine's types.

    Raises:
        OnnxError, UnsupportedError: the model is not valid. EvaluateError: it has no layer.
    """
    return _layers(records_of(model))


def kept_layers(content: bytes, model: Callable[[], onnx.ModelProto | Path]) -> list[EvaluatedLayer]:
    """As `layers_of`; `content` tells models apart, and `model` is called if its layers are not
    kept.
    """
    digest = hashlib.sha256(toolkit_digest().encode() + content).hexdigest()[:24]
    path = user_cache("evaluate") / f"layers-{digest}.json"
    try:
        records = [LayerRecord(**load) for load in json.loads(path.read_text(encoding="utf-8"))]
        return _layers(records)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none is kept, or it is damaged

    records = records_of(model())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps([asdict(record) for record in records]))
    return _layers(records)


def _layers(records: Sequence[LayerRecord]) -> list[EvaluatedLayer]:
    if not records:
        raise EvaluateError("evaluate: the model must have a convolution or product of known extents, got none")
    return [EvaluatedLayer(record.name, partial(_defined, record), record.count) for record in records]


def _defined(record: LayerRecord, operands: OperandTypes) -> Definition:
    if record.define not in _DEFINITIONS:
        raise EvaluateError(f"evaluate: definition must be one of {', '.join(_DEFINITIONS)}, got {record.define}")
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in record.options.items()}
    result: Definition = getattr(definitions, record.define)(**options, dtype=operands.inp, weight_dtype=operands.wgt)
    return result
