# SPDX-License-Identifier: Apache-2.0
"""Parameters and multiply-accumulates of a model, from its constants and inferred shapes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from vdla.support.errors import Error

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Shapes = dict[str, tuple[int, ...]]
_STATISTICS = {"BatchNormalization": 2}  # the last operands, which training does not optimise


class CountError(Error, ValueError):
    """A model whose shapes are not all known."""


def parameters(model: ModelProto) -> int:
    """The number of trained values: constants in float or int8, without running statistics."""
    from onnx import TensorProto

    statistics = {
        name
        for node in model.graph.node
        if node.op_type in _STATISTICS
        for name in node.input[-_STATISTICS[node.op_type] :]
    }
    trained = (
        tensor.dims  # scalars are bounds and factors
        for tensor in model.graph.initializer
        if tensor.data_type in (TensorProto.FLOAT, TensorProto.INT8) and tensor.dims and tensor.name not in statistics
    )
    return sum(prod(dims) for dims in trained)


def macs(model: ModelProto) -> int:
    """The multiply-accumulates of convolutions, matrix products and LSTMs, padding included.

    CountError where a shape is symbolic.
    """
    shapes = inferred_shapes(model)
    return sum(_macs_of(node, shapes) for node in model.graph.node)


def inferred_shapes(model: ModelProto) -> Shapes:
    """The shape of every tensor of the graph."""
    from onnx import shape_inference

    graph = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    shapes: Shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        extents = info.type.tensor_type.shape.dim
        unknown = next((extent.dim_param or "?" for extent in extents if not extent.HasField("dim_value")), None)
        if unknown is not None:
            raise CountError(f"{model.graph.name}: shape of {info.name} must be static, got {unknown}")
        shapes[info.name] = tuple(extent.dim_value for extent in extents)
    return shapes


def _macs_of(node: NodeProto, shapes: Shapes) -> int:
    result = shapes[node.output[0]] if node.output[0] else ()
    match node.op_type:
        case "Conv":
            return prod(result) * prod(shapes[node.input[1]][1:])
        case "ConvTranspose":
            return prod(shapes[node.input[0]]) * prod(shapes[node.input[1]][1:])
        case "Gemm":
            inputs = shapes[node.input[0]][0 if _attribute(node, "transA", 0) else 1]
            return prod(result) * inputs
        case "MatMul":
            return prod(result) * shapes[node.input[0]][-1]
        case "LSTM":
            steps, batch, _ = shapes[node.input[0]]
            return steps * batch * (prod(shapes[node.input[1]]) + prod(shapes[node.input[2]]))
        case _:
            return 0


def _attribute(node: NodeProto, name: str, default: Any) -> Any:  # noqa: ANN401  as ONNX has them
    from onnx import helper

    return next((helper.get_attribute_value(entry) for entry in node.attribute if entry.name == name), default)
