"""Quantised convolution: ONNX's QLinearConv of one group, with symmetric int8 weights.

The stages: `<name>_data` the input padded, in groups of channels; `<name>_sum` the int32 sums;
`<name>_rescaled` the sums rescaled, channels innermost; `<name>` the result in NCHW. `pack_qconv2d`
makes weight, bias and scale.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import check_rank, static_extent, target_of
from vdla.compiler.operators.quantisation import (
    activation_shift,
    check_clip,
    check_quantised,
    check_requantisation,
    check_zero_point,
    convert_activation,
    output_count,
    packed_extents,
    packing_error,
    requantise,
)
from vdla.compiler.operators.quantised_weights import DotLayout, best_dot_layout
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.roles import DATA, OPERATOR, PLACED, RESCALED, RESULT
from vdla.compiler.operators.windows import Ints, in_image, sampled_position, windows_of
from vdla.compiler.target import Target
from vdla.support.window import Window

_Requantisation = tuple[int, str, int | None, tuple[int, int] | None]  # arguments of `requantise`


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
    name: str | None = None,
) -> te.Tensor:
    """The convolution of uint8 or int8 `x` with a packed int8 weight; the result has `dtype`.

    `weight` is [CO / lanes, CI / group, KH, KW, lanes, group], as `pack_qconv2d` makes it for
    `target`; its first `out_channels` are used, and `largest_sum` is its bound of sums. Padding has
    the value `x_zero_point`.
    """
    where = name or "qconv2d"
    layout = best_dot_layout(target_of(where, target))
    packed = _packed_channels(where, x, weight, layout)
    channels = output_count(where, "out_channels", out_channels, packed)
    check_requantisation(where, bias, scale, packed, y_zero_point, dtype)
    check_clip(where, clip, dtype)
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype)
    windows = windows_of(where, x.shape[2:], weight.shape[2:4], strides, pads, dilations)
    result = result_name(x, "qconv2d", name)
    data = _group_channels(x, windows, layout, zero, f"{result}_data")
    total = _sums(data, weight, windows.sampled, layout, result)
    rescaled = _rescale(total, bias, scale, (y_zero_point, dtype, largest_sum, clip), f"{result}_rescaled")
    return _result(rescaled, channels, result)


# --- stages ---------------------------------------------------------------------------------------


def _group_channels(x: te.Tensor, windows: Window, layout: DotLayout, zero_point: int, name: str) -> te.Tensor:
    """[N, C / group, H, W, group]: the padded input in the dtype of the dot product.

    Padding channels may have any value: their weights are 0.
    """
    images, channels = x.shape[:2]
    padding = zero_point + activation_shift(x.dtype, layout.data)

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value, i: te.Value) -> te.Value:
        channel, position = c * layout.group + i, sampled_position(windows, (h, w))
        element = convert_activation(x[n, channel, position[0], position[1]], layout.data)
        inside = in_image(windows, position)
        if channels % layout.group:
            inside.append(channel < channels)
        return te.select(te.all_of(*inside), element, te.const(padding, layout.data)) if inside else element

    shape = (images, -(-channels // layout.group), *windows.sampled.size, layout.group)
    return te.compute(shape, value, name, PLACED)


def _sums(data: te.Tensor, weight: te.Tensor, sampled: Window, layout: DotLayout, name: str) -> te.Tensor:
    """[N, CO / lanes, OH, OW, lanes]: the int32 sums."""
    k, i = te.reduce_axis(data.shape[1], "k"), te.reduce_axis(layout.group, "i")
    r, q = te.reduce_axis(weight.shape[2], "r"), te.reduce_axis(weight.shape[3], "q")

    def value(n: te.Value, c: te.Value, y: te.Value, x: te.Value, o: te.Value) -> te.Value:
        left = te.cast("int32", data[n, k, sampled.padded_position(0, y, r), sampled.padded_position(1, x, q), i])
        return te.sum(left * te.cast("int32", weight[c, k, r, q, o, i]), axis=[k, r, q, i])

    shape = (data.shape[0], weight.shape[0], *sampled.places, layout.lanes)
    stages = {OPERATOR: "qconv2d", DATA: data.name, RESCALED: f"{name}_rescaled", RESULT: name}
    return te.compute(shape, value, f"{name}_sum", stages)


def _rescale(total: te.Tensor, bias: te.Tensor, scale: te.Tensor, options: _Requantisation, name: str) -> te.Tensor:
    """[N, CO / lanes, OH, OW, lanes]: the sums requantised with `options`."""

    def value(n: te.Value, c: te.Value, y: te.Value, x: te.Value, o: te.Value) -> te.Value:
        channel = c * total.shape[4] + o
        return requantise(total[n, c, y, x, o] + bias[channel], scale[channel], *options)

    return te.compute(total.shape, value, name, PLACED)


def _result(rescaled: te.Tensor, channels: int, name: str) -> te.Tensor:
    """[N, CO, OH, OW]: the first `channels`."""
    images, _, *counts, lanes = rescaled.shape

    def value(n: te.Value, c: te.Value, y: te.Value, x: te.Value) -> te.Value:
        return rescaled[n, c // lanes, y, x, c % lanes]

    return te.compute((images, channels, *counts), value, name, PLACED)


def _packed_channels(where: str, x: te.Tensor, weight: te.Tensor, layout: DotLayout) -> int:
    """The output channels of the weight, whose layout must be that of the data and the target."""
    check_rank(where, "x", x, 4, 4)
    check_quantised(where, "x", x)
    blocks, inputs, _, _, *entry = packed_extents(where, weight, 6)
    groups = -(-static_extent(where, "extent 1 of x", x.shape[1]) // layout.group)
    if (weight.dtype, inputs, *entry) != (layout.weights, groups, layout.lanes, layout.group):
        wanted = f"{layout.weights}[CO / {layout.lanes}, {groups}, KH, KW, {layout.lanes}, {layout.group}]"
        raise packing_error(where, weight, wanted, "pack_qconv2d")
    return blocks * layout.lanes
