# SPDX-License-Identifier: Apache-2.0
"""Images sampled between their elements: GridSample, RoiAlign, DeformConv and others; Col2Im."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.dtypes import is_floating, widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.windows import pad_image, under_tap
from vdla.support.window import window_of

_CUBIC_A = -0.75


def _reflected(place: Array, low: float, high: float) -> Array:
    """Coordinates folded back into [low, high]."""
    span = high - low
    if span <= 0:
        return np.zeros_like(place)
    phase = np.abs(place - low) % (2 * span)
    return np.asarray(low + np.where(phase > span, 2 * span - phase, phase))


def _elements(image: Array, places: Sequence[Array], padding: str, align: bool) -> Array:
    """[C, ...]: the elements of [C, spatial...] at whole places, 0 or others beyond its border."""
    inside, index = np.ones(places[0].shape, bool), []
    for place, extent in zip(places, image.shape[1:], strict=True):
        if padding == "reflection":
            ends = (0, extent - 1) if align else (-0.5, extent - 0.5)
            place = _reflected(place, *ends)
        inside &= (place >= 0) & (place <= extent - 1)
        index.append(np.clip(place, 0, extent - 1).astype(np.int64))
    where: Any = (slice(None), *index)
    elements = image[where]
    return np.where(inside, elements, 0) if padding == "zeros" else elements


def _kernel(mode: str, place: Array) -> list[tuple[Array, Array]]:
    """The whole places around a coordinate, each with its weight."""
    low = np.floor(place)
    if mode == "nearest":
        return [(np.rint(place), np.ones_like(place))]
    if mode == "linear":
        return [(low, low + 1 - place), (low + 1, place - low)]
    a, taps = _CUBIC_A, []
    for step in (-1, 0, 1, 2):
        t = np.abs(place - low - step)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        taps.append((low + step, np.where(t <= 1, near, far)))
    return taps


def _interpolate(image: Array, places: Sequence[Array], mode: str, padding: str, align: bool = True) -> Array:
    """[C, ...]: a weighted sum of the elements around each coordinate."""
    total = None
    for taps in itertools.product(*(_kernel(mode, place) for place in places)):
        weight = math.prod((tap[1] for tap in taps), start=1.0)
        term = _elements(image, [tap[0] for tap in taps], padding, align) * weight
        total = term if total is None else total + term
    assert total is not None
    return np.asarray(total)


def _grid_sample(attributes: Attributes, x: Array, grid: Array) -> tuple[Array]:
    """Coordinates of the grid run from -1 to 1, the last dimension first."""
    mode = attributes.get("mode", "linear").removeprefix("bi")
    padding, align = attributes.get("padding_mode", "zeros"), bool(attributes.get("align_corners", 0))
    data, flow = widened(x), widened(grid).astype(np.float64)
    rows = []
    for image, points in zip(data, flow, strict=True):
        places = []
        for d, extent in enumerate(x.shape[2:]):
            unit = points[..., x.ndim - 3 - d]
            place = (unit + 1) / 2 * (extent - 1) if align else ((unit + 1) * extent - 1) / 2
            if padding == "border" and mode != "cubic":
                place = np.clip(place, 0, extent - 1)
            elif padding == "reflection" and mode != "cubic":
                ends = (0, extent - 1) if align else (-0.5, extent - 0.5)
                place = np.clip(_reflected(place, *ends), 0, extent - 1)
            places.append(place)
        rows.append(_interpolate(image.astype(np.float64), places, mode, padding, align))
    result = np.array(rows).reshape(*x.shape[:2], *grid.shape[1:-1])
    return ((result if is_floating(x.dtype) else np.trunc(result)).astype(x.dtype),)


def _affine_grid(attributes: Attributes, theta: Array, size: Array) -> tuple[Array]:
    """[N, spatial..., rank]: the affine images of a regular grid, coordinates x first."""
    extents, align = tuple(map(int, size[2:])), bool(attributes.get("align_corners", 0))
    lines = []
    for extent in extents:
        unit = np.arange(extent, dtype=np.float64)
        lines.append(2 * unit / max(extent - 1, 1) - 1 if align else (2 * unit + 1) / extent - 1)
    axes = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*axes[::-1], np.ones(extents)], -1)
    return (np.einsum("nij,...j->n...i", widened(theta), points).astype(theta.dtype),)


def _bin_samples(low: float, size: float, bins: int, count: int) -> Array:
    """[bins, count]: the coordinates of the samples in each bin."""
    step = size / bins
    return low + step * (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count)


def _roi_align(attributes: Attributes, x: Array, rois: Array, batches: Array) -> tuple[Array]:
    """Each bin of a region is the mean, or the largest, of its samples."""
    height, width = attributes.get("output_height", 1), attributes.get("output_width", 1)
    ratio, scale = attributes.get("sampling_ratio", 0), attributes.get("spatial_scale", 1.0)
    half = attributes.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    rows = []
    for roi, batch in zip(widened(rois).astype(np.float64), batches, strict=True):
        left, top, right, bottom = roi * scale - (0.5 if half else 0)
        tall, wide = bottom - top, right - left
        if not half:
            tall, wide = max(tall, 1.0), max(wide, 1.0)
        counts = [ratio or max(math.ceil(tall / height), 1), ratio or max(math.ceil(wide / width), 1)]
        y, z = _bin_samples(top, tall, height, counts[0]), _bin_samples(left, wide, width, counts[1])
        places = np.broadcast_arrays(y[:, None, :, None], z[None, :, None, :])
        rows.append(_pooled(attributes, widened(x[int(batch)]).astype(np.float64), places))
    return (np.stack(rows).astype(x.dtype) if rows else np.zeros((0, x.shape[1], height, width), x.dtype),)


def _pooled(attributes: Attributes, image: Array, places: Sequence[Array]) -> Array:
    """[C, height, width]: of samples [height, width, ...]; those far outside are 0."""
    inside = np.ones(places[0].shape, bool)
    clamped = []
    for place, extent in zip(places, image.shape[1:], strict=True):
        inside &= (place >= -1) & (place <= extent)
        clamped.append(np.clip(place, 0, extent - 1))
    if attributes.get("mode", "avg") == "avg":
        return np.asarray(np.where(inside, _interpolate(image, clamped, "linear", "border"), 0).mean((-2, -1)))
    largest = None
    for taps in itertools.product(*(_kernel("linear", place) for place in clamped)):
        term = _elements(image, [tap[0] for tap in taps], "border", True) * (taps[0][1] * taps[1][1])
        largest = term if largest is None else np.maximum(largest, term)
    assert largest is not None
    return np.asarray(np.where(inside, largest, 0).max((-2, -1)))


def _max_roi_pool(attributes: Attributes, x: Array, rois: Array) -> tuple[Array]:
    """The largest element of each bin of a region [batch, left, top, right, bottom], both ends in.

    Corners are rounded half away from zero; a bin without elements is 0.
    """
    height, width = attributes["pooled_shape"]
    scale = attributes.get("spatial_scale", 1.0)
    result = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    for row, (batch, *corners) in zip(result, widened(rois), strict=True):
        left, top, right, bottom = (math.floor(abs(c * scale) + 0.5) * (1 if c >= 0 else -1) for c in corners)
        lines = _bins(top, bottom, height, x.shape[2]), _bins(left, right, width, x.shape[3])
        for (y, rows), (z, columns) in itertools.product(*(enumerate(line) for line in lines)):
            if rows and columns:
                row[:, y, z] = x[int(batch)][:, rows.start : rows.stop, columns.start : columns.stop].max((1, 2))
    return (result,)


def _bins(first: int, last: int, count: int, extent: int) -> list[range]:
    """The elements of each bin of first..last within the image."""
    size = max(last - first + 1, 1) / count
    ends = [(math.floor(n * size) + first, math.ceil((n + 1) * size) + first) for n in range(count)]
    return [range(min(max(a, 0), extent), min(max(b, 0), extent)) for a, b in ends]


def _deform_conv(
    attributes: Attributes,
    x: Array,
    weight: Array,
    offset: Array,
    bias: Array | None = None,
    mask: Array | None = None,
) -> tuple[Array]:
    """A convolution whose taps are displaced by offsets, which are given for groups of channels."""
    rank, groups, parts = x.ndim - 2, attributes.get("group", 1), attributes.get("offset_group", 1)
    windows = window_of(attributes, x.shape[2:], weight.shape[2:])
    taps = list(np.ndindex(*windows.taps))
    moved = widened(offset).reshape(x.shape[0], parts, len(taps), rank, *windows.places)
    kept = None if mask is None else widened(mask).reshape(x.shape[0], parts, len(taps), *windows.places)
    starts = np.indices(windows.places).astype(np.float64)
    data, kernel = widened(x), widened(weight)
    columns = np.zeros((x.shape[0], x.shape[1], len(taps), *windows.places))
    per = x.shape[1] // parts
    for n, part, (t, tap) in itertools.product(range(x.shape[0]), range(parts), enumerate(taps)):
        places = [
            starts[d] * windows.strides[d] + tap[d] * windows.dilations[d] - windows.before[d] + moved[n, part, t, d]
            for d in range(rank)
        ]
        image = data[n, part * per : (part + 1) * per].astype(np.float64)
        sampled = _interpolate(image, places, "linear", "zeros")
        columns[n, part * per : (part + 1) * per, t] = sampled if kept is None else sampled * kept[n, part, t]
    depth = x.shape[1] // groups * len(taps)
    flat = columns.reshape(x.shape[0], groups, depth, math.prod(windows.places))
    result = np.matmul(kernel.reshape(groups, weight.shape[0] // groups, depth), flat)
    result = result.reshape(x.shape[0], weight.shape[0], *windows.places)
    if bias is not None:
        result = result + widened(bias).reshape(bias.size, *(1,) * rank)
    return (result.astype(x.dtype),)


def _col2im(attributes: Attributes, x: Array, image_shape: Array, block_shape: Array) -> tuple[Array]:
    """The sum of all blocks at their places in the image."""
    extents, kernel = tuple(map(int, image_shape)), tuple(map(int, block_shape))
    windows = window_of(attributes, extents, kernel)
    columns = x.reshape(x.shape[0], x.shape[1] // math.prod(kernel), *kernel, *windows.places)
    whole = pad_image(windows, np.zeros((*columns.shape[:2], *extents), widened(x).dtype), 0)
    for tap in np.ndindex(*windows.taps):
        place: Any = (slice(None), slice(None), *tap)
        under_tap(windows, whole, tap)[...] += columns[place]
    kept = tuple(slice(before, before + extent) for before, extent in zip(windows.before, extents, strict=True))
    where: Any = (slice(None), slice(None), *kept)
    return (whole[where].astype(x.dtype),)


SAMPLING: Mapping[str, Function] = {
    "AffineGrid": _affine_grid,
    "Col2Im": _col2im,
    "DeformConv": _deform_conv,
    "GridSample": _grid_sample,
    "MaxRoiPool": _max_roi_pool,
    "RoiAlign": _roi_align,
}
