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
    found = [row[tuple(np.moveaxis(point, -1, 0))] for row, point in zip(rows, points, strict=True)]
    if not depth:  # every point is the whole row
        found = [np.broadcast_to(row, shape[shared:]) for row in rows]
    return (np.array(found, x.dtype).reshape(shape),)


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
