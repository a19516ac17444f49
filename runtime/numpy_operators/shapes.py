"""Shapes as values, and tensors made from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.dtypes import is_short_float, numpy_dtype
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def _shape(attributes: Attributes, x: Array) -> tuple[Array]:
    return (np.array(x.shape[attributes.get("start", 0) : attributes.get("end")], np.int64),)


def _size(attributes: Attributes, x: Array) -> tuple[Array]:
    return (np.array(x.size, np.int64),)


def _constant_of_shape(attributes: Attributes, shape: Array) -> tuple[Array]:
    value = attributes.get("value", np.zeros(1, np.float32))
    return (np.full(tuple(map(int, shape)), value.reshape(-1)[0], value.dtype),)


def _range(attributes: Attributes, start: Array, limit: Array, delta: Array) -> tuple[Array]:
    """Short floats are counted in float32."""
    if is_short_float(start.dtype):
        first, last, step = (float(value.astype(np.float32)) for value in (start, limit, delta))
        count = max(int(np.ceil((last - first) / step)), 0)
        return ((first + np.arange(count, dtype=np.float32) * step).astype(start.dtype),)
    first, last, step = (value.reshape(-1)[0] for value in (start, limit, delta))
    count = max(int(np.ceil((float(last) - float(first)) / float(step))), 0)
    return ((first + np.arange(count).astype(start.dtype) * step).astype(start.dtype),)


def _eye_like(attributes: Attributes, x: Array) -> tuple[Array]:
    dtype = numpy_dtype(attributes["dtype"]) if attributes.get("dtype") else x.dtype
    return (np.eye(x.shape[0], x.shape[1], k=attributes.get("k", 0)).astype(dtype),)


def _reshape(attributes: Attributes, x: Array, shape: Array) -> tuple[Array]:
    wanted = [int(extent) for extent in shape]
    if not attributes.get("allowzero", 0):
        wanted = [x.shape[d] if extent == 0 else extent for d, extent in enumerate(wanted)]
    elif -1 in wanted and 0 in wanted:
        raise ValueError(f"shape must not have both -1 and 0 with allowzero, got {wanted}")
    return (x.reshape(wanted),)


def _flatten(attributes: Attributes, x: Array) -> tuple[Array]:
    axis = attributes.get("axis", 1)
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    columns = int(np.prod(x.shape[axis:], dtype=np.int64)) if axis else x.size
    return (x.reshape(rows, columns),)


def _squeeze(attributes: Attributes, x: Array, axes: Array | None = None) -> tuple[Array]:
    return (np.squeeze(x, None if axes is None or not axes.size else tuple(map(int, axes))),)


def _unsqueeze(attributes: Attributes, x: Array, axes: Array) -> tuple[Array]:
    return (np.expand_dims(x, tuple(map(int, axes.reshape(-1)))),)


def _expand(attributes: Attributes, x: Array, shape: Array) -> tuple[Array]:
    wanted = np.broadcast_shapes(x.shape, tuple(map(int, shape)))
    return (np.broadcast_to(x, wanted).copy(),)


SHAPES: Mapping[str, Function] = {
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
