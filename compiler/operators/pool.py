# SPDX-License-Identifier: Apache-2.0
"""Pooling over any number of spatial dimensions: [N, C, spatial...] to [N, C, windows...].

Options are ONNX's. Padding is ignored by a maximum, and counts in an average only with
`count_include_pad`. `layout` "NCHW16c" is an image in blocks of 16 channels, [N, C / 16, H, W, 16],
and a result in such blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.ir import is_float, limits
from vdla.compiler.operators.blocked import check_channels
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_float,
    check_number,
    check_rank,
    number,
    static_extent,
)
from vdla.compiler.operators.elementwise import Body, elementwise, integer_power, magnitude, root
from vdla.compiler.operators.layouts import image_block
from vdla.compiler.operators.quantisation import check_clip, check_quantised, check_zero_point, requantise
from vdla.compiler.operators.reduction import max as reduce_max
from vdla.compiler.operators.reduction import mean, reduce_with
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.roles import OPERATOR, WINDOW_ROWS
from vdla.compiler.operators.window_rows import window_rows
from vdla.compiler.operators.windows import Ints, in_image, select_if, windows_of
from vdla.support.window import Window

_PLAIN = "NCHW"
_IMAGE_RANK = 4
_FEWEST_COLUMNS = 4  # of results, for lanes along rows


def max_pool(
    x: te.Tensor,
    kernel_shape: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    name: str | None = None,
) -> te.Tensor:
    """The largest element of each window; integers and floats."""
    where = "max_pool"
    check_number(where, "x", x)
    windows = _windows_of_pool(where, x, kernel_shape, strides, pads, dilations, ceil_mode, layout)
    result, least = result_name(x, where, name), limits(x.dtype)[0]
    largest = reduce_windows(te.max, x, windows, least, f"{result}_max", lambda v: v)
    return te.compute(largest.shape, lambda *i: largest[i], result)


def average_pool(
    x: te.Tensor,
    kernel_shape: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = "NCHW",
    name: str | None = None,
) -> te.Tensor:
    """The mean of each window; floats. Positions beyond the padding (`ceil_mode`) are ignored."""
    where = "average_pool"
    check_float(where, "x", x)
    windows = _windows_of_pool(where, x, kernel_shape, strides, pads, dilations, ceil_mode, layout)
    result = result_name(x, where, name)
    total = reduce_windows(te.sum, x, windows, 0, f"{result}_sum")

    def value(*i: te.Value) -> te.Value:
        count = element_count(windows, i[2 : 2 + len(windows.size)], count_include_pad)
        return te.cast(x.dtype, total[i] / te.cast(total.dtype, count))

    return te.compute(total.shape, value, result)


def max_pool_indices(
    x: te.Tensor,
    kernel_shape: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> te.Tensor:
    """For each window the int64 row-major position in `x` of its largest element, the first of
    equal ones.
    """
    check_number("max_pool_indices", "x", x)
    windows = _windows_of_pool("max_pool_indices", x, kernel_shape, strides, pads, dilations, ceil_mode)
    result = result_name(x, "max_pool_indices", name)
    taps = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(windows.taps)]
    beyond = te.const(math.prod(windows.size), "int32")

    def best(*i: te.Value) -> tuple[te.Value, te.Value]:
        position = [windows.position(d, i[2 + d], tap) for d, tap in enumerate(taps)]
        place = position[0]
        for extent, index in zip(windows.size[1:], position[1:], strict=True):
            place = place * extent + index
        element = x[(*i[:2], *position)]
        inside = in_image(windows, position)
        element = select_if(inside, element, te.const(limits(x.dtype)[0], x.dtype))
        return te.argmax(element, taps, position=select_if(inside, place, beyond))

    shape = (*x.shape[:2], *windows.places)
    place = te.compute(shape, best, (f"{result}_value", f"{result}_place"))[1]

    def value(*i: te.Value) -> te.Value:
        image: te.Value = te.cast("int64", i[0]) * x.shape[1] + te.cast("int64", i[1])
        return image * math.prod(windows.size) + te.cast("int64", place[i])

    return te.compute(shape, value, result)


def lp_pool(
    x: te.Tensor,
    kernel_shape: Ints,
    p: int = 2,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> te.Tensor:
    """The p-norm of each window, the p-th root of the sum of |x|^p; floats."""
    check_float("lp_pool", "x", x)
    order = at_least("lp_pool", "p", p, 1)
    windows = _windows_of_pool("lp_pool", x, kernel_shape, strides, pads, dilations, ceil_mode)
    result = result_name(x, "lp_pool", name)
    total = reduce_windows(
        te.sum, x, windows, 0, f"{result}_sum", lambda v: integer_power(magnitude(to_accumulator(v)), order)
    )
    return elementwise(total, lambda v: te.cast(x.dtype, root(v, order)), result)


def global_lp_pool(x: te.Tensor, p: int = 2, name: str | None = None) -> te.Tensor:
    """The p-norm of each channel: [N, C, 1, ...]."""
    check_rank("global_lp_pool", "x", x, 3)
    check_float("global_lp_pool", "x", x)
    order = at_least("global_lp_pool", "p", p, 1)
    result, axes = result_name(x, "global_lp_pool", name), tuple(range(2, len(x.shape)))

    def term(v: te.Value) -> te.Value:
        return integer_power(magnitude(to_accumulator(v)), order)

    total = reduce_with(te.sum, x, axes, True, f"{result}_sum", term)
    return elementwise(total, lambda v: te.cast(x.dtype, root(v, order)), result)


def global_max_pool(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The largest element of each channel: [N, C, 1, ...]."""
    check_rank("global_max_pool", "x", x, 3)
    result = result_name(x, "global_max_pool", name)
    return reduce_max(x, range(2, len(x.shape)), keepdims=True, name=result)


def global_average_pool(
    x: te.Tensor, layout: str = "NCHW", channels: int | None = None, name: str | None = None
) -> te.Tensor:
    """The mean of each channel: [N, C, 1, ...]; of an image in blocks [N, channels, 1, 1]."""
    where = "global_average_pool"
    check_rank(where, "x", x, 3)
    result = result_name(x, where, name)
    if layout == _PLAIN:
        return mean(x, range(2, len(x.shape)), keepdims=True, name=result)
    check_float(where, "x", x)
    lanes, count, pixels = _blocks_of_channels(where, x, layout, channels)
    total = _sum_of_pixels(x, f"{result}_sum")

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        return te.cast(x.dtype, total[n, c // lanes, c % lanes] / float(pixels))

    return te.compute((x.shape[0], count, 1, 1), value, result)


def qglobal_average_pool(
    x: te.Tensor,
    layout: str,
    channels: int,
    scale: float,
    x_zero_point: int = 0,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    clip: tuple[int, int] | None = None,
    name: str | None = None,
) -> te.Tensor:
    """The sum of uint8 or int8 pixels less their zero points, times `scale`: [N, channels, 1, 1].

    x is in blocks of channels. `scale` is x_scale / (y_scale * pixels), rounded to float32. Results
    lie within `clip`.
    """
    where = "qglobal_average_pool"
    check_quantised(where, "x", x)
    lanes, count, pixels = _blocks_of_channels(where, x, layout, channels)
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype) * pixels
    check_zero_point(where, "y_zero_point", y_zero_point, dtype)
    check_clip(where, clip, dtype)
    factor = te.const(float(number(where, "scale", scale)), "float32")
    result = result_name(x, where, name)
    total = _sum_of_pixels(x, f"{result}_sum")

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        centred = total[n, c // lanes, c % lanes] - zero
        return requantise(centred, factor, y_zero_point, dtype, 255 * pixels, clip)

    return te.compute((x.shape[0], count, 1, 1), value, result)


# --- parts ----------------------------------------------------------------------------------------


def _windows_of_pool(
    where: str,
    x: te.Tensor,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    ceil_mode: bool,
    layout: str = _PLAIN,
) -> Window:
    """The windows over the spatial dimensions of `x`; each must cover at least one element."""
    check_rank(where, "x", x, 3)
    plain = layout == _PLAIN or image_block(where, x, layout) is None
    windows = windows_of(where, x.shape[2 : None if plain else 4], kernel_shape, strides, pads, dilations, ceil_mode)
    check_windows_cover_input(where, windows)
    return windows


def _blocks_of_channels(where: str, x: te.Tensor, layout: str, channels: int | None) -> tuple[int, int, int]:
    """The lanes, the channels and the pixels of an image in blocks."""
    lanes = image_block(where, x, layout) or 1
    blocks, height, width = (static_extent(where, f"extent {d} of x", x.shape[d]) for d in (1, 2, 3))
    return lanes, check_channels(where, channels, blocks, lanes), height * width


def _sum_of_pixels(x: te.Tensor, name: str) -> te.Tensor:
    """[N, C / L, L]: the sum of each channel; integers as int32."""
    h, w = te.reduce_axis(x.shape[2], "h"), te.reduce_axis(x.shape[3], "w")

    def value(n: te.Value, cb: te.Value, c: te.Value) -> te.Value:
        element = x[n, cb, h, w, c]
        return te.sum(to_accumulator(element) if is_float(x.dtype) else te.cast("int32", element), axis=[h, w])

    return te.compute((x.shape[0], x.shape[1], x.shape[4]), value, name)


def check_windows_cover_input(where: str, windows: Window) -> None:
    """Refuse windows if one covers no element of the input."""
    for d in range(len(windows.size)):
        covers = windows.reads_image(d).any(axis=1)
        if not covers.all():
            text = f"none in window {covers.argmin()} along spatial dimension {d}"
            raise OperatorError(f"{where}: every window must cover an element of x, got {text}")


def reduce_windows(
    reducer: te.Reducer,
    x: te.Tensor,
    windows: Window,
    padding: te.Number,
    name: str,
    body: Body = to_accumulator,
) -> te.Tensor:
    """The reduction of `body` over each window; the elements outside `x` are `padding`.

    Dimensions of `x` behind the spatial ones stay: the lanes of an image in blocks.
    """
    taps = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(windows.taps)]
    last = 2 + len(taps)
    if last == len(x.shape) == _IMAGE_RANK and windows.places[1] >= _FEWEST_COLUMNS:
        return _reduce_rows(reducer, x, windows, padding, name, body)

    def value(*i: te.Value) -> te.Value:
        position = [windows.position(d, i[2 + d], tap) for d, tap in enumerate(taps)]
        inside, element = in_image(windows, position), x[(*i[:2], *position, *i[last:])]
        return reducer(body(select_if(inside, element, te.const(padding, x.dtype))), axis=taps)

    annotations = {OPERATOR: "blocked_window"} if x.shape[last:] else None
    return te.compute((*x.shape[:2], *windows.places, *x.shape[last:]), value, name, annotations)


def _reduce_rows(
    reducer: te.Reducer, x: te.Tensor, windows: Window, padding: te.Number, name: str, body: Body
) -> te.Tensor:
    """The reduction of `body` over each window of a plain image, by the schedule of rows."""
    kh, kw = (te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(windows.taps))
    element = window_rows(x, windows, f"{name}_pad", padding)

    def value(n: te.Value, c: te.Value, oh: te.Value, ow: te.Value) -> te.Value:
        return reducer(body(element(n, c, oh, ow, kh, kw)), axis=[kh, kw])

    return te.compute((*x.shape[:2], *windows.places), value, name, {OPERATOR: WINDOW_ROWS})


def element_count(windows: Window, index: Sequence[te.Value], padding_counts: bool) -> te.Value:
    """The number of elements in the average of a window, as int32."""
    count = te.const(1, "int32")
    for d, window in enumerate(index):
        count = count * _count_along(windows, d, window, padding_counts)
    return count


def _count_along(windows: Window, d: int, window: te.Value, padding_counts: bool) -> te.Value:
    """The taps of a window that count along one spatial dimension."""
    low = -windows.before[d] if padding_counts else 0
    high = windows.size[d] + (windows.after[d] if padding_counts else 0)
    taps, gap = windows.taps[d], windows.dilations[d]
    if low == -windows.before[d] and windows.last(d) < high:
        return te.const(taps, "int32")
    start = window * windows.strides[d] - windows.before[d]
    first = te.maximum((low - start + gap - 1) // gap, 0)
    return te.minimum((high - start + gap - 1) // gap, taps) - first
