"""The quantised convolution, [N, C, H, W] to [N, CO, OH, OW]: ONNX's QLinearConv of one group, int8 weights around 0.

Four stages: the data regrouped and padded (`<name>_data`), the sums (`<name>_sum`), rescaled with channels innermost
(`<name>_lanes`), and brought into the order of the result (`<name>`). Weights, bias and scale come from `pack_qconv2d`.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import check_rank, machine_of, static_extent
from vdla.compiler.operators.quantise import (
    check_quantised,
    check_rescaling,
    check_zero_point,
    kept_outputs,
    not_packed,
    packed_shape,
    requantised,
    shift_of,
    shifted,
)
from vdla.compiler.operators.qweights import DotLayout, layout_of
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.sampled_input import Taken, taken
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.compiler.target import Target


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
    name: str | None = None,
) -> te.Tensor:
    """The convolution of uint8 or int8 `x` with packed int8 weights; `dtype` is that of the result.

    `weight` is [CO / lanes, CI / group, KH, KW, lanes, group] as `pack_qconv2d` makes it for `target`; of its outputs
    the first `out_channels` (all of them by default) are kept. Padding counts as `x_zero_point`.
    """
    where = name or "qconv2d"
    layout = layout_of(machine_of(where, target))
    packed = packed_channels(where, x, weight, layout)
    channels = kept_outputs(where, "out_channels", out_channels, packed)
    check_rescaling(where, bias, scale, packed, y_zero_point, dtype)
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype)
    part = taken(windows_of(where, x.shape[2:], weight.shape[2:4], strides, pads, dilations))
    result = result_name(x, "qconv2d", name)
    data = regrouped(x, part, layout, zero, f"{result}_data")
    total = summed(data, weight, part, layout, result)
    return ordered(rescaled(total, bias, scale, y_zero_point, dtype, f"{result}_lanes"), channels, result)


# --- stages ----------------------------------------------------------------------------------------------------------


def regrouped(x: te.Tensor, part: Taken, layout: DotLayout, zero_point: int, name: str) -> te.Tensor:
    """[N, C / group, H, W, group] with the padding of the windows, in the dtype that the dot product reads.

    What stands in channels behind the last does not matter: their weights are 0.
    """
    images, channels = x.shape[:2]
    padding = zero_point + shift_of(x.dtype, layout.data)

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value, i: te.Value) -> te.Value:
        channel, places = c * layout.group + i, part.places(h, w)
        element = shifted(x[n, channel, places[0], places[1]], layout.data)
        inside = part.windows.inside(places)
        if channels % layout.group:
            inside.append(channel < channels)
        return te.select(te.all_of(*inside), element, te.const(padding, layout.data)) if inside else element

    shape = (images, -(-channels // layout.group), *part.extents, layout.group)
    return te.compute(shape, value, name, {"operator": "qconv2d_data"})


def summed(data: te.Tensor, weight: te.Tensor, part: Taken, layout: DotLayout, name: str) -> te.Tensor:
    """[N, CO / lanes, OH, OW, lanes]: the int32 sums."""
    k, i = te.reduce_axis(data.shape[1], "k"), te.reduce_axis(layout.group, "i")
    r, q = te.reduce_axis(weight.shape[2], "r"), te.reduce_axis(weight.shape[3], "q")

    def value(n: te.Value, c: te.Value, y: te.Value, x: te.Value, o: te.Value) -> te.Value:
        left = te.cast("int32", data[n, k, part.tap(0, y, r), part.tap(1, x, q), i])
        return te.sum(left * te.cast("int32", weight[c, k, r, q, o, i]), axis=[k, r, q, i])

    shape = (data.shape[0], weight.shape[0], *part.windows.counts, layout.lanes)
    stages = {"operator": "qconv2d", "data": data.name, "lanes": f"{name}_lanes", "result": name}
    return te.compute(shape, value, f"{name}_sum", stages)


def rescaled(total: te.Tensor, bias: te.Tensor, scale: te.Tensor, zero_point: int, dtype: str, name: str) -> te.Tensor:
    """[N, CO / lanes, OH, OW, lanes]: the sums as `dtype`."""

    def value(n: te.Value, c: te.Value, y: te.Value, x: te.Value, o: te.Value) -> te.Value:
        channel = c * total.shape[4] + o
        return requantised(total[n, c, y, x, o] + bias[channel], scale[channel], zero_point, dtype)

    return te.compute(total.shape, value, name, {"operator": "qconv2d_lanes"})


def ordered(lanes: te.Tensor, channels: int, name: str) -> te.Tensor:
    """[N, CO, OH, OW]: the first `channels` in the order of the result."""
    images, _, *counts, width = lanes.shape

    def value(n: te.Value, c: te.Value, y: te.Value, x: te.Value) -> te.Value:
        return lanes[n, c // width, y, x, c % width]

    return te.compute((images, channels, *counts), value, name, {"operator": "qconv2d_result"})


def packed_channels(where: str, x: te.Tensor, weight: te.Tensor, layout: DotLayout) -> int:
    """The output channels of the weights; refuses data and weights that do not fit each other, or the layout."""
    check_rank(where, "x", x, 4, 4)
    check_quantised(where, "x", x)
    blocks, inputs, _, _, *entry = packed_shape(where, weight, 6)
    groups = -(-static_extent(where, "extent 1 of x", x.shape[1]) // layout.group)
    if (weight.dtype, inputs, *entry) != (layout.weights, groups, layout.lanes, layout.group):
        wanted = f"{layout.weights}[CO / {layout.lanes}, {groups}, KH, KW, {layout.lanes}, {layout.group}]"
        raise not_packed(where, weight, wanted, "pack_qconv2d")
    return blocks * layout.lanes
