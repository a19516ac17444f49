"""Pooling over any number of spatial dimensions: [N, C, spatial...] to [N, C, windows...].

Options are those of ONNX: strides, pads (before each dimension, then after each), dilations, ceil_mode. Padding never
is the maximum of a window; it counts in an average only with `count_include_pad`.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.ir import limits
from vdla.compiler.operators.checks import OperatorError, check_float, check_number, check_rank
from vdla.compiler.operators.reduction import max as reduce_max
from vdla.compiler.operators.reduction import mean
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.windows import Ints, Windows, windows_of


def max_pool(
    x: te.Tensor,
    kernel: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> te.Tensor:
    """The largest element of each window; integers and floats."""
    check_rank("max_pool", "x", x, 3)
    check_number("max_pool", "x", x)
    windows = pooling_windows("max_pool", x, kernel, strides, pads, dilations, ceil_mode)
    return pooled(te.max, x, windows, limits(x.dtype)[0], result_name(x, "max_pool", name))


def average_pool(
    x: te.Tensor,
    kernel: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    name: str | None = None,
) -> te.Tensor:
    """The mean of each window; floats. What lies behind the padding (ceil_mode) never counts."""
    check_rank("average_pool", "x", x, 3)
    check_float("average_pool", "x", x)
    windows = pooling_windows("average_pool", x, kernel, strides, pads, dilations, ceil_mode)
    result = result_name(x, "average_pool", name)
    total = pooled(te.sum, x, windows, 0, f"{result}_sum")

    def value(*at: te.Value) -> te.Value:
        return te.cast(x.dtype, total[at] / te.cast(total.dtype, members(windows, at[2:], count_include_pad)))

    return te.compute(total.shape, value, result)


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


# --- parts -----------------------------------------------------------------------------------------------------------


def pooling_windows(
    where: str, x: te.Tensor, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, ceil_mode: bool
) -> Windows:
    """The windows over the spatial dimensions of `x`; each holds at least one element of it."""
    windows = windows_of(where, x.shape[2:], kernel, strides, pads, dilations, ceil_mode)
    for d, count in enumerate(windows.counts):
        empty = next((n for n in range(count) if not windows.holds(d, n)), None)
        if empty is not None:
            rule = "every window must hold an element of x"
            raise OperatorError(f"{where}: {rule}, got none in window {empty} along spatial dimension {d}")
    return windows


def pooled(reducer: te.Reducer, x: te.Tensor, windows: Windows, padding: te.Number, name: str) -> te.Tensor:
    """The elements of each window combined, `padding` where there are none; sums of narrow floats in float32."""
    taps = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(windows.kernel)]

    def value(*at: te.Value) -> te.Value:
        places = [windows.position(d, at[2 + d], tap) for d, tap in enumerate(taps)]
        element = x[(*at[:2], *places)] if reducer is te.max else to_accumulator(x[(*at[:2], *places)])
        if inside := windows.inside(places):
            element = te.select(te.all_of(*inside), element, te.const(padding, element.dtype))
        return reducer(element, axis=taps)

    return te.compute((*x.shape[:2], *windows.counts), value, name)


def members(windows: Windows, at: Sequence[te.Value], padding_counts: bool) -> te.Value:
    """The number of elements that a window averages, as int32."""
    number = te.const(1, "int32")
    for d, window in enumerate(at):
        number = number * members_along(windows, d, window, padding_counts)
    return number


def members_along(windows: Windows, d: int, window: te.Value, padding_counts: bool) -> te.Value:
    """The taps of a window that count, along one spatial dimension."""
    low = -windows.before[d] if padding_counts else 0
    high = windows.extents[d] + (windows.after[d] if padding_counts else 0)
    taps, gap = windows.kernel[d], windows.dilations[d]
    if low == -windows.before[d] and windows.last(d) < high:
        return te.const(taps, "int32")
    start = window * windows.strides[d] - windows.before[d]
    first = te.maximum((low - start + gap - 1) // gap, 0)
    return te.minimum((high - start + gap - 1) // gap, taps) - first
