"""The quantised depthwise convolution: ONNX's QLinearConv of [N, C, H, W] with one int8 kernel around 0 a channel.

Four stages: the padded data (`<name>_data`), the sums in lanes along the rows of the result (`<name>_sum`), rescaled
(`<name>_lanes`), and the rows without the lanes behind their ends (`<name>`).
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import check_rank, machine_of, static_extent
from vdla.compiler.operators.quantise import (
    check_quantised,
    check_rescaling,
    check_zero_point,
    not_packed,
    packed_shape,
    requantised,
    shift_of,
    shifted,
)
from vdla.compiler.operators.qweights import WindowLayout, window_layout
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.sampled_input import Taken, taken
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.compiler.target import Target


def qdepthwise_conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor,
    scale: te.Tensor,
    target: Target | str,
    kernel: Ints,
    x_zero_point: int = 0,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    name: str | None = None,
) -> te.Tensor:
    """The depthwise convolution of uint8 or int8 `x` with int8 kernels of extents `kernel`; `dtype` is the result's.

    `weight` is int8 [C, KH, groups, taps] as `pack_qdepthwise_conv2d` makes it for `target`, `bias` int32 [C] and
    `scale` float32 [C]. Padding counts as `x_zero_point`.
    """
    where = name or "qdepthwise_conv2d"
    check_rank(where, "x", x, 4, 4)
    check_quantised(where, "x", x)
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype)
    part = taken(windows_of(where, x.shape[2:], kernel, strides, pads, dilations))
    windows = part.windows
    columns = (windows.counts[1], windows.kernel[1], windows.strides[1], windows.dilations[1])
    layout = window_layout(machine_of(where, target), *columns)
    channels = packed_channels(where, x, weight, part, layout)
    check_rescaling(where, bias, scale, channels, y_zero_point, dtype)
    result = result_name(x, "qdepthwise_conv2d", name)
    data = padded(x, part, layout, zero, f"{result}_data")
    total = summed(data, weight, part, layout, result)
    return joined(rescaled(total, bias, scale, y_zero_point, dtype, f"{result}_lanes"), part, result)


# --- stages ----------------------------------------------------------------------------------------------------------


def padded(x: te.Tensor, part: Taken, layout: WindowLayout, zero_point: int, name: str) -> te.Tensor:
    """[N, C, H, W] with the padding of the windows, and behind it what the last lanes and taps read."""
    rows, columns = part.extents[0], layout.columns(part)
    padding = zero_point + shift_of(x.dtype, layout.data)

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        places = part.places(h, w)
        element = shifted(x[n, c, places[0], places[1]], layout.data)
        return te.select(te.all_of(*inside(x, places)), element, te.const(padding, layout.data))

    return te.compute((*x.shape[:2], rows, columns), value, name, {"operator": "qdepthwise_conv2d_data"})


def inside(x: te.Tensor, places: list[te.Value]) -> list[te.Value]:
    """The conditions under which a place is in the image."""
    return [test for place, extent in zip(places, x.shape[2:], strict=True) for test in (place >= 0, place < extent)]


def summed(data: te.Tensor, weight: te.Tensor, part: Taken, layout: WindowLayout, name: str) -> te.Tensor:
    """[N, C, OH, OW / lanes, lanes]: the int32 sums."""
    r, g, i = (te.reduce_axis(extent, axis) for extent, axis in zip(weight.shape[1:], "rgi", strict=True))

    def value(n: te.Value, c: te.Value, y: te.Value, b: te.Value, o: te.Value) -> te.Value:
        column = part.tap(1, b * layout.lanes + o, g * layout.taps + i)
        left = te.cast("int32", data[n, c, part.tap(0, y, r), column])
        return te.sum(left * te.cast("int32", weight[c, r, g, i]), axis=[r, g, i])

    rows, columns = part.windows.counts
    shape = (*data.shape[:2], rows, -(-columns // layout.lanes), layout.lanes)
    stages = {"data": data.name, "lanes": f"{name}_lanes", "result": name, "stride": part.stride(1)}
    return te.compute(shape, value, f"{name}_sum", {"operator": "qdepthwise_conv2d", **stages})


def rescaled(total: te.Tensor, bias: te.Tensor, scale: te.Tensor, zero_point: int, dtype: str, name: str) -> te.Tensor:
    """[N, C, OH, OW / lanes, lanes]: the sums as `dtype`."""

    def value(n: te.Value, c: te.Value, y: te.Value, b: te.Value, o: te.Value) -> te.Value:
        return requantised(total[n, c, y, b, o] + bias[c], scale[c], zero_point, dtype)

    return te.compute(total.shape, value, name, {"operator": "qdepthwise_conv2d_lanes"})


def joined(lanes: te.Tensor, part: Taken, name: str) -> te.Tensor:
    """[N, C, OH, OW]: the rows without the lanes behind their ends."""
    *channels, _, _, width = lanes.shape

    def value(n: te.Value, c: te.Value, y: te.Value, x: te.Value) -> te.Value:
        return lanes[n, c, y, x // width, x % width]

    shape = (*channels, *part.windows.counts)
    return te.compute(shape, value, name, {"operator": "qdepthwise_conv2d_result"})


def packed_channels(where: str, x: te.Tensor, weight: te.Tensor, part: Taken, layout: WindowLayout) -> int:
    """The channels of data and weights; refuses weights that are not packed for the layout."""
    rows, columns = part.windows.kernel
    channels = static_extent(where, "extent 1 of x", x.shape[1])
    wanted = (channels, rows, -(-columns // layout.taps), layout.taps)
    if packed_shape(where, weight, 4) != wanted or weight.dtype != "int8":
        raise not_packed(where, weight, f"int8{list(wanted)}", "pack_qdepthwise_conv2d")
    return channels
