"""Quantised depthwise convolution of an image in blocks of channels.

The stages: `<name>_data` the padded image; `<name>_sum` the int32 sums, from the bias on;
`<name>` the sums rescaled. `pack_blocked_qdepthwise_conv2d` makes weight, bias and scale.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.ir import Array
from vdla.compiler.operators.blocked import check_blocked
from vdla.compiler.operators.channel_windows import ChannelWindowLayout, channel_window_layout, channel_window_weights
from vdla.compiler.operators.checks import OperatorError, integers, target_of
from vdla.compiler.operators.quantisation import (
    activation_shift,
    check_clip,
    check_quantised,
    check_requantisation,
    check_zero_point,
    convert_activation,
    packed_extents,
    packing_error,
    requantise,
)
from vdla.compiler.operators.quantised_weights import PackedWeights
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.roles import DATA, OPERATOR, PLACED
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.compiler.target import Target
from vdla.support.window import Window

_NAME = "blocked_qdepthwise_conv2d"


def blocked_qdepthwise_conv2d(
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
    name: str | None = None,
) -> te.Tensor:
    """uint8 or int8 `x` [N, C / L, H, W, L] to `dtype` [N, C / L, OH, OW, L], within `clip`.

    `weight`, `bias` and `scale` are those of `pack_blocked_qdepthwise_conv2d`, `largest_sum` its
    bound of sums. Padding has the value `x_zero_point`.
    """
    where = name or _NAME
    check_quantised(where, "x", x)
    blocks, lanes = check_blocked(where, "x", x)
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype)
    windows = windows_of(where, x.shape[2:4], kernel_shape, strides, pads, dilations)
    layout = channel_window_layout(target_of(where, target), windows.dilations[1])
    wanted = (blocks, windows.taps[0], -(-windows.taps[1] // layout.taps), layout.lanes, layout.taps)
    if packed_extents(where, weight, 5) != wanted or weight.dtype != "int8":
        raise packing_error(where, weight, f"int8{list(wanted)}", "pack_blocked_qdepthwise_conv2d")
    if lanes != layout.lanes:
        raise OperatorError(f"{where}: x must be in blocks of {layout.lanes} channels, got {lanes}")
    check_requantisation(where, bias, scale, blocks * lanes, y_zero_point, dtype)
    check_clip(where, clip, dtype)
    result = result_name(x, _NAME, name)
    data = _data(x, windows, layout, zero, f"{result}_data")
    total = _sums(data, weight, bias, windows, layout, f"{result}_sum")

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        return requantise(total[n, cb, oh, ow, c], scale[cb * lanes + c], y_zero_point, dtype, largest_sum, clip)

    return te.compute(total.shape, value, result)


def pack_blocked_qdepthwise_conv2d(
    weight: Array,
    scale: Array,
    target: Target | str,
    bias: Array | None = None,
    x_zero_point: int = 0,
    x_dtype: str = "uint8",
    dilations: Ints = 1,
) -> PackedWeights:
    """An int8 weight [C, 1, KH, KW], scales and an int32 bias [C], packed for the operator.

    `dilations` must be those of the operator. The packed weight is [C / lanes, KH, groups, lanes,
    taps], rows and channels padded with zeros.
    """
    where = "pack_blocked_qdepthwise_conv2d"
    layout = channel_window_layout(target_of(where, target), integers(where, "dilations", dilations, 2, 1)[1])
    return channel_window_weights(where, weight, scale, layout, bias, x_zero_point, x_dtype)


# --- stages ---------------------------------------------------------------------------------------


def _data(x: te.Tensor, windows: Window, layout: ChannelWindowLayout, zero_point: int, name: str) -> te.Tensor:
    """[N, C / L, H, W, L]: the padded image, with all columns that taps read."""
    groups = -(-windows.taps[1] // layout.taps)
    rows = windows.extents[0]
    columns = (windows.places[1] - 1) * windows.strides[1] + (groups * layout.taps - 1) * windows.dilations[1] + 1
    padding = te.const(zero_point + activation_shift(x.dtype, layout.data), layout.data)

    def value(n: te.Value, cb: te.Value, h: te.Value, w: te.Value, c: te.Value) -> te.Value:
        inside, position = [], []
        for d, (index, extent) in enumerate(((h, rows), (w, columns))):
            before = windows.before[d]
            position.append(index - before)
            inside += [position[d] >= 0] * (before > 0)
            inside += [position[d] < windows.size[d]] * (extent - before > windows.size[d])
        element = convert_activation(x[n, cb, position[0], position[1], c], layout.data)
        return te.select(te.all_of(*inside), element, padding) if inside else element

    return te.compute((*x.shape[:2], rows, columns, x.shape[4]), value, name, PLACED)


def _sums(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor, windows: Window, layout: ChannelWindowLayout, name: str
) -> te.Tensor:
    """[N, C / L, OH, OW, L]: the int32 sums, from the bias on."""
    extents = (weight.shape[1], weight.shape[2], layout.taps)
    r, g, i = (te.reduce_axis(extent, axis) for extent, axis in zip(extents, "rgi", strict=True))

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        row = oh * windows.strides[0] + r * windows.dilations[0]
        column = ow * windows.strides[1] + (g * layout.taps + i) * windows.dilations[1]
        left = te.cast("int32", data[n, cb, row, column, c])
        product = left * te.cast("int32", weight[cb, r, g, c, i])
        return te.sum(product, axis=[r, g, i], init=bias[cb * layout.lanes + c])

    shape = (*data.shape[:2], *windows.places, data.shape[4])
    return te.compute(shape, value, name, {OPERATOR: _NAME, DATA: data.name})
