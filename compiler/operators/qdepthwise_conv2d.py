# SPDX-License-Identifier: Apache-2.0
"""Quantised depthwise convolution: ONNX's QLinearConv with one symmetric int8 kernel a channel.

Lanes lie along the rows of the result or, in blocks, along channels. The stages: `<name>_data` the
padded input; `<name>_sum` the int32 sums; `<name>` the result. With lanes along rows it drops the
padding of the last vector of `<name>_rescaled`. `pack_qdepthwise_conv2d` makes weight, bias and
scale.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, static_extent, target_of
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
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.roles import DATA, OPERATOR, PLACED, RESCALED, RESULT, STRIDE
from vdla.compiler.operators.windows import Ints, in_image, sampled_position, select_if, windows_of
from vdla.compiler.target import Target
from vdla.support.window import Window


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
    requantisation = Requantisation(
        scale=scale,
        zero_point=y_zero_point,
        dtype=dtype,
        largest_sum=largest_sum,
        clip=clip,
        bias=bias if block is None else None,
    )
    check_requantisation(where, bias, channels, requantisation)
    result = result_name(x, "qdepthwise_conv2d", name)
    places = windows.places[1] if block is not None else -(-windows.places[1] // form.lanes) * form.lanes
    data = _data(x, windows, form.columns(windows.sampled, places), form.data, zero, f"{result}_data")
    if block is not None:
        total = _sums_of_blocks(data, weight, bias, windows.sampled, form, result)
        return requantisation.results(total, lambda *i: i[1] * block + i[4], result)
    total = _sums_of_rows(data, weight, windows.sampled, form, result)
    rescaled = requantisation.results(total, lambda *i: i[1], f"{result}_rescaled", PLACED)

    def value(n: te.Value, c: te.Value, y: te.Value, w: te.Value) -> te.Value:
        return rescaled[n, c, y, w // form.lanes, w % form.lanes]

    return te.compute((*x.shape[:2], *windows.places), value, result, PLACED)


# --- stages ---------------------------------------------------------------------------------------


def _data(x: te.Tensor, windows: Window, columns: int, dtype: str, zero_point: int, name: str) -> te.Tensor:
    """[N, C, H, W] or in blocks: the padded input, with all columns that lanes and taps read."""
    padding = te.const(zero_point + activation_shift(x.dtype, dtype), dtype)
    rows = windows.sampled.size[0]

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value, *lane: te.Value) -> te.Value:
        position = sampled_position(windows, (h, w))
        inside = in_image(windows, position, (rows, columns))
        return select_if(inside, convert_activation(x[(n, c, *position, *lane)], dtype), padding)

    return te.compute((*x.shape[:2], rows, columns, *x.shape[4:]), value, name, PLACED)


def _sums_of_rows(data: te.Tensor, weight: te.Tensor, windows: Window, form: WindowLayout, name: str) -> te.Tensor:
    """[N, C, OH, OW / lanes, lanes]: the int32 sums."""
    r, g, i = (te.reduce_axis(extent, axis) for extent, axis in zip(weight.shape[1:], "rgi", strict=True))

    def value(n: te.Value, c: te.Value, y: te.Value, b: te.Value, o: te.Value) -> te.Value:
        column = windows.padded_position(1, b * form.lanes + o, g * form.taps + i)
        element = te.cast("int32", data[n, c, windows.padded_position(0, y, r), column])
        return te.sum(element * te.cast("int32", weight[c, r, g, i]), axis=[r, g, i])

    rows, columns = windows.places
    shape = (*data.shape[:2], rows, -(-columns // form.lanes), form.lanes)
    stages = {DATA: data.name, RESCALED: f"{name}_rescaled", RESULT: name, STRIDE: windows.strides[1]}
    return te.compute(shape, value, f"{name}_sum", {OPERATOR: "qdepthwise_conv2d", **stages})


def _sums_of_blocks(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor, windows: Window, form: WindowLayout, name: str
) -> te.Tensor:
    """[N, C / L, OH, OW, L]: the int32 sums, from the bias on."""
    extents = (weight.shape[1], weight.shape[2], form.taps)
    r, g, i = (te.reduce_axis(extent, axis) for extent, axis in zip(extents, "rgi", strict=True))

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        column = windows.padded_position(1, ow, g * form.taps + i)
        element = te.cast("int32", data[n, cb, windows.padded_position(0, oh, r), column, c])
        product = element * te.cast("int32", weight[cb, r, g, c, i])
        return te.sum(product, axis=[r, g, i], init=bias[cb * form.lanes + c])

    shape = (*data.shape[:2], *windows.places, form.lanes)
    return te.compute(shape, value, f"{name}_sum", {OPERATOR: "blocked_qdepthwise_conv2d", DATA: data.name})


# --- checks ---------------------------------------------------------------------------------------


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
