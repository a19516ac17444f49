"""Depthwise convolution: each channel has its own kernel, or several.

The stages: `<name>_pad` the padded image; `<name>_sum` the sums, starting from the bias; `<name>`
the sums in the dtype of the image. Vector lanes run along the rows of the image, which stays [N, C,
H, W]. With a stride, the columns of the padded image are split into phases: the elements that a tap
reads for neighbouring results are then contiguous.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import (
    OperatorError,
    check_bias,
    check_number,
    check_rank,
    check_same_dtype,
    static_extent,
    static_extents,
)
from vdla.compiler.operators.conv2d import pad_image
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.roles import OPERATOR, PHASES
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.support.window import Window

_NAME = "depthwise_conv2d"


def depthwise_conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    name: str | None = None,
) -> te.Tensor:
    """x [N, C, H, W], weight [C * m, 1, KH, KW], bias [C * m] -> [N, C * m, OH, OW].

    m is the channel multiplier: input channel c gives the output channels c * m to c * m + m - 1.
    float16 and bfloat16 are summed in float32; integers wrap.
    """
    _check_operands(x, weight, bias)
    windows = windows_of(_NAME, x.shape[2:4], weight.shape[2:4], strides, pads, dilations)
    result = result_name(x, _NAME, name)
    pad_stage = pad_image if windows.strides[1] == 1 else _pad_in_phases
    image = pad_stage(x, windows, f"{result}_pad")
    total = _sums(image, weight, bias, windows, f"{result}_sum")
    return te.compute(total.shape, lambda n, c, oh, ow: te.cast(x.dtype, total[n, c, oh, ow]), result)


def _pad_in_phases(x: te.Tensor, windows: Window, name: str) -> te.Tensor:
    """[N, C, rows, stride, columns / stride]: the padded image, its columns in phases."""
    stride, (top, left) = windows.strides[1], windows.before
    rows, columns = windows.extents

    def value(n: te.Value, c: te.Value, h: te.Value, phase: te.Value, w: te.Value) -> te.Value:
        y, column = h - top, w * stride + phase - left
        conditions = te.all_of(*inside(y, top, rows, x.shape[2]), *inside(column, left, columns, x.shape[3]))
        return te.select(conditions, x[n, c, y, column], te.const(0, x.dtype))

    def inside(place: te.Value, before: int, reach: int, extent: int) -> list[te.Value]:
        return [place >= 0] * (before > 0) + [place < extent] * (reach - before > extent or stride > 1)

    return te.compute((*x.shape[:2], rows, stride, -(-columns // stride)), value, name, {PHASES: stride})


def _sums(image: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, windows: Window, name: str) -> te.Tensor:
    """[N, C * m, OH, OW]: the sums, with the bias."""
    taps = te.reduce_axis(windows.taps[0], "kh"), te.reduce_axis(windows.taps[1], "kw")
    multiplier, stride = weight.shape[0] // image.shape[1], windows.strides[1]

    def value(n: te.Value, c: te.Value, oh: te.Value, ow: te.Value) -> te.Value:
        y, offset = oh * windows.strides[0] + taps[0] * windows.dilations[0], taps[1] * windows.dilations[1]
        columns = (ow + offset,) if stride == 1 else (offset % stride, ow + offset // stride)
        channel = c if multiplier == 1 else c // multiplier
        element = to_accumulator(image[(n, channel, y, *columns)])
        start = None if bias is None else to_accumulator(bias[c])
        return te.sum(element * to_accumulator(weight[c, 0, taps[0], taps[1]]), axis=[*taps], init=start)

    shape = (image.shape[0], weight.shape[0], *windows.places)
    return te.compute(shape, value, name, {OPERATOR: _NAME})


def _check_operands(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None) -> None:
    """Refuse operands whose dtypes or extents do not fit together."""
    check_rank(_NAME, "x", x, 4, 4)
    check_number(_NAME, "x", x)
    check_rank(_NAME, "weight", weight, 4, 4)
    check_same_dtype(_NAME, x, weight, *([] if bias is None else [bias]))
    channels, extents = (
        static_extent(_NAME, "extent 1 of x", x.shape[1]),
        static_extents(_NAME, "weight's extent", weight.shape),
    )
    if extents[1] != 1 or extents[0] % channels:
        raise OperatorError(f"{_NAME}: weight must be [{channels} * m, 1, KH, KW], got {extents}")
    check_bias(_NAME, bias, extents[0])
