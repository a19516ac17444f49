"""Depthwise convolution: each channel of the image with a window, or several, of its own.

`<name>_pad` is the padded image, `<name>_sum` the sums, and `<name>` adds the bias. Lanes run along the rows of the
image, so that it stays in the order [N, C, H, W].
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, check_number, check_rank, check_same_dtype
from vdla.compiler.operators.conv2d import padded
from vdla.compiler.operators.softmax import wide
from vdla.compiler.operators.windows import Ints, Windows, windows_of

NAME = "depthwise_conv2d"


def depthwise_conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    name: str | None = None,
) -> te.Tensor:
    """x [N, C, H, W], weight [C * times, 1, KH, KW], bias [C * times] -> [N, C * times, OH, OW].

    Channel c gives the results c * times, c * times + 1, ... Narrow floats are summed in float32; integers wrap.
    """
    result = f"{x.name}_{NAME}" if name is None else name
    check_operands(x, weight, bias)
    windows = windows_of(NAME, x.shape[2:4], weight.shape[2:4], strides, pads, dilations)
    total = summed(padded(x, windows, f"{result}_pad"), weight, windows, f"{result}_sum")

    def value(n: te.Value, c: te.Value, oh: te.Value, ow: te.Value) -> te.Value:
        sums = total[n, c, oh, ow]
        return te.cast(x.dtype, sums if bias is None else sums + wide(bias[c]))

    return te.compute(total.shape, value, result)


def summed(image: te.Tensor, weight: te.Tensor, windows: Windows, name: str) -> te.Tensor:
    """[N, C * times, OH, OW]: the sums."""
    taps = te.reduce_axis(windows.kernel[0], "kh"), te.reduce_axis(windows.kernel[1], "kw")
    times = weight.shape[0] // image.shape[1]

    def value(n: te.Value, c: te.Value, oh: te.Value, ow: te.Value) -> te.Value:
        places = zip((oh, ow), taps, windows.strides, windows.dilations, strict=True)
        y, x = (place * stride + tap * gap for place, tap, stride, gap in places)
        channel = c if times == 1 else c // times
        return te.sum(wide(image[n, channel, y, x]) * wide(weight[c, 0, taps[0], taps[1]]), axis=[*taps])

    shape = (image.shape[0], weight.shape[0], *windows.counts)
    return te.compute(shape, value, name, annotations={"operator": NAME})


def check_operands(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None) -> None:
    """Refuse operands that do not fit each other."""
    check_rank(NAME, "x", x, 4, 4)
    check_number(NAME, "x", x)
    check_rank(NAME, "weight", weight, 4, 4)
    check_same_dtype(NAME, x, weight, *([] if bias is None else [bias]))
    if weight.shape[1] != 1 or weight.shape[0] % x.shape[1]:
        rule = f"weight must be [{x.shape[1]} * times, 1, KH, KW]"
        raise OperatorError(f"{NAME}: {rule}, got {list(weight.shape)}")
    if bias is not None and bias.shape != (weight.shape[0],):
        raise OperatorError(f"{NAME}: bias must be of shape [{weight.shape[0]}], got {list(bias.shape)}")
