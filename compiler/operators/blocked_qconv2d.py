"""Quantised convolution into blocks of channels, of an image in blocks or a plain one.

The stages: `<name>_data` the image padded and in the dtype of the dot product, left out where the
dot product reads the image itself; `<name>_sum` the int32 sums, from the bias on;
`<name>` the sums rescaled. `pack_qconv2d` makes weight, bias and scale.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.blocked import blocks_of
from vdla.compiler.operators.checks import OperatorError, check_rank, static_extents, target_of
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
from vdla.compiler.operators.quantised_weights import DotLayout, best_dot_layout
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.roles import DATA, OPERATOR, PLACED
from vdla.compiler.operators.windows import Ints, in_image, windows_of
from vdla.compiler.target import Target
from vdla.support.window import Window


def blocked_qconv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor,
    scale: te.Tensor,
    target: Target | str,
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
    """The convolution of uint8 or int8 `x` into blocks: `dtype` [N, CO / lanes, OH, OW, lanes].

    `x` is in blocks, [N, C / L, H, W, L], or plain, [N, C, H, W]. Results lie within `clip`.
    `weight`, `bias` and `scale` are those of `pack_qconv2d` for `target`; `largest_sum`, its bound
    of the magnitude of sums, makes rescaling cheaper. Padding has the value `x_zero_point`.
    """
    where = name or "blocked_qconv2d"
    layout = best_dot_layout(target_of(where, target))
    packed = _packed_channels(where, x, weight, layout)
    check_requantisation(where, bias, scale, packed, y_zero_point, dtype)
    check_clip(where, clip, dtype)
    zero = check_zero_point(where, "x_zero_point", x_zero_point, x.dtype)
    windows = windows_of(where, x.shape[2:4], weight.shape[2:4], strides, pads, dilations)
    result = result_name(x, "blocked_qconv2d", name)
    data = _data(x, windows, layout, zero, f"{result}_data")
    total = _sums(data, weight, bias, windows, layout, f"{result}_sum")

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        return requantise(total[n, cb, oh, ow, c], scale[cb * layout.lanes + c], y_zero_point, dtype, largest_sum, clip)

    return te.compute(total.shape, value, result)


# --- stages ---------------------------------------------------------------------------------------


def _data(x: te.Tensor, windows: Window, layout: DotLayout, zero_point: int, name: str) -> te.Tensor:
    """[N, C / L, H, W, L]: the image as the dot product reads it; L is a group for a plain image.

    Padding channels may have any value: their weights are 0.
    """
    is_blocked = len(x.shape) == 5
    if is_blocked and x.dtype == layout.data and not windows.leaves_image:
        return x
    padding = te.const(zero_point + activation_shift(x.dtype, layout.data), layout.data)
    lanes = x.shape[4] if is_blocked else layout.group

    def value(n: te.Value, cb: te.Value, h: te.Value, w: te.Value, c: te.Value) -> te.Value:
        position = [h - windows.before[0], w - windows.before[1]]
        inside = in_image(windows, position)
        channel = cb * lanes + c
        if not is_blocked and x.shape[1] % lanes:
            inside.append(channel < x.shape[1])
        element = x[(n, cb, *position, c)] if is_blocked else x[(n, channel, *position)]
        converted = convert_activation(element, layout.data)
        return te.select(te.all_of(*inside), converted, padding) if inside else converted

    blocks = x.shape[1] if is_blocked else blocks_of(x.shape[1], lanes)
    return te.compute((x.shape[0], blocks, *windows.extents, lanes), value, name, PLACED)


def _sums(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor, windows: Window, layout: DotLayout, name: str
) -> te.Tensor:
    """[N, CO / lanes, OH, OW, lanes]: the int32 sums, from the bias on."""
    k, i = te.reduce_axis(weight.shape[1], "k"), te.reduce_axis(layout.group, "i")
    r, q = te.reduce_axis(weight.shape[2], "r"), te.reduce_axis(weight.shape[3], "q")
    groups = data.shape[4] // layout.group

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        taps = zip((oh, ow), (r, q), windows.strides, windows.dilations, strict=True)
        y, x = (window * stride + tap * dilation for window, tap, stride, dilation in taps)
        block, lane = (k, i) if groups == 1 else (k // groups, k % groups * layout.group + i)
        left = te.cast("int32", data[n, block, y, x, lane])
        product = left * te.cast("int32", weight[cb, k, r, q, c, i])
        return te.sum(product, axis=[k, r, q, i], init=bias[cb * layout.lanes + c])

    shape = (data.shape[0], weight.shape[0], *windows.places, layout.lanes)
    return te.compute(shape, value, name, {OPERATOR: "blocked_qconv2d", DATA: data.name})


# --- checks ---------------------------------------------------------------------------------------


def _packed_channels(where: str, x: te.Tensor, weight: te.Tensor, layout: DotLayout) -> int:
    """The output channels of the weight, whose layout must be that of the data and the target."""
    check_rank(where, "x", x, 4, 5)
    check_quantised(where, "x", x)
    blocks, inputs, _, _, *entry = packed_extents(where, weight, 6)
    channels, *lanes = (
        static_extents(where, "extent of x", x.shape)[d] for d in (1, *([4] if len(x.shape) == 5 else []))
    )
    if lanes and lanes[0] % layout.group:
        raise OperatorError(f"{where}: the lanes of x must be a multiple of {layout.group}, got {lanes[0]}")
    fits = (
        blocks_of(inputs * layout.group, *lanes) == channels if lanes else inputs == blocks_of(channels, layout.group)
    )
    if not fits or (weight.dtype, *entry) != (layout.weights, layout.lanes, layout.group):
        wanted = f"{layout.weights}[CO / {layout.lanes}, CI / {layout.group}, KH, KW, {layout.lanes}, {layout.group}]"
        raise packing_error(where, weight, f"{wanted} of the channels of x", "pack_qconv2d")
    return blocks * layout.lanes
