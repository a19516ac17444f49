# SPDX-License-Identifier: Apache-2.0
"""Rules of images sampled between their elements: GridSample; and of Col2Im."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.graph.operators.record import OperatorRecord
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, in_float32
from vdla.compiler.graph.rules.windows import spatial_options
from vdla.compiler.ir import is_float

_CUBIC_A = -0.75
_MOST_TAPS = 16  # of one element; the expression has a term for each
_Tap = tuple[te.Value, te.Value]  # a whole place, as float64, and its weight


def _grid_sample(call: NodeCall) -> te.Tensor:
    """Coordinates of the grid run from -1 to 1, the last dimension first."""
    x, grid = call.tensor(0), call.tensor(1)
    if not is_float(x.dtype):
        call.decline(f"have an image of floats, got {x.dtype}")
    rank, mode = len(x.shape) - 2, call.attribute("mode").removeprefix("bi")
    if {"nearest": 1, "linear": 2, "cubic": 4}[mode] ** rank > _MOST_TAPS:
        call.decline(f"have at most {_MOST_TAPS} neighbours of an element")
    return in_float32(call, lambda t, g, name: _sampled(call, t, g, mode, name), x, grid)


def _sampled(call: NodeCall, x: te.Tensor, grid: te.Tensor, mode: str, name: str) -> te.Tensor:
    rank, padding = len(x.shape) - 2, call.attribute("padding_mode")
    align = bool(call.attribute("align_corners"))

    def place(*i: te.Value) -> te.Value:
        *at, d = i
        values = [_coordinate(te.cast("float64", grid[(*at, te.const(rank - 1 - axis, "int32"))]), x.shape[2 + axis],
                              padding if mode != "cubic" else "", align) for axis in range(rank)]  # fmt: skip
        chosen = values[-1]
        for axis in range(rank - 2, -1, -1):
            chosen = te.select(d == axis, values[axis], chosen)
        return chosen

    places = te.compute(grid.shape, place, f"{name}_places")

    def value(*i: te.Value) -> te.Value:
        n, c, *at = i
        taps = [_taps(mode, places[(n, *at, te.const(axis, "int32"))]) for axis in range(rank)]
        total: te.Value | None = None
        for corner in itertools.product(*taps):
            term = _element(x, (n, c), [tap[0] for tap in corner], padding, align)
            for _, weight in corner:
                term = term * te.cast(x.dtype, weight)
            total = term if total is None else total + term
        assert total is not None
        return total

    return te.compute((x.shape[0], x.shape[1], *grid.shape[1:-1]), value, name)


def _coordinate(unit: te.Value, extent: int, padding: str, align: bool) -> te.Value:
    """A coordinate of the image from one in -1..1, reflected or clamped by the padding mode."""
    place = (unit + 1.0) * ((extent - 1) / 2) if align else ((unit + 1.0) * float(extent) - 1.0) * 0.5
    if padding == "border":
        return te.clip(place, 0, extent - 1)
    return te.clip(_reflected(place, extent, align), 0, extent - 1) if padding == "reflection" else place


def _reflected(place: te.Value, extent: int, align: bool) -> te.Value:
    """A coordinate reflected at the outer elements, or at their outer edges."""
    low, span = (0.0, float(extent - 1)) if align else (-0.5, float(extent))
    if span == 0:
        return place * 0.0
    distance = te.abs(place - low)
    phase = distance - te.floor(distance / (2 * span)) * (2 * span)
    return te.select(phase > span, 2 * span - phase, phase) + low


def _taps(mode: str, place: te.Value) -> list[_Tap]:
    """The whole places around a coordinate, each with its weight."""
    if mode == "nearest":
        return [(te.round(place), te.const(1, "float64"))]
    low = te.floor(place)
    if mode == "linear":
        return [(low, low + 1.0 - place), (low + 1.0, place - low)]
    taps = []
    for step in (-1, 0, 1, 2):
        t = te.abs(place - low - float(step))
        near = ((_CUBIC_A + 2) * t - (_CUBIC_A + 3)) * t * t + 1.0
        far = ((_CUBIC_A * t - 5 * _CUBIC_A) * t + 8 * _CUBIC_A) * t - 4 * _CUBIC_A
        taps.append((low + float(step), far if step in (-1, 2) else near))
    return taps


def _element(
    x: te.Tensor, image: tuple[te.Value, te.Value], places: Sequence[te.Value], padding: str, align: bool
) -> te.Value:
    """The element at integer positions; outside the image 0, clamped or reflected."""
    index, inside = [], []
    for place, extent in zip(places, x.shape[2:], strict=True):
        here = _reflected(place, extent, align) if padding == "reflection" else place
        inside += [here >= 0, here <= float(extent - 1)]
        index.append(te.cast("int32", te.clip(here, 0, extent - 1)))
    element = x[(*image, *index)]
    return te.select(te.all_of(*inside), element, te.const(0, x.dtype)) if padding == "zeros" else element


def _col2im(call: NodeCall) -> te.Tensor:
    """Each element of the image is the sum of the blocks that cover it."""
    x, kernel = call.tensor(0), call.required(2, "block_shape")
    extents, rank = call.extents[2:], len(kernel)
    strides, dilations = spatial_options(call, rank)
    pads = call.attribute("pads", (0,) * (2 * rank))
    counts = [
        (extents[d] + pads[d] + pads[rank + d] - (kernel[d] - 1) * dilations[d] - 1) // strides[d] + 1
        for d in range(rank)
    ]

    def function(columns: te.Tensor, name: str) -> te.Tensor:
        taps = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(kernel)]

        def value(*i: te.Value) -> te.Value:
            row, block, conditions = i[1], te.const(0, "int32"), []
            for d in range(rank):
                start = i[2 + d] + pads[d] - taps[d] * dilations[d]
                window = start // strides[d]
                conditions += [window >= 0, window < counts[d], start % strides[d] == 0]
                row, block = row * kernel[d] + taps[d], block * counts[d] + window
            element = columns[i[0], row, block]
            return te.sum(te.select(te.all_of(*conditions), element, te.const(0, columns.dtype)), axis=taps)

        return te.compute(call.extents, value, name)

    if math.prod(counts) != x.shape[2]:
        call.decline(f"have {math.prod(counts)} blocks, got {x.shape[2]}")
    return in_float32(call, function, x)


SAMPLING = (
    OperatorRecord(name="Col2Im", fusion=FusionClass.REDUCTION, expression=_col2im),
    OperatorRecord(name="GridSample", fusion=FusionClass.REDUCTION, expression=_grid_sample),
)
