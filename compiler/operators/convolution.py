"""Convolution over any number of spatial dimensions, with groups: the direct sum, as ONNX's Conv.

`conv2d` and `depthwise_conv2d` are the fast forms over two dimensions. The stages: `<name>_pad` the
padded input; `<name>_sum` the sums; `<name>` the result.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_bias,
    check_number,
    check_rank,
    check_same_dtype,
    static_extent,
    static_extents,
)
from vdla.compiler.operators.pad import pad
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.support.window import Window

_NAME = "convolution"


def convolution(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    groups: int = 1,
    name: str | None = None,
) -> te.Tensor:
    """x [N, C, spatial...], weight [CO, C / groups, kernel...], bias [CO] -> [N, CO, spatial...].

    float16 and bfloat16 are summed in float32; integers wrap.
    """
    count = at_least(_NAME, "groups", groups, 1)
    _check_operands(x, weight, bias, count)
    windows = windows_of(_NAME, x.shape[2:], weight.shape[2:], strides, pads, dilations)
    result = result_name(x, _NAME, name)
    total = _sums(_padded(x, windows, f"{result}_pad"), weight, windows, count, f"{result}_sum")

    def value(*i: te.Value) -> te.Value:
        return te.cast(x.dtype, total[i] if bias is None else total[i] + to_accumulator(bias[i[1]]))

    return te.compute(total.shape, value, result)


def _padded(x: te.Tensor, windows: Window, name: str) -> te.Tensor:
    """The input padded as far as windows read."""
    pads = (0, 0, *windows.before, 0, 0, *windows.overhang)
    return pad(x, pads, name=name) if any(pads) else x


def _sums(image: te.Tensor, weight: te.Tensor, windows: Window, groups: int, name: str) -> te.Tensor:
    """[N, CO, windows...]: the sums over channels and taps."""
    channels, outputs = weight.shape[1], weight.shape[0] // groups
    c = te.reduce_axis(channels, "c")
    taps = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(windows.taps)]

    def value(*i: te.Value) -> te.Value:
        n, k, *at = i
        channel = c if groups == 1 else k // outputs * channels + c
        position = [
            place * stride + tap * gap
            for place, tap, stride, gap in zip(at, taps, windows.strides, windows.dilations, strict=True)
        ]
        return te.sum(
            to_accumulator(image[(n, channel, *position)]) * to_accumulator(weight[(k, c, *taps)]), axis=[c, *taps]
        )

    return te.compute((image.shape[0], weight.shape[0], *windows.places), value, name)


def _check_operands(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, groups: int) -> None:
    """Refuse operands whose dtypes or extents do not fit together."""
    check_rank(_NAME, "x", x, 3)
    check_number(_NAME, "x", x)
    check_rank(_NAME, "weight", weight, len(x.shape), len(x.shape))
    check_same_dtype(_NAME, x, weight, *([] if bias is None else [bias]))
    channels = static_extent(_NAME, "extent 1 of x", x.shape[1])
    outputs, ins, *_ = static_extents(_NAME, "weight's extent", weight.shape)
    if ins * groups != channels:
        rule = f"weight must have {channels} / {groups} input channels (those of x / groups)"
        raise OperatorError(f"{_NAME}: {rule}, got {ins}")
    if outputs % groups:
        raise OperatorError(f"{_NAME}: groups must divide the {outputs} output channels, got {groups}")
    check_bias(_NAME, bias, outputs)
