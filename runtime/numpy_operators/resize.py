# SPDX-License-Identifier: Apache-2.0
"""Resize, an axis at a time: nearest elements, or weighted sums of neighbours.

Coordinates are ratios of integers, so that ties are found exactly. A float scale is the simplest
ratio that rounds to it in float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from vdla.runtime.numpy_operators.dtypes import widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """One dimension: its extents, its scale, and the part of the input that it shows."""

    extent: int
    size: int
    scale: Fraction
    start: Fraction = Fraction(0)
    end: Fraction = Fraction(1)

    @property
    def is_unchanged(self) -> bool:
        """Whether every index maps to itself."""
        return self.size == self.extent and self.scale == 1 and self.start == 0 and self.end == 1

    def coordinates(self, mode: str) -> list[Fraction]:
        """The coordinate in the input of each index of the result."""
        return [self._coordinate(Fraction(index), mode) for index in range(self.size)]

    def _coordinate(self, index: Fraction, mode: str) -> Fraction:
        centred = (index + _HALF) / self.scale - _HALF
        last, steps = self.extent - 1, self.size - 1
        match mode:
            case "asymmetric":
                return index / self.scale
            case "tf_half_pixel_for_nn":
                return centred + _HALF
            case "align_corners":
                return index * last / (self.scale * self.extent - 1) if steps else Fraction(0)
            case "pytorch_half_pixel" if self.size == 1:
                return Fraction(0)
            case "half_pixel_symmetric":
                return Fraction(self.extent, 2) * (1 - self.size / (self.scale * self.extent)) + centred
            case "tf_crop_and_resize":
                if not steps:
                    return _HALF * (self.start + self.end) * last
                return self.start * last + index * (self.end - self.start) * last / steps
        return centred


def _ratio(scale: float) -> Fraction:
    """The simplest ratio that rounds to a scale in float32."""
    exact, rounded = Fraction(float(scale)), np.float32(scale)
    bounds = (1 << bits for bits in range(exact.denominator.bit_length() + 1))
    return next(ratio for ratio in map(exact.limit_denominator, bounds) if np.float32(float(ratio)) == rounded)


def _axes(
    attributes: Attributes, shape: tuple[int, ...], roi: Array | None, scales: Array | None, sizes: Array | None
) -> dict[int, ResizedAxis]:
    """The dimensions that the node names."""
    named = [axis % len(shape) for axis in attributes.get("axes", range(len(shape)))]
    crop = attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize" and roi is not None
    ends = (
        [Fraction(float(v)) for v in roi]
        if crop and roi is not None
        else [*[Fraction(0)] * len(named)] + [Fraction(1)] * len(named)
    )
    spans = list(zip(ends[: len(named)], ends[len(named) :], strict=True))
    extents = [shape[axis] for axis in named]
    if scales is not None and scales.size:
        ratios = [_ratio(scale) for scale in scales]
        # Extents come from the scales in float32, as they are given.
        given = [
            int(np.floor(np.float32(n) * np.float32(float(b - a)) * np.float32(s)))
            for n, s, (a, b) in zip(extents, scales, spans, strict=True)
        ]
    else:
        if sizes is None:
            raise ValueError("scales or sizes must be given, got none")
        ratios, given = _fitted(attributes.get("keep_aspect_ratio_policy", "stretch"), extents, sizes)
    return {
        axis: ResizedAxis(extent, size, ratio, *span)
        for axis, extent, size, ratio, span in zip(named, extents, given, ratios, spans, strict=True)
    }


def _fitted(policy: str, extents: list[int], sizes: Array) -> tuple[list[Fraction], list[int]]:
    """Scales and extents for sizes; a kept aspect ratio has one scale."""
    ratios = [Fraction(int(size), extent or 1) for size, extent in zip(sizes, extents, strict=True)]
    if policy == "stretch":
        return ratios, [int(size) for size in sizes]
    one = min(ratios) if policy == "not_larger" else max(ratios)
    return [one] * len(ratios), [math.floor(one * extent + _HALF) for extent in extents]


def _nearest(axis: ResizedAxis, attributes: Attributes) -> Array:
    """The index of the nearest element for each index of the result."""
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    rounded = {
        "floor": math.floor,
        "ceil": math.ceil,
        "round_prefer_floor": lambda x: math.ceil(x - _HALF),
        "round_prefer_ceil": lambda x: math.floor(x + _HALF),
    }[attributes.get("nearest_mode", "round_prefer_floor")]
    places = [min(max(rounded(x), 0), axis.extent - 1) for x in axis.coordinates(mode)]
    return np.array(places, np.intp)


def _cubic(distance: Array, a: float) -> Array:
    """The kernel of cubic interpolation."""
    t = np.abs(distance)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def _weights(axis: ResizedAxis, attributes: Attributes) -> Array:
    """[size, extent]: the weights of the input elements in each element of the result."""
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    cubic, shrink = attributes["mode"] == "cubic", 1.0
    if attributes.get("antialias", 0):
        shrink = min(float(axis.scale), 1.0)
    reach = math.ceil((2 if cubic else 1) / shrink)
    result = np.zeros((axis.size, axis.extent))
    for row, place in zip(result, axis.coordinates(mode), strict=True):
        low = math.floor(place)
        taps = np.arange(low - reach + 1, low + reach + 1)
        distance = (taps - float(place)) * shrink
        if cubic:
            weights = _cubic(distance, attributes.get("cubic_coeff_a", -0.75))
        else:
            weights = np.clip(1 - np.abs(distance), 0, None)
        if attributes.get("exclude_outside", 0):
            weights = np.where((taps >= 0) & (taps < axis.extent), weights, 0)
        np.add.at(row, np.clip(taps, 0, axis.extent - 1), weights / weights.sum())
    return result


def _resize(
    attributes: Attributes,
    x: Array,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
) -> tuple[Array]:
    axes = _axes(attributes, x.shape, roi, scales, sizes)
    result = x if attributes.get("mode", "nearest") == "nearest" else widened(x)
    for d, axis in axes.items():
        if axis.is_unchanged:
            continue
        if attributes.get("mode", "nearest") == "nearest":
            result = np.take(result, _nearest(axis, attributes), d)
        else:
            result = np.moveaxis(np.tensordot(_weights(axis, attributes), result, (1, d)), 0, d)
    return (_extrapolated(attributes, result, axes).astype(x.dtype),)


def _extrapolated(attributes: Attributes, result: Array, axes: Mapping[int, ResizedAxis]) -> Array:
    """A value in place of what lies beyond the input, for `tf_crop_and_resize`."""
    if attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return result
    for d, axis in axes.items():
        places = axis.coordinates("tf_crop_and_resize")
        outside = np.array([place < 0 or place > axis.extent - 1 for place in places])
        mask = outside.reshape(-1, *(1,) * (result.ndim - d - 1))
        result = np.where(mask, np.asarray(attributes.get("extrapolation_value", 0.0), result.dtype), result)
    return result


def _upsample(attributes: Attributes, x: Array, scales: Array) -> tuple[Array]:
    """Resize as it was: asymmetric coordinates, the nearest element below."""
    modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _resize({"mode": attributes.get("mode", "nearest"), **modes}, x, None, scales)


RESIZE: Mapping[str, Function] = {"Resize": _resize, "Upsample": _upsample}
