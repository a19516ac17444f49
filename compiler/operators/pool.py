"""Pooling over any number of spatial dimensions: [N, C, spatial...] to [N, C, windows...].

Options are ONNX's. Padding is never the maximum of a window, and counts in an average only with
`count_include_pad`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from vdla.compiler import te
from vdla.compiler.ir import limits
from vdla.compiler.operators.checks import OperatorError, at_least, check_float, check_number, check_rank
from vdla.compiler.operators.elementwise import Body, elementwise, integer_power, magnitude, root
from vdla.compiler.operators.reduction import max as reduce_max
from vdla.compiler.operators.reduction import mean, reduce_with
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.windows import Ints, in_image, windows_of
from vdla.support.window import Window


def max_pool(
    x: te.Tensor,
    kernel_shape: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> te.Tensor:
    """The largest element of each window; integers and floats."""
    check_rank("max_pool", "x", x, 3)
    check_number("max_pool", "x", x)
    windows = _pooling_windows("max_pool", x, kernel_shape, strides, pads, dilations, ceil_mode)
    return reduce_windows(te.max, x, windows, limits(x.dtype)[0], result_name(x, "max_pool", name), lambda v: v)


def average_pool(
    x: te.Tensor,
    kernel_shape: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    name: str | None = None,
) -> te.Tensor:
    """The mean of each window; floats. Positions beyond the padding (`ceil_mode`) never count."""
    check_rank("average_pool", "x", x, 3)
    check_float("average_pool", "x", x)
    windows = _pooling_windows("average_pool", x, kernel_shape, strides, pads, dilations, ceil_mode)
    result = result_name(x, "average_pool", name)
    total = reduce_windows(te.sum, x, windows, 0, f"{result}_sum")

    def value(*i: te.Value) -> te.Value:
        return te.cast(x.dtype, total[i] / te.cast(total.dtype, element_count(windows, i[2:], count_include_pad)))

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
    check_rank("max_pool_indices", "x", x, 3)
    check_number("max_pool_indices", "x", x)
    windows = _pooling_windows("max_pool_indices", x, kernel_shape, strides, pads, dilations, ceil_mode)
    result = result_name(x, "max_pool_indices", name)
    taps = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(windows.taps)]
    beyond = te.const(math.prod(windows.size), "int32")

    def best(*i: te.Value) -> tuple[te.Value, te.Value]:
        position = [windows.position(d, i[2 + d], tap) for d, tap in enumerate(taps)]
        place = position[0]
        for extent, index in zip(windows.size[1:], position[1:], strict=True):
            place = place * extent + index
        element = x[(*i[:2], *position)]
        if inside := in_image(windows, position):
            element = te.select(te.all_of(*inside), element, te.const(limits(x.dtype)[0], x.dtype))
            place = te.select(te.all_of(*inside), place, beyond)
        return te.argmax(element, taps, position=place)

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
    check_rank("lp_pool", "x", x, 3)
    check_float("lp_pool", "x", x)
    order = at_least("lp_pool", "p", p, 1)
    windows = _pooling_windows("lp_pool", x, kernel_shape, strides, pads, dilations, ceil_mode)
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


def global_average_pool(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The mean of each channel: [N, C, 1, ...]."""
    check_rank("global_average_pool", "x", x, 3)
    result = result_name(x, "global_average_pool", name)
    return mean(x, range(2, len(x.shape)), keepdims=True, name=result)


# --- parts ----------------------------------------------------------------------------------------


def _pooling_windows(
    where: str, x: te.Tensor, kernel_shape: Ints, strides: Ints, pads: Ints, dilations: Ints, ceil_mode: bool
) -> Window:
    """The windows over the spatial dimensions of `x`; each must cover at least one element."""
    windows = windows_of(where, x.shape[2:], kernel_shape, strides, pads, dilations, ceil_mode)
    check_windows_cover_input(where, windows)
    return windows


def check_windows_cover_input(where: str, windows: Window) -> None:
    """Refuse windows of which one covers no element of the input."""
    for d in range(len(windows.size)):
        covers = windows.reads_image(d).any(axis=1)
        if not covers.all():
            found = f"none in window {covers.argmin()} along spatial dimension {d}"
            raise OperatorError(f"{where}: every window must cover an element of x, got {found}")


def reduce_windows(
    reducer: te.Reducer,
    x: te.Tensor,
    windows: Window,
    padding: te.Number,
    name: str,
    body: Body = to_accumulator,
    annotations: Mapping[str, str] | None = None,
) -> te.Tensor:
    """The reduction of `body` of each window's elements, with `padding` outside of `x`.

    The dimensions of `x` behind those of the windows stay: the lanes of an image in blocks.
    """
    taps = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(windows.taps)]
    last = 2 + len(taps)

    def value(*i: te.Value) -> te.Value:
        position = [windows.position(d, i[2 + d], tap) for d, tap in enumerate(taps)]
        element = body(x[(*i[:2], *position, *i[last:])])
        if inside := in_image(windows, position):
            element = te.select(te.all_of(*inside), element, te.const(padding, element.dtype))
        return reducer(element, axis=taps)

    return te.compute((*x.shape[:2], *windows.places, *x.shape[last:]), value, name, annotations)


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
