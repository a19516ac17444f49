"""Results whose size or order depends on the data: TopK, NonZero, Unique, NonMaxSuppression."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.dtypes import widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


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
    found = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        row = scores[batch, kind]
        order = [int(n) for n in np.argsort(-row, kind="stable") if least is None or row[n] > least.item()]
        kept: list[int] = []
        while order and len(kept) < count:
            best, *rest = order
            kept.append(best)
            near = _overlap(corners[batch, best], corners[batch, rest]) > limit
            order = [n for n, dropped in zip(rest, near, strict=True) if not dropped]
        found += [(batch, kind, n) for n in kept]
    return (np.array(found, np.int64).reshape(-1, 3),)


SELECTION: Mapping[str, Function] = {
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _non_zero,
    "TopK": _top_k,
    "Unique": _unique,
}
