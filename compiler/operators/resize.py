"""Resizing by nearest neighbour or linear interpolation, along any dimensions, with the coordinates of ONNX.

A place o of the result lies at a real coordinate of `x`, by `coordinates`:
half_pixel (o + 1/2) / scale - 1/2, pytorch_half_pixel the same but 0 where one element results, asymmetric o / scale,
align_corners o * (extent - 1) / (new extent - 1). A scale is a ratio of integers, so coordinates are exact: the index
arithmetic has no floats, and only weights of the interpolation are rounded.
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
    several,
    static_extent,
)
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.support.integers import to_python

COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True, slots=True)
class Line:
    """One dimension: the coordinate of place o, of `places`, is (o * step + start) / parts, of `extent` elements."""

    extent: int
    places: int
    step: int
    start: int
    parts: int

    @property
    def unchanged(self) -> bool:
        """Whether each place is itself."""
        return self.step == self.parts and self.start == 0

    def numerator(self, place: te.Value) -> te.Value:
        """`parts` times the coordinate; in int64 where twice of it does not fit an int32."""
        most = 2 * (self.places * self.step + abs(self.start) + self.parts)
        return (place if most <= MAX_EXTENT else te.cast("int64", place)) * self.step + self.start

    def element(self, index: te.Value) -> te.Value:
        """The index of the element that is next to an index that may be outside."""
        return te.cast("int32", te.clip(index, 0, self.extent - 1))


def resize_nearest(
    x: te.Tensor,
    shape: Sequence[te.Dim] | None = None,
    scales: Sequence[float | Fraction] | None = None,
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
    name: str | None = None,
) -> te.Tensor:
    """The nearest element, of any dtype; exactly one of the new `shape` and `scales` is given, for every dimension."""
    check_tensor("resize_nearest", "x", x)
    check_choice("resize_nearest", "rounding", rounding, ROUNDINGS)
    target, lines = lines_of("resize_nearest", x, shape, scales, coordinates)

    def value(*i: te.Value) -> te.Value:
        return x[tuple(nearest(line, at, rounding) for line, at in zip(lines, i, strict=True))]

    return te.compute(target, value, result_name(x, "resize", name))


def resize_linear(
    x: te.Tensor,
    shape: Sequence[te.Dim] | None = None,
    scales: Sequence[float | Fraction] | None = None,
    coordinates: str = "half_pixel",
    name: str | None = None,
) -> te.Tensor:
    """Linear interpolation along every dimension that changes (bilinear for two); floats. Outside of the outermost
    elements the value is theirs."""
    check_float("resize_linear", "x", x)
    target, lines = lines_of("resize_linear", x, shape, scales, coordinates)

    def value(*i: te.Value) -> te.Value:
        return te.cast(x.dtype, interpolated(x, lines, i, ()))

    return te.compute(target, value, result_name(x, "resize", name))


# --- coordinates -----------------------------------------------------------------------------------------------------


def lines_of(
    where: str,
    x: te.Tensor,
    shape: Sequence[te.Dim] | None,
    scales: Sequence[float | Fraction] | None,
    coordinates: str,
) -> tuple[tuple[te.Dim, ...], list[Line]]:
    """The new shape and the coordinates along each dimension."""
    check_choice(where, "coordinates", coordinates, COORDINATES)
    if (shape is None) == (scales is None):
        raise OperatorError(f"{where}: exactly one of shape and scales must be given, got {shape} and {scales}")
    what = "shape" if scales is None else "scales"
    given = [to_python(entry) for entry in several(where, what, shape if scales is None else scales)]
    if len(given) != len(x.shape):
        raise OperatorError(f"{where}: {what} must have {len(x.shape)} entries, one a dimension, got {len(given)}")
    target: list[te.Dim] = []
    lines = []
    for extent, entry in zip(x.shape, given, strict=True):
        if is_unchanged(extent, entry, scales is not None):
            target.append(extent)
            lines.append(Line(1, 1, 1, 0, 1))
            continue
        extent = static_extent(where, "a dimension that changes", extent)
        new, scale = (new_extent(where, entry), None) if scales is None else scaled_extent(where, extent, entry)
        target.append(new)
        lines.append(line_of(extent, new, Fraction(new, extent) if scale is None else scale, coordinates))
    return tuple(target), lines


def is_unchanged(extent: te.Dim, entry: object, is_scale: bool) -> bool:
    """Whether a dimension stays: a scale of 1, or its own symbol."""
    if is_scale:
        return isinstance(entry, int | float | Fraction) and not isinstance(entry, bool) and entry == 1
    return isinstance(entry, te.Value) and same_extent(entry, extent)


def new_extent(where: str, entry: object) -> int:
    """An extent of the new shape."""
    return at_least(where, "every new extent", entry, 1)


def scaled_extent(where: str, extent: int, scale: object) -> tuple[int, Fraction]:
    """The new extent, floor(extent * scale), and the scale as a ratio; a float is one of float32, as ONNX has it."""
    if not isinstance(scale, int | float | Fraction) or isinstance(scale, bool) or not 0 < scale <= MAX_EXTENT:
        raise OperatorError(f"{where}: every scale must be a positive number up to {MAX_EXTENT}, got {scale!r}")
    if isinstance(scale, Fraction):
        ratio, new = scale, int(extent * scale)
    else:
        ratio, new = simplest(scale), int(np.float32(extent) * np.float32(scale))
    if new < 1:
        raise OperatorError(f"{where}: a result must have elements, got the scale {scale} for {extent}")
    return new, ratio


def simplest(scale: float) -> Fraction:
    """A ratio of few parts that is the scale in float32: 7 / 10 for 0.7."""
    exact, rounded = Fraction(scale), np.float32(scale)
    bounds = (1 << bits for bits in range(exact.denominator.bit_length() + 1))
    return next(ratio for ratio in map(exact.limit_denominator, bounds) if np.float32(ratio) == rounded)


def line_of(extent: int, new: int, scale: Fraction, coordinates: str) -> Line:
    """The coordinates along one dimension."""
    up, down = scale.numerator, scale.denominator
    match coordinates:
        case "align_corners":
            return Line(extent, new, extent - 1, 0, new - 1) if new > 1 else Line(extent, new, 0, 0, 1)
        case "asymmetric":
            return Line(extent, new, down, 0, up)
        case "pytorch_half_pixel" if new == 1:
            return Line(extent, new, 0, 0, 1)
    return Line(extent, new, 2 * down, down - up, 2 * up) if down != up else Line(extent, new, 1, 0, 1)


# --- values ----------------------------------------------------------------------------------------------------------


def nearest(line: Line, place: te.Value, rounding: str) -> te.Value:
    """The index of the nearest element."""
    if line.unchanged:
        return place
    above, parts = line.numerator(place), line.parts
    match rounding:
        case "floor":
            index = above // parts
        case "ceil":
            index = (above + (parts - 1)) // parts
        case "round_prefer_ceil":
            index = (above * 2 + parts) // (2 * parts)
        case _:
            index = (above * 2 + (parts - 1)) // (2 * parts)
    return line.element(index)


def interpolated(x: te.Tensor, lines: Sequence[Line], at: Sequence[te.Value], chosen: tuple[te.Value, ...]) -> te.Value:
    """The value at a point, the first dimensions having been chosen; narrow floats in float32."""
    d = len(chosen)
    if d == len(lines):
        return to_accumulator(x[chosen])
    line = lines[d]
    if line.unchanged:
        return interpolated(x, lines, at, (*chosen, at[d]))
    above = line.numerator(at[d])
    low = above // line.parts
    left = interpolated(x, lines, at, (*chosen, line.element(low)))
    right = interpolated(x, lines, at, (*chosen, line.element(low + 1)))
    weight = te.cast(left.dtype, above - low * line.parts) / float(line.parts)
    return left + (right - left) * weight
