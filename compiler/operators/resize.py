# SPDX-License-Identifier: Apache-2.0
"""Resizing by nearest neighbour or linear interpolation, along any dimensions, as ONNX's Resize.

`coordinate_transformation_mode` maps index o of the result to a coordinate of `x`: "half_pixel" (o
+ 1/2) / scale - 1/2, "pytorch_half_pixel" the same but 0 for a single result, "asymmetric" o /
scale, "align_corners" o * (extent - 1) / (scale * extent - 1). Scales are ratios of integers, so
coordinates are exact: index arithmetic is on integers, and only the weights of an interpolation are
rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import MAX_EXTENT
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_choice,
    check_float,
    check_tensor,
    same_extent,
    sequence,
    static_extent,
)
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.support.integers import to_python

_COORDINATE_MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
_NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True, slots=True)
class _ResizeAxis:
    """One dimension: index o of the result has the coordinate (o * step + start) / parts in `x`."""

    extent: int
    new_extent: int
    step: int
    start: int
    parts: int

    @property
    def is_unchanged(self) -> bool:
        """Whether every index maps to itself."""
        return self.step == self.parts and self.start == 0

    def numerator(self, index: te.Value) -> te.Value:
        """`parts` times the coordinate; int64 where twice that could overflow int32."""
        most = 2 * (self.new_extent * self.step + abs(self.start) + self.parts)
        return (index if most <= MAX_EXTENT else te.cast("int64", index)) * self.step + self.start

    def clamp(self, index: te.Value) -> te.Value:
        """The nearest index in [0, extent)."""
        return te.cast("int32", te.clip(index, 0, self.extent - 1))


def resize_nearest(
    x: te.Tensor,
    sizes: Sequence[te.Dim] | None = None,
    scales: Sequence[float | Fraction] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    name: str | None = None,
) -> te.Tensor:
    """The nearest element, of any dtype; give either `sizes`, the new shape, or `scales`."""
    check_tensor("resize_nearest", "x", x)
    check_choice("resize_nearest", "nearest_mode", nearest_mode, _NEAREST_MODES)
    shape, axes = _resize_axes("resize_nearest", x, sizes, scales, coordinate_transformation_mode)

    def value(*i: te.Value) -> te.Value:
        return x[tuple(_nearest(axis, index, nearest_mode) for axis, index in zip(axes, i, strict=True))]

    return te.compute(shape, value, result_name(x, "resize", name))


def resize_linear(
    x: te.Tensor,
    sizes: Sequence[te.Dim] | None = None,
    scales: Sequence[float | Fraction] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    name: str | None = None,
) -> te.Tensor:
    """Linear interpolation along every dimension that changes (bilinear for two); floats.

    Coordinates beyond the first and last element are clamped.
    """
    check_float("resize_linear", "x", x)
    shape, axes = _resize_axes("resize_linear", x, sizes, scales, coordinate_transformation_mode)

    def value(*i: te.Value) -> te.Value:
        return te.cast(x.dtype, _interpolate(x, axes, i, ()))

    return te.compute(shape, value, result_name(x, "resize", name))


# --- coordinates ----------------------------------------------------------------------------------


def _resize_axes(
    where: str,
    x: te.Tensor,
    sizes: Sequence[te.Dim] | None,
    scales: Sequence[float | Fraction] | None,
    mode: str,
) -> tuple[tuple[te.Dim, ...], list[_ResizeAxis]]:
    """The new shape and the coordinates along each dimension."""
    check_choice(where, "coordinate_transformation_mode", mode, _COORDINATE_MODES)
    if (sizes is None) == (scales is None):
        raise OperatorError(f"{where}: exactly one of sizes and scales must be given, got {sizes} and {scales}")
    what = "sizes" if scales is None else "scales"
    given = [to_python(entry) for entry in sequence(where, what, sizes if scales is None else scales)]
    if len(given) != len(x.shape):
        raise OperatorError(f"{where}: {what} must have {len(x.shape)} entries, one a dimension, got {len(given)}")
    shape: list[te.Dim] = []
    axes = []
    for extent, entry in zip(x.shape, given, strict=True):
        if _is_unchanged(extent, entry, scales is not None):
            shape.append(extent)
            axes.append(_ResizeAxis(1, 1, 1, 0, 1))
            continue
        extent = static_extent(where, "a dimension that changes", extent)
        new, scale = (_new_extent(where, entry), None) if scales is None else _scaled_extent(where, extent, entry)
        shape.append(new)
        axes.append(_resize_axis(extent, new, Fraction(new, extent) if scale is None else scale, mode))
    return tuple(shape), axes


def _is_unchanged(extent: te.Dim, entry: object, is_scale: bool) -> bool:
    """Whether a dimension keeps its extent, by a scale of 1 or the same symbol."""
    if is_scale:
        return isinstance(entry, int | float | Fraction) and not isinstance(entry, bool) and entry == 1
    return isinstance(entry, te.Value) and same_extent(entry, extent)


def _new_extent(where: str, entry: object) -> int:
    """An extent of the new shape."""
    return at_least(where, "every new extent", entry, 1)


def _scaled_extent(where: str, extent: int, scale: object) -> tuple[int, Fraction]:
    """floor(extent * scale), and the scale as a ratio; float scales are float32, as in ONNX."""
    if not isinstance(scale, int | float | Fraction) or isinstance(scale, bool) or not 0 < scale <= MAX_EXTENT:
        raise OperatorError(f"{where}: every scale must be a positive number up to {MAX_EXTENT}, got {scale!r}")
    if isinstance(scale, Fraction):
        ratio, new = scale, int(extent * scale)
    else:
        ratio, new = simplest_ratio(scale), int(np.float32(extent) * np.float32(scale))
    if new < 1:
        raise OperatorError(f"{where}: the result must have elements, got scale {scale} for extent {extent}")
    return new, ratio


def simplest_ratio(scale: float) -> Fraction:
    """The simplest ratio that rounds to the scale in float32: 7 / 10 for 0.7."""
    exact, rounded = Fraction(scale), np.float32(scale)
    bounds = (1 << bits for bits in range(exact.denominator.bit_length() + 1))
    return next(ratio for ratio in map(exact.limit_denominator, bounds) if np.float32(ratio) == rounded)


def _resize_axis(extent: int, new: int, scale: Fraction, mode: str) -> _ResizeAxis:
    """The coordinates along one dimension."""
    up, down = scale.numerator, scale.denominator
    match mode:
        case "align_corners" if new == 1:
            return _ResizeAxis(extent, new, 0, 0, 1)
        case "align_corners":
            step = (extent - 1) / (scale * extent - 1)
            return _ResizeAxis(extent, new, step.numerator, 0, step.denominator)
        case "asymmetric":
            return _ResizeAxis(extent, new, down, 0, up)
        case "pytorch_half_pixel" if new == 1:
            return _ResizeAxis(extent, new, 0, 0, 1)
    return _ResizeAxis(extent, new, 2 * down, down - up, 2 * up) if down != up else _ResizeAxis(extent, new, 1, 0, 1)


# --- values ---------------------------------------------------------------------------------------


def _nearest(axis: _ResizeAxis, index: te.Value, nearest_mode: str) -> te.Value:
    """The index of the nearest element."""
    if axis.is_unchanged:
        return index
    numerator, parts = axis.numerator(index), axis.parts
    match nearest_mode:
        case "floor":
            nearest = numerator // parts
        case "ceil":
            nearest = (numerator + (parts - 1)) // parts
        case "round_prefer_ceil":
            nearest = (numerator * 2 + parts) // (2 * parts)
        case _:
            nearest = (numerator * 2 + (parts - 1)) // (2 * parts)
    return axis.clamp(nearest)


def _interpolate(
    x: te.Tensor, axes: Sequence[_ResizeAxis], i: Sequence[te.Value], leading: tuple[te.Value, ...]
) -> te.Value:
    """The value at index `i` of the result, given the `leading` indices of `x`."""
    d = len(leading)
    if d == len(axes):
        return to_accumulator(x[leading])
    axis = axes[d]
    if axis.is_unchanged:
        return _interpolate(x, axes, i, (*leading, i[d]))
    numerator = axis.numerator(i[d])
    low = numerator // axis.parts
    left = _interpolate(x, axes, i, (*leading, axis.clamp(low)))
    right = _interpolate(x, axes, i, (*leading, axis.clamp(low + 1)))
    weight = te.cast(left.dtype, numerator - low * axis.parts) / float(axis.parts)
    return left + (right - left) * weight
