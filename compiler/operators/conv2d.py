"""Two-dimensional convolution, as ONNX's Conv defines it, with packed weights and channels in lanes.

`<name>_pad` is the padded image, `<name>_sum` the sums with a block of output channels innermost, as they lie in vector
registers, starting from the bias, and `<name>` brings them into the order of the result. What a graph does with the
result element by element joins that last stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import Array, storage_dtype
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_bias,
    check_number,
    check_rank,
    check_same_dtype,
    check_weights,
    machine_of,
    static_extent,
    static_extents,
)
from vdla.compiler.operators.pad import pad
from vdla.compiler.operators.results import accumulator_dtype, result_name, to_accumulator
from vdla.compiler.operators.windows import Ints, Windows, windows_of
from vdla.compiler.target import Target

NAME = "conv2d"
BLOCKED_RANK = 5  # of an image [N, C / block, H, W, block]


def conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    groups: int = 1,
    out_channels: int | None = None,
    name: str | None = None,
    target: Target | str = "host",
) -> te.Tensor:
    """x [N, C, H, W], weight [CO, C / groups, KH, KW], bias [CO] -> [N, CO, OH, OW].

    A weight of five dimensions is one that `pack_conv2d` packed: [blocks, C / groups, KH, KW, lanes], of `out_channels`
    channels. An image of five dimensions has its channels in blocks, [N, C / block, H, W, block], and so has the result
    then: [N, CO / lanes, OH, OW, lanes]. `pads` are those before each spatial dimension, then after each. Narrow floats
    are summed in float32; integers wrap.
    """
    part = part_of(x, weight, strides, pads, dilations, groups, out_channels, target)
    check_operands(x, weight, bias, part)
    result = result_name(x, NAME, name)
    packed = weight if len(weight.shape) == BLOCKED_RANK else packed_stage(weight, part, f"{result}_weight")
    total = summed(padded(x, part.windows, f"{result}_pad"), packed, bias, part, f"{result}_sum")
    return arranged(total, None, part, x, result)


@dataclass(frozen=True, slots=True)
class Part:
    """What a convolution is made of: `channels` and `outs` of one of `groups`, and output channels in `lanes`."""

    windows: Windows
    groups: int
    channels: int
    outs: int
    lanes: int

    @property
    def blocks(self) -> int:
        """Blocks of lanes of a group; the last one may be filled up with zeros."""
        return -(-self.outs // self.lanes)

    @property
    def regular(self) -> bool:
        """Whether no block but the last one is filled up."""
        return self.groups == 1 or self.outs % self.lanes == 0

    def block(self, channel: te.Value) -> te.Value:
        """The block of an output channel."""
        if self.regular:
            return channel // self.lanes
        return (channel // self.outs) * self.blocks + (channel % self.outs) // self.lanes

    def lane(self, channel: te.Value) -> te.Value:
        """The place of an output channel in its block."""
        return (channel if self.regular else channel % self.outs) % self.lanes

    def of_channel(self, tensor: te.Tensor, block: te.Value, lane: te.Value, *rest: te.Operand) -> te.Value:
        """`tensor[channel, *rest]` of the output channel in a lane of a block; 0 in lanes that fill up a block."""
        if self.outs % self.lanes == 0:
            return tensor[(block * self.lanes + lane, *rest)]
        within = block % self.blocks * self.lanes + lane
        element = tensor[(block // self.blocks * self.outs + within, *rest)]
        return te.select(within < self.outs, element, te.const(0, tensor.dtype))


def lanes_of(outs: int, dtype: str, target: Target) -> int:
    """The block of output channels for `outs` of them in a group: a vector, or less for few channels."""
    return min(target.lanes(storage_dtype(accumulator_dtype(dtype)).itemsize), 1 << (outs - 1).bit_length())


def part_of(
    x: te.Tensor,
    weight: te.Tensor,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    groups: int,
    out_channels: int | None,
    target: Target | str,
) -> Part:
    """The parts of a convolution of these operands."""
    check_rank(NAME, "x", x, 4, 5)
    check_rank(NAME, "weight", weight, 4, 5)
    check_number(NAME, "x", x)
    count = at_least(NAME, "groups", groups, 1)
    outs, channels, *kernel = static_extents(NAME, "weight's extent", weight.shape)
    windows = windows_of(NAME, x.shape[2:4], kernel[:2], strides, pads, dilations)
    packed = kernel[2:]
    most = outs * packed[0] if packed else outs
    total = most if out_channels is None else at_least(NAME, "out_channels", out_channels, 1)
    if not packed and total != most:
        raise OperatorError(f"{NAME}: out_channels must be the {most} of weight, which is not packed, got {total}")
    if total % count:
        raise OperatorError(f"{NAME}: groups must divide the {total} output channels, got {count}")
    lanes = packed[0] if packed else lanes_of(total // count, x.dtype, machine_of(NAME, target))
    return Part(windows, count, channels, total // count, lanes)


# --- stages ----------------------------------------------------------------------------------------------------------


def padded(x: te.Tensor, windows: Windows, name: str) -> te.Tensor:
    """The image with its padding, as far as windows reach; itself where they do not leave it."""
    before = (0, 0, *windows.before)
    after = (0, 0, *(max(0, windows.last(d) + 1 - windows.extents[d]) for d in range(2)))
    rest = (0,) * (len(x.shape) - 4)
    return pad(x, (*before, *rest), (*after, *rest), name=name) if any((*before, *after)) else x


def summed(image: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, part: Part, name: str) -> te.Tensor:
    """[N, blocks, OH, OW, lanes]: the sums, with the bias."""
    windows = part.windows
    ci = te.reduce_axis(part.channels, "ci")
    taps = te.reduce_axis(windows.kernel[0], "kh"), te.reduce_axis(windows.kernel[1], "kw")

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        channel = ci if part.groups == 1 else cb // part.blocks * part.channels + ci
        places = zip((oh, ow), taps, windows.strides, windows.dilations, strict=True)
        y, x = (place * stride + tap * gap for place, tap, stride, gap in places)
        element = to_accumulator(image[pixel(image, n, channel, y, x)])
        start = None if bias is None else to_accumulator(part.of_channel(bias, cb, c))
        return te.sum(element * to_accumulator(weight[cb, ci, taps[0], taps[1], c]), axis=[ci, *taps], init=start)

    shape = (image.shape[0], part.groups * part.blocks, *windows.counts, part.lanes)
    return te.compute(shape, value, name, {"operator": NAME, "group": part.outs if part.groups > 1 else 0})


def pixel(image: te.Tensor, n: te.Operand, channel: te.Operand, y: te.Operand, x: te.Operand) -> tuple[te.Operand, ...]:
    """The indices of an element of an image, with its channels in blocks or not."""
    if len(image.shape) < BLOCKED_RANK:
        return n, channel, y, x
    block = image.shape[4]
    return n, channel // block, y, x, channel % block


def arranged(total: te.Tensor, bias: te.Tensor | None, part: Part, x: te.Tensor, name: str) -> te.Tensor:
    """The sums in the order of the result, with a bias that they do not hold yet, in the dtype of `x`."""

    def finished(value: te.Value, channel: te.Value) -> te.Value:
        return te.cast(x.dtype, value if bias is None else value + to_accumulator(bias[channel]))

    def blocked(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        return finished(total[n, cb, oh, ow, c], cb * part.lanes + c)

    def plain(n: te.Value, co: te.Value, oh: te.Value, ow: te.Value) -> te.Value:
        return finished(total[n, part.block(co), oh, ow, part.lane(co)], co)

    if len(x.shape) == BLOCKED_RANK:
        return te.compute(total.shape, blocked, name)
    return te.compute((x.shape[0], part.groups * part.outs, *part.windows.counts), plain, name)


# --- weights ---------------------------------------------------------------------------------------------------------


def pack_conv2d(weight: Array, target: Target | str = "host", groups: int = 1) -> Array:
    """Weights [CO, CI, KH, KW] as [groups * blocks, CI, KH, KW, lanes], the lanes of a group's last block filled up
    with zeros."""
    check_weights("pack_conv2d", weight, "[CO, CI, KH, KW]")
    count = at_least("pack_conv2d", "groups", groups, 1)
    if len(weight) % count:
        raise OperatorError(f"pack_conv2d: groups must divide the {len(weight)} output channels, got {count}")
    outs = len(weight) // count
    lanes = lanes_of(outs, str(weight.dtype), machine_of("pack_conv2d", target))
    grouped = weight.reshape(count, outs, *weight.shape[1:])
    whole = np.pad(grouped, [(0, 0), (0, -outs % lanes), (0, 0), (0, 0), (0, 0)])
    blocks = whole.reshape(-1, lanes, *weight.shape[1:])
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 4, 1))


def packed_stage(weight: te.Tensor, part: Part, name: str) -> te.Tensor:
    """The weights packed when the kernel runs."""
    shape = (part.groups * part.blocks, *weight.shape[1:], part.lanes)

    def value(cb: te.Value, ci: te.Value, kh: te.Value, kw: te.Value, c: te.Value) -> te.Value:
        return part.of_channel(weight, cb, c, ci, kh, kw)

    return te.compute(shape, value, name)


# --- checks ----------------------------------------------------------------------------------------------------------


def check_operands(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, part: Part) -> None:
    """Refuse operands that do not fit each other."""
    check_same_dtype(NAME, x, weight, *([] if bias is None else [bias]))
    blocked = len(x.shape) == BLOCKED_RANK
    channels = prod(static_extent(NAME, f"extent {d} of x", x.shape[d]) for d in ((1, 4) if blocked else (1,)))
    if channels != part.channels * part.groups:
        rule = f"weight must have {channels} / {part.groups} input channels, as x and groups say"
        raise OperatorError(f"{NAME}: {rule}, got {part.channels}")
    if len(weight.shape) == BLOCKED_RANK and weight.shape[0] != part.groups * part.blocks:
        rule = f"weight must have {part.groups * part.blocks} blocks of {part.lanes} channels"
        raise OperatorError(f"{NAME}: {rule}, got {weight.shape[0]}")
    if blocked and part.outs % part.lanes:
        rule = f"output channels of a group must fill blocks of {part.lanes} where those of x are in blocks"
        raise OperatorError(f"{NAME}: {rule}, got {part.outs}")
    check_bias(NAME, bias, part.groups * part.outs)
