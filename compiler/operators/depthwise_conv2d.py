# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution: one kernel a channel, or several with a channel multiplier.

The stages: `<name>_pad` the padded image; `<name>_sum` the sums, starting from the bias; `<name>`
the sums in the dtype of the image. Vector lanes run along the rows of a plain image
(`window_rows.py`). An image in blocks has its channels in lanes and is not padded: windows at the
border skip the taps outside the image.

The quantised one is ONNX's QLinearConv with symmetric int8 kernels: `<name>_data` is the padded
input, `<name>_sum` are int32 sums. With lanes along rows, `<name>` drops the padding of the last
vector of `<name>_rescaled`. `pack_qdepthwise_conv2d` makes weight, bias and scale.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import Array
from vdla.compiler.operators.blocked import blocks_of
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_bias,
    check_number,
    check_rank,
    check_same_dtype,
    check_weights,
    static_extent,
    static_extents,
    target_of,
)
from vdla.compiler.operators.layouts import image_block
from vdla.compiler.operators.quantisation import (
    Requantisation,
    activation_shift,
    check_quantised,
    check_requantisation,
    check_zero_point,
    convert_activation,
    packed_extents,
    packing_error,
)
from vdla.compiler.operators.quantised_weights import WindowLayout, block_layout, row_layout
from vdla.compiler.operators.results import result_name, sum_of_products
from vdla.compiler.operators.roles import DATA, OPERATOR, PLACED, RESCALED, RESULT, STRIDE
from vdla.compiler.operators.window_rows import window_rows
from vdla.compiler.operators.windows import Ints, in_image, sampled_position, select_if, windows_of
from vdla.compiler.target import Target
from vdla.support.window import Window

_NAME = "depthwise_conv2d"


def depthwise_conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    layout: str = "NCHW",
    name: str | None = None,
) -> te.Tensor:
    """x [N, C, H, W], weight [C * m, 1, KH, KW], bias [C * m] -> [N, C * m, OH, OW].

    m is the channel multiplier: input channel c gives the output channels c * m to c * m + m - 1.
    `layout` "NCHW16c" is an image in blocks of 16 channels, [N, C / 16, H, W, 16], with one kernel
    a channel: `pack_depthwise_conv2d` makes the weight [C / 16, KH, KW, 16], `pack_channels` the
    bias, and the result has blocks, too. float16 and bfloat16 are summed in float32; integers wrap.
    """
    block = image_block(_NAME, x, layout)
    kernel_shape = _checked_kernel_shape(x, weight, bias, block)
    windows = windows_of(_NAME, x.shape[2:4], kernel_shape, strides, pads, dilations)
    result = result_name(x, _NAME, name)
    if block is None:
        total = _sums_of_rows(x, weight, bias, windows, result)
    else:
        total = _sums_of_blocks(x, weight, bias, windows, f"{result}_sum")
    return te.compute(total.shape, lambda *i: te.cast(x.dtype, total[i]), result)


def pack_depthwise_conv2d(weight: Array, lanes: int) -> Array:
    """Packs a weight [C, 1, KH, KW] as [C / lanes, KH, KW, lanes], padded with zeros."""
    where = "pack_depthwise_conv2d"
    check_weights(where, weight, "[C, 1, KH, KW]")
    if weight.shape[1] != 1:
        raise OperatorError(f"{where}: weight must be [C, 1, KH, KW], got {list(weight.shape)}")
    count = at_least(where, "lanes", lanes, 1)
    padded = np.pad(weight[:, 0], ((0, -len(weight) % count), (0, 0), (0, 0)))
    blocks = padded.reshape(blocks_of(len(weight), count), count, *weight.shape[2:])
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 1))


# --- stages ---------------------------------------------------------------------------------------


def _sums_of_rows(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, windows: Window, name: str) -> te.Tensor:
    """[N, C * m, OH, OW]: the sums, with the bias."""
    taps = te.reduce_axis(windows.taps[0], "kh"), te.reduce_axis(windows.taps[1], "kw")
    multiplier, element = weight.shape[0] // x.shape[1], window_rows(x, windows, f"{name}_pad")

    def value(n: te.Value, c: te.Value, oh: te.Value, ow: te.Value) -> te.Value:
        channel = c if multiplier == 1 else c // multiplier
        start = None if bias is None else bias[c]
        return sum_of_products(element(n, channel, oh, ow, *taps), weight[c, 0, taps[0], taps[1]], taps, start)

    shape = (x.shape[0], weight.shape[0], *windows.places)
    return te.compute(shape, value, f"{name}_sum", {OPERATOR: _NAME})


def _sums_of_blocks(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, windows: Window, name: str) -> te.Tensor:
    """[N, C / lanes, OH, OW, lanes]: the sums, with the bias."""
    kh, kw = te.reduce_axis(windows.taps[0], "kh"), te.reduce_axis(windows.taps[1], "kw")
    lanes = x.shape[4]

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        position = windows.position(0, oh, kh), windows.position(1, ow, kw)
        element = select_if(in_image(windows, position), x[(n, cb, *position, c)], te.const(0, x.dtype))
        start = None if bias is None else bias[cb * lanes + c]
        return sum_of_products(element, weight[cb, kh, kw, c], [kh, kw], start)

    return te.compute((*x.shape[:2], *windows.places, lanes), value, name, {OPERATOR: "blocked_window"})


def _checked_kernel_shape(
    x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, block: int | None
) -> tuple[int, ...]:
    """The taps of a weight; refuses operands whose dtypes or extents do not fit together."""
    check_number(_NAME, "x", x)
    check_rank(_NAME, "weight", weight, 4, 4)
    check_same_dtype(_NAME, x, weight, *([] if bias is None else [bias]))
    channels = static_extent(_NAME, "extent 1 of x", x.shape[1])
    extents = static_extents(_NAME, "weight's extent", weight.shape)
    if block is None:
        if extents[1] != 1 or extents[0] % channels:
            raise OperatorError(f"{_NAME}: weight must be [{channels} * m, 1, KH, KW], got {extents}")
        check_bias(_NAME, bias, extents[0])
        return tuple(extents[2:])
    if (extents[0], extents[3]) != (channels, block):
        raise OperatorError(f"{_NAME}: weight must be [{channels}, KH, KW, {block}], got {extents}")
    check_bias(_NAME, bias, channels * block)
    return tuple(extents[1:3])


# --- quantised ------------------------------------------------------------------------------------


def qdepthwise_conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor,
    scale: te.Tensor,
    target: Target | str,
    kernel_shape: Ints,
    x_zero_point: int = 0,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    largest_sum: int | None = None,
    clip: tuple[int, int] | None = None,
    layout: str = "NCHW",
    name: str | None = None,
) -> te.Tensor:
    """The depthwise convolution of uint8 or int8 `x` with int8 kernels; the result has `dtype`.

    `weight` is int8 [C, KH, groups, taps], or [C / lanes, KH, groups, lanes, taps] for the layout
    "NCHW<lanes>c" of x and the result, as `pack_qdepthwise_conv2d` makes it for `target`, `bias`
    int32 [C] and `scale` float32 [C]. Results lie within `clip`. Padding has the value
    `x_zero_point`.
    """
    where = name or "qdepthwise_conv2d"
    block = image_block(where, x, layout)
    check_quantised(where, "x", x)
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype)
    windows = windows_of(where, x.shape[2:4], kernel_shape, strides, pads, dilations)
    form = (row_layout if block is None else block_layout)(target_of(where, target), windows)
    channels = _packed_channels(where, x, block, weight, windows, form)
    start = bias if block is None else None
    requantisation = Requantisation(scale, y_zero_point, dtype, largest_sum, clip, start)
    check_requantisation(where, bias, channels, requantisation)
    result = result_name(x, "qdepthwise_conv2d", name)
    places = windows.places[1] if block is not None else -(-windows.places[1] // form.lanes) * form.lanes
    data = _data(x, windows, form.columns(windows.sampled, places), form.data, zero, f"{result}_data")
    if block is not None:
        total = _dots_of_blocks(data, weight, bias, windows.sampled, form, result)
        return requantisation.results(total, lambda *i: i[1] * block + i[4], result)
    total = _dots_of_rows(data, weight, windows.sampled, form, result)
    rescaled = requantisation.results(total, lambda *i: i[1], f"{result}_rescaled", PLACED)

    def value(n: te.Value, c: te.Value, y: te.Value, w: te.Value) -> te.Value:
        return rescaled[n, c, y, w // form.lanes, w % form.lanes]

    return te.compute((*x.shape[:2], *windows.places), value, result, PLACED)


def _data(x: te.Tensor, windows: Window, columns: int, dtype: str, zero_point: int, name: str) -> te.Tensor:
    """[N, C, H, W] or in blocks: the padded input, with all columns that lanes and taps read."""
    padding = te.const(zero_point + activation_shift(x.dtype, dtype), dtype)
    rows = windows.sampled.size[0]

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value, *lane: te.Value) -> te.Value:
        position = sampled_position(windows, (h, w))
        inside = in_image(windows, position, (rows, columns))
        return select_if(inside, convert_activation(x[(n, c, *position, *lane)], dtype), padding)

    return te.compute((*x.shape[:2], rows, columns, *x.shape[4:]), value, name, PLACED)


def _dots_of_rows(data: te.Tensor, weight: te.Tensor, windows: Window, form: WindowLayout, name: str) -> te.Tensor:
    """[N, C, OH, OW / lanes, lanes]: the int32 sums."""
    r, g, i = (te.reduce_axis(extent, axis) for extent, axis in zip(weight.shape[1:], "rgi", strict=True))

    def value(n: te.Value, c: te.Value, y: te.Value, b: te.Value, o: te.Value) -> te.Value:
        column = windows.padded_position(1, b * form.lanes + o, g * form.taps + i)
        element = data[n, c, windows.padded_position(0, y, r), column]
        return sum_of_products(element, weight[c, r, g, i], (r, g, i), dtype="int32")

    rows, columns = windows.places
    shape = (*data.shape[:2], rows, -(-columns // form.lanes), form.lanes)
    stages = {DATA: data.name, RESCALED: f"{name}_rescaled", RESULT: name, STRIDE: windows.strides[1]}
    return te.compute(shape, value, f"{name}_sum", {OPERATOR: "qdepthwise_conv2d", **stages})


def _dots_of_blocks(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor, windows: Window, form: WindowLayout, name: str
) -> te.Tensor:
    """[N, C / L, OH, OW, L]: the int32 sums, from the bias on."""
    extents = (weight.shape[1], weight.shape[2], form.taps)
    r, g, i = (te.reduce_axis(extent, axis) for extent, axis in zip(extents, "rgi", strict=True))

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        column = windows.padded_position(1, ow, g * form.taps + i)
        element = data[n, cb, windows.padded_position(0, oh, r), column, c]
        return sum_of_products(element, weight[cb, r, g, c, i], (r, g, i), bias[cb * form.lanes + c], "int32")

    shape = (*data.shape[:2], *windows.places, form.lanes)
    return te.compute(shape, value, f"{name}_sum", {OPERATOR: "blocked_qdepthwise_conv2d", DATA: data.name})


def _packed_channels(
    where: str, x: te.Tensor, block: int | None, weight: te.Tensor, windows: Window, form: WindowLayout
) -> int:
    """The channels of data and weight, whose layout must fit the target."""
    channels = static_extent(where, "extent 1 of x", x.shape[1])
    lanes = () if block is None else (form.lanes,)
    wanted = (channels, windows.taps[0], form.groups(windows), *lanes, form.taps)
    if packed_extents(where, weight, len(wanted)) != wanted or weight.dtype != "int8":
        raise packing_error(where, weight, f"int8{list(wanted)}", "pack_qdepthwise_conv2d")
    if block is not None and block != form.lanes:
        raise OperatorError(f"{where}: x must be in blocks of {form.lanes} channels, got {block}")
    return channels * (block or 1)
