"""Quantised depthwise convolution: ONNX's QLinearConv with one symmetric int8 kernel a channel.

The stages: `<name>_data` the padded input; `<name>_sum` the int32 sums, in lanes along the rows of
the result; `<name>_rescaled` the sums rescaled; `<name>` the result, without the padding of the
last lanes.
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
    packed_extents,
    packing_error,
    requantise,
)
from vdla.compiler.operators.quantised_weights import WindowLayout, window_layout
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.roles import DATA, OPERATOR, PLACED, RESCALED, RESULT, STRIDE
from vdla.compiler.operators.windows import Ints, sampled_position, windows_of
from vdla.compiler.target import Target
from vdla.support.window import Window

_Requantisation = tuple[int, str, int | None, tuple[int, int] | None]  # arguments of `requantise`


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
    name: str | None = None,
) -> te.Tensor:
    """The depthwise convolution of uint8 or int8 `x` with int8 kernels; the result has `dtype`.

    `weight` is int8 [C, KH, groups, taps], as `pack_qdepthwise_conv2d` makes it for `target`,
    `bias` int32 [C] and `scale` float32 [C]. Padding has the value `x_zero_point`.
    """
    where = name or "qdepthwise_conv2d"
    check_rank(where, "x", x, 4, 4)
    check_quantised(where, "x", x)
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype)
    windows = windows_of(where, x.shape[2:], kernel_shape, strides, pads, dilations)
    columns = (windows.places[1], windows.taps[1], windows.strides[1], windows.dilations[1])
    layout = window_layout(target_of(where, target), *columns)
    channels = _packed_channels(where, x, weight, windows, layout)
    check_requantisation(where, bias, scale, channels, y_zero_point, dtype)
    check_clip(where, clip, dtype)
    result = result_name(x, "qdepthwise_conv2d", name)
    data = _pad_data(x, windows, layout, zero, f"{result}_data")
    total = _sums(data, weight, windows.sampled, layout, result)
    return _result(
        _rescale(total, bias, scale, (y_zero_point, dtype, largest_sum, clip), f"{result}_rescaled"), windows, result
    )


# --- stages ---------------------------------------------------------------------------------------


def _pad_data(x: te.Tensor, windows: Window, layout: WindowLayout, zero_point: int, name: str) -> te.Tensor:
    """[N, C, H, W]: the padded input, including the columns that the last lanes and taps read."""
    rows, columns = windows.sampled.size[0], layout.columns(windows.sampled)
    padding = zero_point + activation_shift(x.dtype, layout.data)

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        position = sampled_position(windows, (h, w))
        element = convert_activation(x[n, c, position[0], position[1]], layout.data)
        return te.select(te.all_of(*_inside(x, position)), element, te.const(padding, layout.data))

    return te.compute((*x.shape[:2], rows, columns), value, name, PLACED)


def _inside(x: te.Tensor, position: list[te.Value]) -> list[te.Value]:
    """The conditions under which a position lies in the image."""
    bounds = zip(position, x.shape[2:], strict=True)
    return [condition for index, extent in bounds for condition in (index >= 0, index < extent)]


def _sums(data: te.Tensor, weight: te.Tensor, sampled: Window, layout: WindowLayout, name: str) -> te.Tensor:
    """[N, C, OH, OW / lanes, lanes]: the int32 sums."""
    r, g, i = (te.reduce_axis(extent, axis) for extent, axis in zip(weight.shape[1:], "rgi", strict=True))

    def value(n: te.Value, c: te.Value, y: te.Value, b: te.Value, o: te.Value) -> te.Value:
        column = sampled.padded_position(1, b * layout.lanes + o, g * layout.taps + i)
        left = te.cast("int32", data[n, c, sampled.padded_position(0, y, r), column])
        return te.sum(left * te.cast("int32", weight[c, r, g, i]), axis=[r, g, i])

    rows, columns = sampled.places
    shape = (*data.shape[:2], rows, -(-columns // layout.lanes), layout.lanes)
    stages = {DATA: data.name, RESCALED: f"{name}_rescaled", RESULT: name, STRIDE: sampled.strides[1]}
    return te.compute(shape, value, f"{name}_sum", {OPERATOR: "qdepthwise_conv2d", **stages})


def _rescale(total: te.Tensor, bias: te.Tensor, scale: te.Tensor, options: _Requantisation, name: str) -> te.Tensor:
    """[N, C, OH, OW / lanes, lanes]: the sums requantised with `options`."""

    def value(n: te.Value, c: te.Value, y: te.Value, b: te.Value, o: te.Value) -> te.Value:
        return requantise(total[n, c, y, b, o] + bias[c], scale[c], *options)

    return te.compute(total.shape, value, name, PLACED)


def _result(rescaled: te.Tensor, windows: Window, name: str) -> te.Tensor:
    """[N, C, OH, OW]: the rows without the padding of the last lanes."""
    *channels, _, _, lanes = rescaled.shape

    def value(n: te.Value, c: te.Value, y: te.Value, x: te.Value) -> te.Value:
        return rescaled[n, c, y, x // lanes, x % lanes]

    shape = (*channels, *windows.places)
    return te.compute(shape, value, name, PLACED)


def _packed_channels(where: str, x: te.Tensor, weight: te.Tensor, windows: Window, layout: WindowLayout) -> int:
    """The channels of data and weight, whose layout must be that of the target."""
    rows, columns = windows.taps
    channels = static_extent(where, "extent 1 of x", x.shape[1])
    wanted = (channels, rows, -(-columns // layout.taps), layout.taps)
    if packed_extents(where, weight, 4) != wanted or weight.dtype != "int8":
        raise packing_error(where, weight, f"int8{list(wanted)}", "pack_qdepthwise_conv2d")
    return channels
