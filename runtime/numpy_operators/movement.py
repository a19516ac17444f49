# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements of any type; shapes as values, and tensors made from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.dtypes import is_short_float, numpy_dtype
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def _transpose(attributes: Attributes, x: Array) -> tuple[Array]:
    return (np.transpose(x, attributes.get("perm")),)


def _concat(attributes: Attributes, *arrays: Array) -> tuple[Array]:
    return (np.concatenate(arrays, attributes["axis"]),)


def _split(attributes: Attributes, x: Array, lengths: Array | None = None) -> tuple[Array, ...]:
    axis = attributes.get("axis", 0)
    if lengths is None:
        count = attributes["num_outputs"]
        size = -(-x.shape[axis] // count)
        return tuple(np.split(x, [size * part for part in range(1, count)], axis))
    return tuple(np.split(x, np.cumsum(lengths)[:-1], axis))


def _slice(
    attributes: Attributes,
    x: Array,
    starts: Array,
    ends: Array,
    axes: Array | None = None,
    steps: Array | None = None,
) -> tuple[Array]:
    """A start before the first element is the first element for negative steps too."""
    named = range(len(starts)) if axes is None else [int(axis) % x.ndim for axis in axes]
    strides = [1] * len(starts) if steps is None else [int(step) for step in steps]
    places = [slice(None)] * x.ndim
    for axis, start, end, step in zip(named, starts, ends, strides, strict=True):
        extent = x.shape[axis]
        low = max(int(start), -extent)
        stop: int | None = int(end)
        if step < 0 and int(end) < -extent:
            stop = None
        places[axis] = slice(low, stop, step)
    return (x[tuple(places)],)


def _tile(attributes: Attributes, x: Array, repeats: Array) -> tuple[Array]:
    return (np.tile(x, tuple(map(int, repeats))),)


def _pad(
    attributes: Attributes, x: Array, pads: Array, value: Array | None = None, axes: Array | None = None
) -> tuple[Array]:
    """Negative pads crop, before the rest is padded."""
    mode = attributes.get("mode", "constant")
    named = range(x.ndim) if axes is None else [int(axis) % x.ndim for axis in axes]
    before, after = [0] * x.ndim, [0] * x.ndim
    for n, axis in enumerate(named):
        before[axis], after[axis] = int(pads[n]), int(pads[len(named) + n])
    kept = tuple(slice(max(-b, 0), extent - max(-a, 0)) for b, a, extent in zip(before, after, x.shape, strict=True))
    widths = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    if mode != "constant":
        return (np.pad(x[kept], widths, mode),)
    fill = np.zeros((), x.dtype) if value is None else value.reshape(-1)[0]
    result = np.full([b + extent + a for (b, a), extent in zip(widths, x[kept].shape, strict=True)], fill, x.dtype)
    result[tuple(slice(b, b + extent) for (b, _), extent in zip(widths, x[kept].shape, strict=True))] = x[kept]
    return (result,)


def _depth_to_space(attributes: Attributes, x: Array) -> tuple[Array]:
    n, c, h, w = x.shape
    size, deep = attributes["blocksize"], attributes.get("mode", "DCR") == "DCR"
    if deep:
        moved = x.reshape(n, size, size, c // size**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = x.reshape(n, c // size**2, size, size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return (moved.reshape(n, c // size**2, h * size, w * size),)


def _space_to_depth(attributes: Attributes, x: Array) -> tuple[Array]:
    n, c, h, w = x.shape
    size, deep = attributes["blocksize"], attributes.get("mode", "DCR") == "DCR"
    blocks = x.reshape(n, c, h // size, size, w // size, size)
    moved = blocks.transpose(0, 3, 5, 1, 2, 4) if deep else blocks.transpose(0, 1, 3, 5, 2, 4)
    return (moved.reshape(n, c * size**2, h // size, w // size),)


def _trilu(attributes: Attributes, x: Array, k: Array | None = None) -> tuple[Array]:
    diagonal = 0 if k is None else int(k.reshape(-1)[0])
    kept = np.tri(x.shape[-2], x.shape[-1], k=diagonal - 1 if attributes.get("upper", 1) else diagonal, dtype=bool)
    return (np.where(~kept if attributes.get("upper", 1) else kept, x, np.zeros((), x.dtype)),)


def _center_crop_pad(attributes: Attributes, x: Array, shape: Array) -> tuple[Array]:
    """Extents about the middle; the extra element of an odd difference is last."""
    axes = [axis % x.ndim for axis in attributes.get("axes", range(x.ndim))]
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis, wanted in zip(axes, shape, strict=True):
        spare = int(wanted) - x.shape[axis]
        before[axis] = spare // 2 if spare >= 0 else -(-spare // 2)
        after[axis] = spare - before[axis]
    return _pad({}, x, np.array([*before, *after]))


def _reverse_sequence(attributes: Attributes, x: Array, lengths: Array) -> tuple[Array]:
    batch, time = attributes.get("batch_axis", 1), attributes.get("time_axis", 0)
    result = x.copy()
    for n, length in enumerate(lengths):
        row = tuple(n if d == batch else slice(int(length)) if d == time else slice(None) for d in range(x.ndim))
        along = time - (batch < time)
        result[row] = np.flip(x[row], along)
    return (result,)


MOVEMENT: Mapping[str, Function] = {
    "CenterCropPad": _center_crop_pad,
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Pad": _pad,
    "ReverseSequence": _reverse_sequence,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
}


# --- shapes as values -----------------------------------------------------------------------------


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
