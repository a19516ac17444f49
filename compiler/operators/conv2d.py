# SPDX-License-Identifier: Apache-2.0
"""Two-dimensional convolution, as ONNX's Conv, on packed weights with output channels in lanes.

The stages: `<name>_pad` the padded image; `<name>_sum` the sums in blocks of output channels, as
they lie in vector registers, starting from the bias; `<name>` the result in its layout.
Element-wise operators on the result fuse with the last stage.
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
    check_same_dtype,
    check_weights,
    same_shape,
    static_extent,
    static_extents,
    target_of,
)
from vdla.compiler.operators.layouts import at_channel, block_size, check_layout
from vdla.compiler.operators.pad import pad
from vdla.compiler.operators.results import accumulator_dtype, biased, result_name, sum_of_products
from vdla.compiler.operators.roles import GROUP, OPERATOR
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.compiler.target import Target
from vdla.support.window import Window

_NAME = "conv2d"


def conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    groups: int = 1,
    out_channels: int | None = None,
    layout: str = "NCHW",
    weight_layout: str = "OIHW",
    result_layout: str | None = None,
    target: Target | str = "host",
    name: str | None = None,
) -> te.Tensor:
    """x [N, C, H, W], weight [CO, C / groups, KH, KW], bias [CO] -> [N, CO, OH, OW].

    A plain weight is packed at every call. `weight_layout` "OIHW16o" is a weight that `pack_conv2d`
    packed for 16 lanes, of which the first `out_channels` are used. `layout` "NCHW16c" is an image
    in blocks of 16 channels, the last one padded; the result then has blocks of as many channels as
    the weight has lanes, and the bias may be padded to them. `result_layout` "NCHW16c" gives blocks
    of a plain image, too. float16 and bfloat16 are summed in float32; integers wrap.
    """
    block = block_size(_NAME, "layout", layout, "NCHW", "c")
    lanes = block_size(_NAME, "weight_layout", weight_layout, "OIHW", "o")
    check_layout(_NAME, "x", x, layout, block)
    check_layout(_NAME, "weight", weight, weight_layout, lanes)
    geometry = _geometry(x, weight, strides, pads, dilations, groups, out_channels, lanes, target)
    is_blocked = _is_blocked(result_layout, block, geometry)
    if lanes is not None and weight.shape[0] != geometry.blocks:
        rule = f"weight must have {geometry.blocks} blocks of {lanes} channels"
        raise OperatorError(f"{_NAME}: {rule}, got {weight.shape[0]}")
    geometry.check_operands(_NAME, x, weight, bias, is_blocked=is_blocked)
    result = result_name(x, _NAME, name)
    packed = weight if lanes is not None else _packed_weight(weight, geometry, f"{result}_weight")
    image = pad_image(x, geometry.windows, f"{result}_pad")
    total = _sums(image, packed, bias, geometry, block, f"{result}_sum")
    return result_in_layout(total, None, geometry, x.dtype, is_blocked, result)


@dataclass(frozen=True, slots=True)
class ConvGeometry:
    """Channels and output channels of a group of a convolution, the latter in blocks of lanes."""

    windows: Window
    groups: int
    group_channels: int
    group_outputs: int
    lanes: int

    @property
    def outputs(self) -> int:
        """Output channels of all groups."""
        return self.groups * self.group_outputs

    @property
    def group_blocks(self) -> int:
        """Blocks of a group; the last one may be padded."""
        return -(-self.group_outputs // self.lanes)

    @property
    def blocks(self) -> int:
        """Blocks of all groups."""
        return self.groups * self.group_blocks

    @property
    def is_dense(self) -> bool:
        """Whether only the last block of all may be padded."""
        return self.groups == 1 or self.group_outputs % self.lanes == 0

    def block_of(self, channel: te.Value) -> te.Value:
        """The block of an output channel."""
        if self.is_dense:
            return channel // self.lanes
        return (channel // self.group_outputs) * self.group_blocks + (channel % self.group_outputs) // self.lanes

    def lane_of(self, channel: te.Value) -> te.Value:
        """The lane of an output channel in its block."""
        return (channel if self.is_dense else channel % self.group_outputs) % self.lanes

    def of_channel(self, tensor: te.Tensor, block: te.Value, lane: te.Value, *indices: te.Operand) -> te.Value:
        """`tensor[channel, *indices]` for the channel of a lane in a block; 0 in padding."""
        if self.group_outputs % self.lanes == 0 or tensor.shape[0] == self.blocks * self.lanes:
            return tensor[(block * self.lanes + lane, *indices)]
        within = block % self.group_blocks * self.lanes + lane
        element = tensor[(block // self.group_blocks * self.group_outputs + within, *indices)]
        return te.select(within < self.group_outputs, element, te.const(0, tensor.dtype))

    def check_operands(
        self, where: str, x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, *, is_blocked: bool
    ) -> None:
        """Refuse operands whose dtypes or extents do not fit together, and blocks with gaps."""
        check_same_dtype(where, x, weight, *([] if bias is None else [bias]))
        channels, *block = (static_extent(where, f"extent {d} of x", x.shape[d]) for d in (1, 4)[: len(x.shape) - 3])
        wanted = self.group_channels * self.groups
        if channels * prod(block) != (-(-wanted // block[0]) * block[0] if block and self.groups == 1 else wanted):
            of_group = (
                f" / {self.groups} input channels (those of x / groups)" if self.groups > 1 else " input channels, as x"
            )
            rule = f"weight must have {channels * prod(block)}{of_group}"
            raise OperatorError(f"{where}: {rule}, got {self.group_channels}")
        if is_blocked and not self.is_dense:
            rule = f"output channels of a group must fill blocks of {self.lanes} where the result is in blocks"
            raise OperatorError(f"{where}: {rule}, got {self.group_outputs}")
        padded = self.blocks * self.lanes
        is_padded = bias is not None and is_blocked and self.is_dense and same_shape(bias.shape, (padded,))
        check_bias(where, bias, padded if is_padded else self.outputs)


def lanes_of(group_outputs: int, dtype: str, target: Target) -> int:
    """The lanes of a block of outputs: one vector, or the next power of two for fewer channels."""
    most = target.lanes(storage_dtype(accumulator_dtype(dtype)).itemsize)
    return min(most, 1 << (group_outputs - 1).bit_length())


def _geometry(
    x: te.Tensor,
    weight: te.Tensor,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    groups: int,
    out_channels: int | None,
    lanes: int | None,
    target: Target | str,
) -> ConvGeometry:
    """The geometry of a convolution of these operands; `lanes` are the lanes of a packed weight."""
    check_number(_NAME, "x", x)
    count = at_least(_NAME, "groups", groups, 1)
    blocks, channels, *kernel_shape = static_extents(_NAME, "weight's extent", weight.shape)
    windows = windows_of(_NAME, x.shape[2:4], kernel_shape[:2], strides, pads, dilations)
    most = blocks * (lanes or 1)
    outputs = most if out_channels is None else at_least(_NAME, "out_channels", out_channels, 1)
    if lanes is None and outputs != most:
        raise OperatorError(f"{_NAME}: out_channels must be the {most} of a plain weight, got {outputs}")
    if outputs % count:
        raise OperatorError(f"{_NAME}: groups must divide the {outputs} output channels, got {count}")
    lanes = lanes or lanes_of(outputs // count, x.dtype, target_of(_NAME, target))
    return ConvGeometry(windows, count, channels, outputs // count, lanes)


# --- stages ---------------------------------------------------------------------------------------


def pad_image(x: te.Tensor, windows: Window, name: str, padding: te.Number = 0) -> te.Tensor:
    """The image padded as far as windows reach; the image itself if they need no padding."""
    lanes = (0,) * (len(x.shape) - 2 - len(windows.size))
    pads = (0, 0, *windows.before, *lanes, 0, 0, *windows.overhang, *lanes)
    return pad(x, pads, padding, name=name) if any(pads) else x


def _sums(
    image: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, geometry: ConvGeometry, block: int | None, name: str
) -> te.Tensor:
    """[N, blocks, OH, OW, lanes]: the sums, with the bias; `block` is the image's block size."""
    windows = geometry.windows
    ci = te.reduce_axis(geometry.group_channels, "ci")
    kh, kw = te.reduce_axis(windows.taps[0], "kh"), te.reduce_axis(windows.taps[1], "kw")

    def value(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        channel = ci if geometry.groups == 1 else cb // geometry.group_blocks * geometry.group_channels + ci
        place = windows.padded_position(0, oh, kh), windows.padded_position(1, ow, kw)
        start = None if bias is None else geometry.of_channel(bias, cb, c)
        pixel = image[at_channel(block, n, channel, *place)]
        return sum_of_products(pixel, weight[cb, ci, kh, kw, c], (ci, kh, kw), start)

    shape = (image.shape[0], geometry.blocks, *windows.places, geometry.lanes)
    group = geometry.group_outputs if geometry.groups > 1 else 0
    return te.compute(shape, value, name, {OPERATOR: _NAME, GROUP: group})


def result_in_layout(
    total: te.Tensor, bias: te.Tensor | None, geometry: ConvGeometry, dtype: str, is_blocked: bool, name: str
) -> te.Tensor:
    """The sums plus a bias as `dtype`, [N, CO, OH, OW] or in the blocks of the sums."""

    def in_blocks(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        start = None if bias is None else geometry.of_channel(bias, cb, c)
        return biased(total[n, cb, oh, ow, c], start, dtype)

    def plain(n: te.Value, co: te.Value, oh: te.Value, ow: te.Value) -> te.Value:
        sums = total[n, geometry.block_of(co), oh, ow, geometry.lane_of(co)]
        return biased(sums, None if bias is None else bias[co], dtype)

    if is_blocked:
        return te.compute((*total.shape[:2], *geometry.windows.places, geometry.lanes), in_blocks, name)
    return te.compute((total.shape[0], geometry.outputs, *geometry.windows.places), plain, name)


# --- weights --------------------------------------------------------------------------------------


def pack_conv2d(weight: Array, target: Target | str = "host", groups: int = 1, lanes: int | None = None) -> Array:
    """Packs a weight OIHW as "OIHW<lanes>o": [blocks, C / groups, KH, KW, lanes].

    The last block of each group is padded with zeros. By default `lanes` is the vector length.
    """
    check_weights("pack_conv2d", weight, "[CO, CI, KH, KW]")
    count = at_least("pack_conv2d", "groups", groups, 1)
    if len(weight) % count:
        raise OperatorError(f"pack_conv2d: groups must divide the {len(weight)} output channels, got {count}")
    outputs = len(weight) // count
    lanes = lanes or lanes_of(outputs, str(weight.dtype), target_of("pack_conv2d", target))
    grouped = weight.reshape(count, outputs, *weight.shape[1:])
    padded = np.pad(grouped, [(0, 0), (0, -outputs % lanes), (0, 0), (0, 0), (0, 0)])
    blocks = padded.reshape(-1, lanes, *weight.shape[1:])
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 4, 1))


def _packed_weight(weight: te.Tensor, geometry: ConvGeometry, name: str) -> te.Tensor:
    """The stage that packs a plain weight in the kernel."""

    def value(cb: te.Value, ci: te.Value, kh: te.Value, kw: te.Value, c: te.Value) -> te.Value:
        return geometry.of_channel(weight, cb, c, ci, kh, kw)

    return te.compute((geometry.blocks, *weight.shape[1:], geometry.lanes), value, name)


# --- checks ---------------------------------------------------------------------------------------


def _is_blocked(result_layout: str | None, block: int | None, geometry: ConvGeometry) -> bool:
    """Whether the result is in blocks; by default if the image is."""
    if result_layout is None:
        return block is not None
    lanes = block_size(_NAME, "result_layout", result_layout, "NCHW", "c")
    if lanes is not None and lanes != geometry.lanes:
        rule = f"result_layout must be NCHW or NCHW{geometry.lanes}c, by the lanes of weight"
        raise OperatorError(f"{_NAME}: {rule}, got {result_layout}")
    return lanes is not None
