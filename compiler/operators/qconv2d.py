"""The quantised convolution, [N, C, H, W] to [N, CO, OH, OW], as ONNX's QLinearConv defines it.

Four stages: the data regrouped and padded (`<name>_data`), the sums (`<name>_sum`), rescaled with channels innermost
(`<name>_lanes`), and brought into the order of the result (`<name>`). Weights, bias and scale come from `pack_qconv2d`.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, at_least, check_rank
from vdla.compiler.operators.quantise import (
    check_quantised,
    check_rescaling,
    check_zero_point,
    requantised,
    shift_of,
    shifted,
)
from vdla.compiler.operators.qweights import DotLayout, layout_of
from vdla.compiler.operators.taken import Taken, taken
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.compiler.target import Target


def qconv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor,
    scale: te.Tensor,
    target: Target,
    out_channels: int | None = None,
    x_zero_point: int = 0,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    name: str = "qconv2d",
) -> te.Tensor:
    """The convolution of uint8 or int8 `x` with packed int8 weights; `dtype` is that of the result.

    `weight` is [CO / lanes, CI / group, KH, KW, lanes, group] as `pack_qconv2d` makes it for `target`; of its outputs
    the first `out_channels` (all of them by default) are kept. Padding counts as `x_zero_point`.
    """
    layout = layout_of(target)
    check_operands(name, x, weight, layout)
    packed = weight.shape[0] * layout.lanes
    channels = kept_channels(name, packed, out_channels)
    check_rescaling(name, bias, scale, packed, y_zero_point, dtype)
    zero = check_zero_point(name, "x_zero_point", x_zero_point, x.dtype)
    part = taken(windows_of(name, x.shape[2:], weight.shape[2:4], strides, pads, dilations))
    data = regrouped(x, part, layout, zero, f"{name}_data")
    total = summed(data, weight, part, layout, name)

    def value(n: te.Value, c: te.Value, y: te.Value, x: te.Value, o: te.Value) -> te.Value:
        channel = c * layout.lanes + o
        return requantised(total[n, c, y, x, o] + bias[channel], scale[channel], y_zero_point, dtype)

    lanes = te.compute(total.shape, value, f"{name}_lanes", {"operator": "qconv2d_lanes"})
    return te.compute(
        (x.shape[0], channels, *part.windows.counts),
        lambda n, c, y, x: lanes[n, c // layout.lanes, y, x, c % layout.lanes],
        name,
        {"operator": "qconv2d_result"},
    )


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


# --- checks ----------------------------------------------------------------------------------------------------------


def check_operands(where: str, x: te.Tensor, weight: te.Tensor, layout: DotLayout) -> None:
    """Refuse data and weights that do not fit each other, or the layout."""
    check_rank(where, "x", x, 4, 4)
    check_quantised(where, "x", x)
    check_rank(where, "weight", weight, 6, 6)
    groups = -(-x.shape[1] // layout.group)
    entry = (layout.lanes, layout.group)
    if weight.dtype != layout.weights or weight.shape[4:] != entry or weight.shape[1] != groups:
        wanted = f"{layout.weights}[CO / {layout.lanes}, {groups}, KH, KW, {layout.lanes}, {layout.group}]"
        found = f"{weight.dtype}{list(weight.shape)}"
        raise OperatorError(f"{where}: weight must be {wanted}, got {found}; pack_qconv2d packs it for a target")


def kept_channels(where: str, packed: int, out_channels: int | None) -> int:
    """The number of output channels, at most those that are packed."""
    if out_channels is None:
        return packed
    kept = at_least(where, "out_channels", out_channels, 1)
    if kept > packed:
        raise OperatorError(f"{where}: out_channels must be at most {packed}, those of the weights, got {kept}")
    return kept
