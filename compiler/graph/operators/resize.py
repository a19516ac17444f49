# SPDX-License-Identifier: Apache-2.0
"""Rules of Resize: nearest elements, or weighted sums of neighbours with compile-time weights.

Linear interpolation over the coordinates of `operators.resize_linear` is one stage. Every other
interpolation is a stage for each dimension that changes, whose neighbours and weights are tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.layouts.elementwise import resize
from vdla.compiler.graph.operators.record import OperatorRecord, Trait
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, in_float32
from vdla.compiler.ir import is_float

_ROI, _SCALES, _SIZES = 1, 2, 3
_PLAIN_MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def _by_axis(call: NodeCall, given: Sequence[float], default: float) -> list[float]:
    """The entries of all dimensions; `given` has those of `axes`."""
    rank = len(call.tensor(0).shape)
    entries = [default] * rank
    for axis, entry in zip(call.attribute("axes", range(len(given))), given, strict=True):
        entries[axis % rank] = entry
    return entries


def _scales(call: NodeCall) -> list[Fraction | float]:
    """The scale of each dimension, equal for all if the aspect ratio is kept."""
    x, factors = call.tensor(0), call.constant(_SCALES, "scales")
    if factors is not None and factors.size:
        return list(_by_axis(call, [float(factor) for factor in factors], 1.0))
    sizes = call.required(_SIZES, "sizes")
    named, extents = (
        [axis % len(x.shape) for axis in call.attribute("axes", range(len(sizes)))],
        call.input_type().extents,
    )
    ratios = [Fraction(size, extents[axis]) for size, axis in zip(sizes, named, strict=True)]
    policy = call.attribute("keep_aspect_ratio_policy")
    if policy != "stretch":
        ratios = [min(ratios) if policy == "not_larger" else max(ratios)] * len(ratios)
    scales: list[Fraction | float] = [Fraction(1)] * len(x.shape)
    for axis, ratio in zip(named, ratios, strict=True):
        scales[axis] = ratio
    return scales


def _resize(call: NodeCall) -> te.Tensor:
    x, mode = call.tensor(0), call.attribute("mode")
    coordinates = call.attribute("coordinate_transformation_mode")
    scales = _scales(call)
    if coordinates in _PLAIN_MODES and call.attribute("keep_aspect_ratio_policy") == "stretch":
        if mode == "nearest":
            nearest = call.attribute("nearest_mode")
            return operators.resize_nearest(x, None, scales, coordinates, nearest, name=call.name())
        if mode == "linear" and not (call.attribute("antialias") or call.attribute("exclude_outside")):
            return in_float32(call, lambda t, name: operators.resize_linear(t, None, scales, coordinates, name=name), x)
    if not is_float(x.dtype) and mode != "nearest":
        call.decline(f"interpolate floats, got {x.dtype}")
    axes = [_axis(call, d, scale) for d, scale in enumerate(scales)]
    return in_float32(call, lambda t, name: _by_tables(call, t, axes, name), x)


def _by_tables(call: NodeCall, x: te.Tensor, axes: Sequence[_TableAxis], name: str) -> te.Tensor:
    """A stage for each dimension that changes."""
    changed = [d for d, axis in enumerate(axes) if not axis.is_unchanged]
    result = x
    for d in changed:
        title = name if d == changed[-1] else f"{name}_axis{d}"
        result = _along(call, result, d, axes[d], title)
    return result if changed else operators.identity(x, name=name)


def _along(call: NodeCall, x: te.Tensor, d: int, axis: _TableAxis, name: str) -> te.Tensor:
    """One dimension resized; results beyond the input may have a fill value."""
    shape = (*x.shape[:d], axis.size, *x.shape[d + 1 :])
    places, weights = axis.table(call)
    index = call.pack(f"places{d}", places)
    factor = call.pack(f"weights{d}", weights.astype(np.float64 if x.dtype == "float64" else np.float32))
    beyond = call.pack(f"beyond{d}", axis.beyond(call)) if axis.crops(call) else None
    fill = call.attribute("extrapolation_value")

    def value(*i: te.Value) -> te.Value:
        terms = []
        for tap in range(places.shape[1]):
            place = te.clip(index[i[d], te.const(tap, "int32")], 0, axis.extent - 1)
            element = x[(*i[:d], place, *i[d + 1 :])]
            is_nearest = call.attribute("mode") == "nearest"
            terms.append(element if is_nearest else element * factor[i[d], te.const(tap, "int32")])
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        if beyond is None:
            return total
        return te.select(beyond[i[d]] != 0, te.const(fill, x.dtype), total)

    return te.compute(shape, value, name)


# --- coordinates and tables -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TableAxis:
    """One dimension: its extents, its scale, its region of interest."""

    extent: int
    size: int
    scale: Fraction
    start: Fraction
    end: Fraction

    @property
    def is_unchanged(self) -> bool:
        """Whether every index maps to itself."""
        return self.size == self.extent and self.scale == 1 and (float(self.start), float(self.end)) == (0.0, 1.0)

    def crops(self, call: NodeCall) -> bool:
        """Whether results may lie outside the input."""
        return bool(call.attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize")

    def coordinate(self, index: int, mode: str) -> Fraction:
        """The coordinate in the input of an index of the result."""
        last, steps = Fraction(self.extent - 1), self.size - 1
        plain = (index + Fraction(1, 2)) / self.scale - Fraction(1, 2)
        match mode:
            case "asymmetric":
                return index / self.scale
            case "tf_half_pixel_for_nn":  # of opset 11 and 12; converters write it in later models too
                return plain + Fraction(1, 2)
            case "align_corners":
                return index * last / (self.scale * self.extent - 1) if steps else Fraction(0)
            case "pytorch_half_pixel":
                return plain if steps else Fraction(0)
            case "half_pixel_symmetric":
                shift = 1 - self.size / (self.scale * self.extent)
                return Fraction(self.extent, 2) * shift + plain
            case "tf_crop_and_resize":
                if not steps:
                    return (self.start + self.end) * last / 2
                return self.start * last + index * (self.end - self.start) * last / steps
        return plain

    def coordinates(self, call: NodeCall) -> list[Fraction]:
        """All coordinates."""
        mode = call.attribute("coordinate_transformation_mode")
        return [self.coordinate(index, mode) for index in range(self.size)]

    def beyond(self, call: NodeCall) -> Array:
        """1 for results outside the input, as int32."""
        outside = [place < 0 or place > self.extent - 1 for place in self.coordinates(call)]
        return np.array(outside, np.int32)

    def table(self, call: NodeCall) -> tuple[Array, Array]:
        """[size, taps] of int32 and float64: the neighbours of each result, and their weights."""
        mode, places = call.attribute("mode"), self.coordinates(call)
        if mode == "nearest":
            rounded = [_rounded(place, call.attribute("nearest_mode")) for place in places]
            index = np.clip(np.array(rounded, np.int64), 0, self.extent - 1)
            return index[:, None].astype(np.int32), np.ones((self.size, 1))
        shrink = min(float(self.scale), 1.0) if call.attribute("antialias") else 1.0
        reach = math.ceil((2 if mode == "cubic" else 1) / shrink)
        low = np.array([math.floor(place) for place in places])
        index = low[:, None] + np.arange(1 - reach, 1 + reach)
        distance = (index - np.array([float(place) for place in places])[:, None]) * shrink
        weights = _cubic(distance, call.attribute("cubic_coeff_a")) if mode == "cubic" else _hat(distance)
        if call.attribute("exclude_outside"):
            weights = np.where((index >= 0) & (index < self.extent), weights, 0)
        clamped = np.clip(index, 0, self.extent - 1).astype(np.int32)
        return clamped, weights / weights.sum(axis=1, keepdims=True)


def _axis(call: NodeCall, d: int, scale: Fraction | float) -> _TableAxis:
    """A dimension of the node."""
    start, end = Fraction(0), Fraction(1)
    mode = call.attribute("coordinate_transformation_mode")
    roi = call.constant(_ROI, "roi") if mode == "tf_crop_and_resize" else None
    if roi is not None and roi.size:
        half = roi.size // 2
        start = Fraction(_by_axis(call, [float(v) for v in roi[:half]], 0.0)[d])
        end = Fraction(_by_axis(call, [float(v) for v in roi[half:]], 1.0)[d])
    ratio = scale if isinstance(scale, Fraction) else operators.simplest_ratio(scale)
    return _TableAxis(call.tensor(0).shape[d], call.extents[d], ratio, start, end)


def _rounded(place: Fraction, mode: str) -> int:
    """The nearest whole place; modes say where a tie goes."""
    match mode:
        case "floor":
            return math.floor(place)
        case "ceil":
            return math.ceil(place)
        case "round_prefer_ceil":
            return math.floor(place + Fraction(1, 2))
    return math.ceil(place - Fraction(1, 2))


def _hat(distance: Array) -> Array:
    """The kernel of linear interpolation."""
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def _cubic(distance: Array, a: float) -> Array:
    """The kernel of cubic convolution (Keys, 1981)."""
    t = np.abs(distance)
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def _upsample(call: NodeCall) -> te.Tensor:
    """Resize of opset 10: the element below or linear, with asymmetric coordinates."""
    x, scales = call.tensor(0), call.constant(1, "scales")
    assert scales is not None
    given = [float(scale) for scale in scales]
    if call.attribute("mode", "nearest") == "nearest":
        return operators.resize_nearest(x, None, given, "asymmetric", "floor", name=call.name())
    return in_float32(call, lambda t, name: operators.resize_linear(t, None, given, "asymmetric", name=name), x)


RESIZE = (
    OperatorRecord(
        name="Resize",
        fusion=FusionClass.INJECTIVE,
        expression=_resize,
        traits=Trait.SELECTION,
        layout=resize,
    ),
    OperatorRecord(name="Upsample", fusion=FusionClass.INJECTIVE, expression=_upsample),
)
