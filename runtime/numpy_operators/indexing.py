# SPDX-License-Identifier: Apache-2.0
"""Reads and writes at data-dependent indices. Negative indices count from the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.dtypes import widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function

_Update = Callable[[Any, Any], Any]
_UPDATES: Mapping[str, _Update] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": np.maximum,
    "min": np.minimum,
}


def _gather(attributes: Attributes, x: Array, indices: Array) -> tuple[Array]:
    return (np.take(x, indices.astype(np.intp), attributes.get("axis", 0)),)


def _grid(shape: tuple[int, ...], indices: Array, axis: int) -> tuple[Array, ...]:
    """The places of all elements of `indices`, which replaces the one along `axis`."""
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = np.where(indices < 0, indices + shape[axis], indices)
    return tuple(places)


def _gather_elements(attributes: Attributes, x: Array, indices: Array) -> tuple[Array]:
    return (x[_grid(x.shape, indices, attributes.get("axis", 0) % x.ndim)],)


def _gather_nd(attributes: Attributes, x: Array, indices: Array) -> tuple[Array]:
    shared = attributes.get("batch_dims", 0)
    count, depth = math.prod(x.shape[:shared]), indices.shape[-1]
    points = indices.reshape(count, *indices.shape[shared:])
    rows = x.reshape(count, *x.shape[shared:])
    shape = (*x.shape[:shared], *indices.shape[shared:-1], *x.shape[shared + depth :])
    elements = [row[tuple(np.moveaxis(point, -1, 0))] for row, point in zip(rows, points, strict=True)]
    if not depth:  # every point is the whole row
        elements = [np.broadcast_to(row, shape[shared:]) for row in rows]
    return (np.array(elements, x.dtype).reshape(shape),)


def _scatter_elements(attributes: Attributes, x: Array, indices: Array, updates: Array) -> tuple[Array]:
    places = _grid(x.shape, indices, attributes.get("axis", 0) % x.ndim)
    return (_updated(x, [np.broadcast_to(place, indices.shape) for place in places], updates, attributes),)


def _scatter_nd(attributes: Attributes, x: Array, indices: Array, updates: Array) -> tuple[Array]:
    wrapped = np.where(indices < 0, indices + np.array(x.shape[: indices.shape[-1]]), indices)
    return (_updated(x, list(np.moveaxis(wrapped, -1, 0)), updates, attributes),)


def _updated(x: Array, places: list[Array], updates: Array, attributes: Attributes) -> Array:
    """The array with updates applied one after the other."""
    combine = _UPDATES[attributes.get("reduction", "none")]
    result = widened(x).copy()
    new = widened(updates)
    points = places[0].shape if places else updates.shape
    for at in np.ndindex(*points):
        here = tuple(int(place[at]) for place in places)
        result[here] = combine(result[here], new[at])
    return result.astype(x.dtype, copy=False)


def _tensor_scatter(attributes: Attributes, past: Array, update: Array, starts: Array | None = None) -> tuple[Array]:
    """Rows of a cache replaced, each batch from its own start on."""
    axis = attributes.get("axis", -2) % past.ndim
    result = past.copy()
    for n in range(past.shape[0]):
        places = np.arange(update.shape[axis]) + (0 if starts is None else int(starts[n]))
        if attributes.get("mode", "linear") == "circular":
            places %= past.shape[axis]
        result[n][(*(slice(None),) * (axis - 1), places)] = update[n]
    return (result,)


def _compress(attributes: Attributes, x: Array, condition: Array) -> tuple[Array]:
    axis = attributes.get("axis")
    extent = x.size if axis is None else x.shape[axis]
    return (np.compress(condition[:extent], x, axis),)


def _one_hot(attributes: Attributes, indices: Array, depth: Array, values: Array) -> tuple[Array]:
    axis = attributes.get("axis", -1)
    count = int(depth.reshape(-1)[0])
    places = indices.astype(np.int64)
    hot = (np.where(places < 0, places + count, places)[..., None]) == np.arange(count)
    return (np.moveaxis(np.where(hot, values[1], values[0]).astype(values.dtype), -1, axis),)


INDEXING: Mapping[str, Function] = {
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
}


# --- results whose size or order depends on the data ----------------------------------------------


def _non_zero(attributes: Attributes, x: Array) -> tuple[Array]:
    places = np.nonzero(x if x.ndim else x.reshape(1))
    return (np.array(places, np.int64)[: x.ndim],)


def _top_k(attributes: Attributes, x: Array, k: Array) -> tuple[Array, Array]:
    """Of equal elements the one with the lower index comes first; NaN counts as the largest."""
    axis, count = attributes.get("axis", -1), int(k.reshape(-1)[0])
    if not 0 <= count <= x.shape[axis]:
        raise ValueError(f"k must be from 0 to {x.shape[axis]}, the extent, got {count}")
    wide = widened(x)
    if attributes.get("largest", 1):
        places = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(wide, axis), axis, kind="stable"), axis)
    else:
        places = np.argsort(wide, axis, kind="stable")
    places = places.take(np.arange(count), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int64)


def _unique(attributes: Attributes, x: Array) -> tuple[Array, ...]:
    """Distinct elements, or slices along an axis: sorted, or in the order of their first place."""
    axis = attributes.get("axis")
    rows = x.reshape(-1) if axis is None else x
    values, first, inverse, counts = np.unique(
        rows, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not attributes.get("sorted", 1):
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, *(part.astype(np.int64) for part in (first, inverse, counts))


def _corners(boxes: Array, centered: bool) -> Array:
    """[..., 4]: low y, low x, high y, high x; or from centre and size."""
    if centered:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], -1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of a box with others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.prod(np.clip(high - low, 0, None), -1)
    areas = np.prod(others[:, 2:] - others[:, :2], -1)
    union = np.prod(box[2:] - box[:2]) + areas - common
    return np.where(union > 0, common / np.where(union > 0, union, 1), 0)


def _non_max_suppression(
    attributes: Attributes,
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    overlap: Array | None = None,
    least: Array | None = None,
) -> tuple[Array]:
    """[batch, class, box] of the boxes that are kept, the best first in each class."""
    count, limit = (0 if most is None else most.item()), (0 if overlap is None else overlap.item())
    corners = _corners(boxes, bool(attributes.get("center_point_box", 0)))
    result = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        row = scores[batch, kind]
        order = [int(n) for n in np.argsort(-row, kind="stable") if least is None or row[n] > least.item()]
        kept: list[int] = []
        while order and len(kept) < count:
            best, *rest = order
            kept.append(best)
            near = _overlap(corners[batch, best], corners[batch, rest]) > limit
            order = [n for n, dropped in zip(rest, near, strict=True) if not dropped]
        result += [(batch, kind, n) for n in kept]
    return (np.array(result, np.int64).reshape(-1, 3),)


SELECTION: Mapping[str, Function] = {
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _non_zero,
    "TopK": _top_k,
    "Unique": _unique,
}
