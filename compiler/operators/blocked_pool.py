"""Pooling of images in blocks of channels, [N, C / L, H, W, L]. Options are ONNX's."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.ir import is_float, limits
from vdla.compiler.operators.blocked import check_blocked, check_channels
from vdla.compiler.operators.checks import check_float, check_number, number, static_extent
from vdla.compiler.operators.pool import check_windows_cover_input, element_count, reduce_windows
from vdla.compiler.operators.quantisation import check_clip, check_quantised, check_zero_point, requantise
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.operators.windows import Ints, windows_of

_WINDOWS = {OPERATOR: "blocked_window"}


def blocked_max_pool(
    x: te.Tensor,
    kernel_shape: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> te.Tensor:
    """The largest element of each window, [N, C / L, OH, OW, L]; integers and floats."""
    where = "blocked_max_pool"
    check_number(where, "x", x)
    check_blocked(where, "x", x)
    windows = windows_of(where, x.shape[2:4], kernel_shape, strides, pads, dilations, ceil_mode)
    check_windows_cover_input(where, windows)
    result = result_name(x, where, name)
    largest = reduce_windows(te.max, x, windows, limits(x.dtype)[0], f"{result}_max", lambda v: v, _WINDOWS)
    return te.compute(largest.shape, lambda *i: largest[i], result)


def blocked_average_pool(
    x: te.Tensor,
    kernel_shape: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    name: str | None = None,
) -> te.Tensor:
    """The mean of each window, [N, C / L, OH, OW, L]; floats."""
    where = "blocked_average_pool"
    check_float(where, "x", x)
    check_blocked(where, "x", x)
    windows = windows_of(where, x.shape[2:4], kernel_shape, strides, pads, dilations, ceil_mode)
    check_windows_cover_input(where, windows)
    result = result_name(x, where, name)
    total = reduce_windows(te.sum, x, windows, 0, f"{result}_sum", annotations=_WINDOWS)

    def value(*i: te.Value) -> te.Value:
        count = te.cast(total.dtype, element_count(windows, i[2:4], count_include_pad))
        return te.cast(x.dtype, total[i] / count)

    return te.compute(total.shape, value, result)


def blocked_global_average_pool(x: te.Tensor, channels: int, name: str | None = None) -> te.Tensor:
    """The mean of each channel: [N, channels, 1, 1]; floats."""
    where = "blocked_global_average_pool"
    check_float(where, "x", x)
    blocks, lanes = check_blocked(where, "x", x)
    count = check_channels(where, channels, blocks, lanes)
    height, width = (static_extent(where, f"extent {d} of x", x.shape[d]) for d in (2, 3))
    result = result_name(x, where, name)
    total = sum_of_pixels(x, f"{result}_sum")

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        return te.cast(x.dtype, total[n, c // lanes, c % lanes] / float(height * width))

    return te.compute((x.shape[0], count, 1, 1), value, result)


def blocked_qglobal_average_pool(
    x: te.Tensor,
    channels: int,
    scale: float,
    x_zero_point: int = 0,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    clip: tuple[int, int] | None = None,
    name: str | None = None,
) -> te.Tensor:
    """The sum of uint8 or int8 pixels less their zero points, times `scale`: [N, channels, 1, 1].

    `scale` is x_scale / (y_scale * pixels), rounded to float32. Results lie within `clip`.
    """
    where = "blocked_qglobal_average_pool"
    check_quantised(where, "x", x)
    blocks, lanes = check_blocked(where, "x", x)
    count = check_channels(where, channels, blocks, lanes)
    height, width = (static_extent(where, f"extent {d} of x", x.shape[d]) for d in (2, 3))
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype) * height * width
    check_zero_point(where, "y_zero_point", y_zero_point, dtype)
    check_clip(where, clip, dtype)
    factor = te.const(float(number(where, "scale", scale)), "float32")
    result = result_name(x, where, name)
    total = sum_of_pixels(x, f"{result}_sum")

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        centred = total[n, c // lanes, c % lanes] - zero
        return requantise(centred, factor, y_zero_point, dtype, 255 * height * width, clip)

    return te.compute((x.shape[0], count, 1, 1), value, result)


def sum_of_pixels(x: te.Tensor, name: str) -> te.Tensor:
    """[N, C / L, L]: the sum of each channel; integers as int32."""
    h, w = te.reduce_axis(x.shape[2], "h"), te.reduce_axis(x.shape[3], "w")

    def value(n: te.Value, cb: te.Value, c: te.Value) -> te.Value:
        element = x[n, cb, h, w, c]
        return te.sum(to_accumulator(element) if is_float(x.dtype) else te.cast("int32", element), axis=[h, w])

    return te.compute((x.shape[0], x.shape[1], x.shape[4]), value, name)
