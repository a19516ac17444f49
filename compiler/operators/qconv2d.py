# SPDX-License-Identifier: Apache-2.0
"""Quantised convolution: ONNX's QLinearConv of one group, with symmetric int8 weights.

The stages: `<name>_data` the input padded, in groups or blocks of channels, omitted if the dot
product reads the image directly; `<name>_sum` the int32 sums; `<name>` the result. A result in NCHW
is transposed from `<name>_rescaled`, with channels innermost. `pack_qconv2d` makes weight, bias and
scale.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.blocked import blocks_of
from vdla.compiler.operators.checks import OperatorError, check_choice, static_extent, target_of
from vdla.compiler.operators.layouts import at_channel, image_block
from vdla.compiler.operators.quantisation import (
    Requantisation,
    activation_shift,
    check_quantised,
    check_requantisation,
    check_zero_point,
    convert_activation,
    output_count,
    packed_extents,
    packing_error,
)
from vdla.compiler.operators.quantised_weights import DotLayout, best_dot_layout
from vdla.compiler.operators.results import result_name, sum_of_products
from vdla.compiler.operators.roles import DATA, OPERATOR, PLACED, RESCALED, RESULT
from vdla.compiler.operators.windows import Ints, in_image, sampled_position, select_if, windows_of
from vdla.compiler.target import Target
from vdla.support.window import Window


def qconv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor,
    scale: te.Tensor,
    target: Target | str,
    out_channels: int | None = None,
    x_zero_point: int = 0,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    largest_sum: int | None = None,
    clip: tuple[int, int] | None = None,
    layout: str = "NCHW",
    result_layout: str | None = None,
    name: str | None = None,
) -> te.Tensor:
    """The convolution of uint8 or int8 `x` with a packed int8 weight; the result has `dtype`.

    `weight` is [CO / lanes, CI / group, KH, KW, lanes, group], as `pack_qconv2d` makes it for
    `target`; its first `out_channels` are used, and `largest_sum`, which bounds the magnitude of
    sums, makes rescaling cheaper. Results lie within `clip`. Padding has the value `x_zero_point`.
    `layout` "NCHW16c" is an image in blocks of 16 channels. `result_layout` is "NCHW" or "blocks",
    of as many channels as the weight has lanes; by default the result has blocks if x has.
    """
    where = name or "qconv2d"
    block = image_block(where, x, layout)
    in_blocks = _has_blocks(where, block, result_layout)
    dot = best_dot_layout(target_of(where, target))
    packed = _packed_channels(where, x, block, weight, dot)
    channels = output_count(where, "out_channels", out_channels, packed)
    start = None if in_blocks else bias
    requantisation = Requantisation(scale, y_zero_point, dtype, largest_sum, clip, start)
    check_requantisation(where, bias, packed, requantisation)
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype)
    windows = windows_of(where, x.shape[2:4], weight.shape[2:4], strides, pads, dilations)
    result = result_name(x, "qconv2d", name)
    data, reads = x, windows
    if block is None or x.dtype != dot.data or windows.leaves_image:
        data, reads = _data(x, block, windows, dot, zero, f"{result}_data"), windows.sampled
    total = _sums(data, weight, bias if in_blocks else None, reads, dot, result)

    def channel(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        return cb * dot.lanes + c

    if in_blocks:
        return requantisation.results(total, channel, result)
    rescaled = requantisation.results(total, channel, f"{result}_rescaled", PLACED)
    shape = (x.shape[0], channels, *windows.places)
    return te.compute(shape, lambda *i: rescaled[at_channel(dot.lanes, *i)], result, PLACED)


def _has_blocks(where: str, block: int | None, result_layout: str | None) -> bool:
    """Whether the result is in blocks; by default if the image is."""
    if result_layout is None:
        return block is not None
    check_choice(where, "result_layout", result_layout, ("NCHW", "blocks"))
    if block is not None and result_layout == "NCHW":
        raise OperatorError(f"{where}: result_layout must be blocks for an image in blocks, got {result_layout!r}")
    return result_layout == "blocks"


# --- stages ---------------------------------------------------------------------------------------


def _data(x: te.Tensor, block: int | None, windows: Window, dot: DotLayout, zero_point: int, name: str) -> te.Tensor:
    """[N, C / L, H, W, L]: the image as the dot product reads it; L is a group for a plain image.

    Padding channels hold arbitrary values: their weights are 0.
    """
    padding = te.const(zero_point + activation_shift(x.dtype, dot.data), dot.data)
    lanes = dot.group if block is None else block

    def value(n: te.Value, cb: te.Value, h: te.Value, w: te.Value, c: te.Value) -> te.Value:
        channel, position = cb * lanes + c, sampled_position(windows, (h, w))
        index = (n, channel, *position) if block is None else (n, cb, *position, c)
        inside = in_image(windows, position)
        if block is None and x.shape[1] % lanes:
            inside.append(channel < x.shape[1])
        return select_if(inside, convert_activation(x[index], dot.data), padding)

    blocks = blocks_of(x.shape[1], lanes) if block is None else x.shape[1]
    return te.compute((x.shape[0], blocks, *windows.sampled.size, lanes), value, name, PLACED)


def _sums(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, windows: Window, dot: DotLayout, name: str
) -> te.Tensor:
    """[N, CO / lanes, OH, OW, lanes]: the int32 sums, from a bias on."""
    k, i = te.reduce_axis(weight.shape[1], "k"), te.reduce_axis(dot.group, "i")
    r, q = te.reduce_axis(weight.shape[2], "r"), te.reduce_axis(weight.shape[3], "q")
    groups = data.shape[4] // dot.group

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        y, x = windows.padded_position(0, oh, r), windows.padded_position(1, ow, q)
        block, lane = (k, i) if groups == 1 else (k // groups, k % groups * dot.group + i)
        start = None if bias is None else bias[cb * dot.lanes + c]
        return sum_of_products(data[n, block, y, x, lane], weight[cb, k, r, q, c, i], (k, r, q, i), start, "int32")

    stages = {OPERATOR: "qconv2d", DATA: data.name, RESCALED: f"{name}_rescaled", RESULT: name}
    if bias is not None:
        stages = {OPERATOR: "blocked_qconv2d", DATA: data.name}
    shape = (data.shape[0], weight.shape[0], *windows.places, dot.lanes)
    return te.compute(shape, value, f"{name}_sum", stages)


# --- checks ---------------------------------------------------------------------------------------


def _packed_channels(where: str, x: te.Tensor, block: int | None, weight: te.Tensor, dot: DotLayout) -> int:
    """The output channels of the weight, whose layout must fit the data and the target."""
    check_quantised(where, "x", x)
    blocks, inputs, _, _, *entry = packed_extents(where, weight, 6)
    channels = static_extent(where, "extent 1 of x", x.shape[1])
    if block is not None and block % dot.group:
        raise OperatorError(f"{where}: the lanes of x must be a multiple of {dot.group}, got {block}")
    groups = blocks_of(channels, dot.group) if block is None else blocks_of(inputs * dot.group, block)
    fits = inputs == groups if block is None else groups == channels
    if not fits or (weight.dtype, *entry) != (dot.weights, dot.lanes, dot.group):
        ins = str(groups) if block is None else f"CI / {dot.group}"
        wanted = f"{dot.weights}[CO / {dot.lanes}, {ins}, KH, KW, {dot.lanes}, {dot.group}]"
        raise packing_error(where, weight, wanted + " of the channels of x" * (block is not None), "pack_qconv2d")
    return blocks * dot.lanes
