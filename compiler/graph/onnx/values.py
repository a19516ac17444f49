# SPDX-License-Identifier: Apache-2.0
"""ONNX's types, tensors and attributes as those of graphs.

Arrays have the NumPy dtype of `onnx.numpy_helper`: exotic element types are those of ml_dtypes,
strings are objects.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, TypeProto, helper, numpy_helper

from vdla.compiler.graph.attributes import DTYPE_ATTRIBUTES
from vdla.compiler.graph.graph import Array, Attribute, Extent, OptionalType, SequenceType, TensorType, ValueType
from vdla.compiler.graph.onnx.errors import OnnxError

_MOST_DENSE = 1 << 28  # elements of a sparse tensor


def dtype_name(code: int) -> str:
    """The name of ONNX's element type `code`."""
    if code == TensorProto.STRING:
        return "str"
    try:
        return str(helper.tensor_dtype_to_np_dtype(code).name)
    except KeyError:
        raise OnnxError(f"element type must be one of ONNX's, got number {code}") from None


def dtype_code(name: str) -> int:
    """ONNX's number of an element type."""
    if name == "str":
        return int(TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(_numpy_dtype(name)))


def _numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def array_dtype(array: Array) -> str:
    """The name of an array's element type."""
    return "str" if array.dtype.kind in "OUS" else str(array.dtype.name)


def operator_name(domain: str, op: str) -> str:
    """An operator's name in graphs: the default domain is left out."""
    return op if domain in ("", "ai.onnx") else f"{domain}.{op}"


def type_of(proto: TypeProto) -> ValueType | None:
    """A value's type; None where the model leaves it open."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            tensor = proto.tensor_type
            if not tensor.elem_type:
                return None
            return TensorType(dtype_name(tensor.elem_type), _shape(tensor))
        case "sequence_type":
            element = type_of(proto.sequence_type.elem_type)
            return SequenceType(element) if element else None
        case "optional_type":
            element = type_of(proto.optional_type.elem_type)
            return OptionalType(element) if element else None
        case None:
            return None
        case kind:
            raise OnnxError(f"type of a value must be a tensor, sequence or optional, got {kind.removesuffix('_type')}")


def _shape(tensor: TypeProto.Tensor) -> tuple[Extent, ...] | None:
    if not tensor.HasField("shape"):
        return None
    return tuple(_extent(dim) for dim in tensor.shape.dim)


def _extent(dim: Any) -> Extent:  # noqa: ANN401  a nested class of protobuf
    match dim.WhichOneof("value"):
        case "dim_value":
            return int(dim.dim_value) if dim.dim_value >= 0 else None  # exporters write -1 for "any"
        case "dim_param":
            return str(dim.dim_param) or None
        case _:
            return None


def array_of(tensor: TensorProto) -> Array:
    """The contents of a tensor whose data are in the model.

    Raises:
        OnnxError: an unknown element type, or data that do not fill the tensor.
    """
    if any(extent < 0 for extent in tensor.dims):
        raise OnnxError(f"tensor {tensor.name}: extents must not be negative, got {list(tensor.dims)}")
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, OverflowError, UnicodeDecodeError, MemoryError) as error:
        kind = f"type {tensor.data_type}, extents {list(tensor.dims)}"
        raise OnnxError(f"tensor {tensor.name}: the data must fill it ({kind}), got: {error}") from error


def dense_of(sparse: onnx.SparseTensorProto) -> Array:
    """The contents of a sparse tensor, zeros included.

    Raises:
        OnnxError: as `array_of`; indices outside of the tensor; a tensor of absurd extents.
    """
    values, indices = array_of(sparse.values), array_of(sparse.indices)
    shape = tuple(sparse.dims)
    place = f"sparse tensor {sparse.values.name}"
    if any(extent < 0 for extent in shape) or math.prod(shape) > _MOST_DENSE:
        raise OnnxError(f"{place}: extents must be those of at most {_MOST_DENSE:,} elements, got {list(shape)}")
    dense = np.zeros(shape, values.dtype)
    try:
        if indices.ndim == 1:
            dense.reshape(-1)[indices] = values
        else:
            dense[tuple(indices.T)] = values
    except (IndexError, ValueError) as error:
        raise OnnxError(f"{place}: indices must lie within {list(shape)}, got: {error}") from error
    return dense


def attribute_of(attribute: AttributeProto) -> Attribute:
    """An attribute other than a graph."""
    match attribute.type:
        case AttributeProto.INT if attribute.name in DTYPE_ATTRIBUTES:
            return dtype_name(attribute.i) if attribute.i else ""
        case AttributeProto.INT:
            return int(attribute.i)
        case AttributeProto.FLOAT:
            return float(attribute.f)
        case AttributeProto.STRING:
            return _text(attribute.s)
        case AttributeProto.TENSOR:
            return array_of(attribute.t)
        case AttributeProto.SPARSE_TENSOR:
            return dense_of(attribute.sparse_tensor)
        case AttributeProto.INTS:
            return tuple(map(int, attribute.ints))
        case AttributeProto.FLOATS:
            return tuple(map(float, attribute.floats))
        case AttributeProto.STRINGS:
            return tuple(map(_text, attribute.strings))
        case AttributeProto.TENSORS:
            return tuple(map(array_of, attribute.tensors))
        case AttributeProto.TYPE_PROTO:
            return type_of(attribute.tp)
        case AttributeProto.TYPE_PROTOS:
            return tuple(map(type_of, attribute.type_protos))
        case number:
            raise OnnxError(f"attribute {attribute.name} must be of one of ONNX's types, got number {number}")


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content
