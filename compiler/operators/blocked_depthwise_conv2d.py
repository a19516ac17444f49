"""Depthwise convolution of an image in blocks of channels, which are the lanes of vectors.

The stages: `<name>_sum` the sums, starting from the bias; `<name>` the sums in the dtype of the
image. There is no padded image: windows at the border leave out the taps outside of the image.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import Array
from vdla.compiler.operators.blocked import blocks_of, check_blocked
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_bias,
    check_number,
    check_same_dtype,
    check_weights,
    static_extents,
)
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.operators.windows import Ints, in_image, windows_of
from vdla.support.window import Window

_NAME = "blocked_depthwise_conv2d"


def blocked_depthwise_conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    name: str | None = None,
) -> te.Tensor:
    """x [N, C / L, H, W, L], weight [C / L, KH, KW, L], bias [C] -> [N, C / L, OH, OW, L].

    `pack_blocked_depthwise_conv2d` makes the weight, `pack_channels` the bias. float16 and bfloat16
    are summed in float32; integers wrap.
    """
    check_number(_NAME, "x", x)
    blocks, lanes = check_blocked(_NAME, "x", x)
    check_same_dtype(_NAME, x, weight, *([] if bias is None else [bias]))
    extents = static_extents(_NAME, "weight's extent", weight.shape)
    if len(extents) != 4 or (extents[0], extents[3]) != (blocks, lanes):
        raise OperatorError(f"{_NAME}: weight must be [{blocks}, KH, KW, {lanes}], got {extents}")
    check_bias(_NAME, bias, blocks * lanes)
    windows = windows_of(_NAME, x.shape[2:4], extents[1:3], strides, pads, dilations)
    result = result_name(x, _NAME, name)
    total = _sums(x, weight, bias, windows, f"{result}_sum")
    return te.compute(total.shape, lambda *i: te.cast(x.dtype, total[i]), result)


def pack_blocked_depthwise_conv2d(weight: Array, lanes: int) -> Array:
    """Packs a weight [C, 1, KH, KW] as [C / lanes, KH, KW, lanes], padded with zeros."""
    where = "pack_blocked_depthwise_conv2d"
    check_weights(where, weight, "[C, 1, KH, KW]")
    if weight.shape[1] != 1:
        raise OperatorError(f"{where}: weight must be [C, 1, KH, KW], got {list(weight.shape)}")
    count = at_least(where, "lanes", lanes, 1)
    padded = np.pad(weight[:, 0], ((0, -len(weight) % count), (0, 0), (0, 0)))
    blocks = padded.reshape(blocks_of(len(weight), count), count, *weight.shape[2:])
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 1))


def _sums(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, windows: Window, name: str) -> te.Tensor:
    """[N, C / lanes, OH, OW, lanes]: the sums, with the bias."""
    kh, kw = (te.reduce_axis(extent, axis) for extent, axis in zip(windows.taps, ("kh", "kw"), strict=True))
    lanes = x.shape[4]

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        position = [windows.position(0, oh, kh), windows.position(1, ow, kw)]
        element = x[n, cb, position[0], position[1], c]
        if inside := in_image(windows, position):
            element = te.select(te.all_of(*inside), element, te.const(0, x.dtype))
        start = None if bias is None else to_accumulator(bias[cb * lanes + c])
        return te.sum(to_accumulator(element) * to_accumulator(weight[cb, kh, kw, c]), axis=[kh, kw], init=start)

    return te.compute((*x.shape[:2], *windows.places, lanes), value, name, {OPERATOR: "blocked_window"})
