# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution: one kernel a channel, or several with a channel multiplier.

The stages: `<name>_pad` the padded image; `<name>_sum` the sums, starting from the bias; `<name>`
the sums in the dtype of the image. Vector lanes run along the rows of a plain image. With a stride,
the columns of its padded image are split into phases: the elements that a tap reads for
neighbouring results are then contiguous. An image in blocks has its channels in lanes and is not
padded: windows at the border skip the taps outside the image.
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
)
from vdla.compiler.operators.conv2d import pad_image
from vdla.compiler.operators.layouts import image_block
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.roles import OPERATOR, PHASES
from vdla.compiler.operators.windows import Ints, in_image, select_if, windows_of
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
        pad_stage = pad_image if windows.strides[1] == 1 else _pad_in_phases
        total = _sums_of_rows(pad_stage(x, windows, f"{result}_pad"), weight, bias, windows, f"{result}_sum")
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


def _pad_in_phases(x: te.Tensor, windows: Window, name: str) -> te.Tensor:
    """[N, C, rows, stride, columns / stride]: the padded image, its columns in phases."""
    stride, (top, left), (rows, columns) = windows.strides[1], windows.before, windows.extents

    def value(n: te.Value, c: te.Value, h: te.Value, phase: te.Value, w: te.Value) -> te.Value:
        y, column = h - top, w * stride + phase - left
        conditions = [*in_image(windows, (y,)), *[column >= 0] * (left > 0), column < x.shape[3]]
        return te.select(te.all_of(*conditions), x[n, c, y, column], te.const(0, x.dtype))

    return te.compute((*x.shape[:2], rows, stride, -(-columns // stride)), value, name, {PHASES: stride})


def _sums_of_rows(image: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, windows: Window, name: str) -> te.Tensor:
    """[N, C * m, OH, OW]: the sums, with the bias."""
    taps = te.reduce_axis(windows.taps[0], "kh"), te.reduce_axis(windows.taps[1], "kw")
    multiplier, stride = weight.shape[0] // image.shape[1], windows.strides[1]

    def value(n: te.Value, c: te.Value, oh: te.Value, ow: te.Value) -> te.Value:
        y, offset = windows.padded_position(0, oh, taps[0]), taps[1] * windows.dilations[1]
        columns = (ow + offset,) if stride == 1 else (offset % stride, ow + offset // stride)
        channel = c if multiplier == 1 else c // multiplier
        element = to_accumulator(image[(n, channel, y, *columns)])
        start = None if bias is None else to_accumulator(bias[c])
        return te.sum(element * to_accumulator(weight[c, 0, taps[0], taps[1]]), axis=[*taps], init=start)

    shape = (image.shape[0], weight.shape[0], *windows.places)
    return te.compute(shape, value, name, {OPERATOR: _NAME})


def _sums_of_blocks(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, windows: Window, name: str) -> te.Tensor:
    """[N, C / lanes, OH, OW, lanes]: the sums, with the bias."""
    kh, kw = te.reduce_axis(windows.taps[0], "kh"), te.reduce_axis(windows.taps[1], "kw")
    lanes = x.shape[4]

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        position = windows.position(0, oh, kh), windows.position(1, ow, kw)
        element = select_if(in_image(windows, position), x[(n, cb, *position, c)], te.const(0, x.dtype))
        start = None if bias is None else to_accumulator(bias[cb * lanes + c])
        return te.sum(to_accumulator(element) * to_accumulator(weight[cb, kh, kw, c]), axis=[kh, kw], init=start)

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
