# SPDX-License-Identifier: Apache-2.0
"""The choice among direct, Winograd and depthwise convolution, and the packed weight.

plan = plan_convolution((1, 64, 56, 56), (64, 64, 3, 3), pads=1)
w = plan.weight("w")  # a placeholder for plan.pack(array)
y = plan.apply(x, w, bias)

With `layout` "NCHW16c" x is in blocks of 16 channels, and y in those of `plan.result_layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.ir import DTYPES, Array, is_float, storage_dtype
from vdla.compiler.operators.blocked import blocks_of, pack_channels
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_choice,
    check_weights,
    integers,
    target_of,
)
from vdla.compiler.operators.conv2d import conv2d, lanes_of, pack_conv2d
from vdla.compiler.operators.depthwise_conv2d import depthwise_conv2d, pack_depthwise_conv2d
from vdla.compiler.operators.layouts import block_size
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.compiler.operators.winograd import TRANSFORMS, WINDOW, pack_winograd, winograd_conv2d
from vdla.compiler.target import Target
from vdla.support.window import Window

ALGORITHMS = ("direct", "depthwise", "winograd2", "winograd4")
_TRANSFORM_COST = 64  # multiply-adds to transform a tile, for each channel of the data and of the result
_WINOGRAD_GAIN = 0.8  # of the multiply-adds of the direct convolution: the most that Winograd may take


@dataclass(frozen=True, slots=True)
class ConvolutionPlan:
    """A convolution of [N, C, H, W] by [CO, C / groups, KH, KW] with one of the algorithms.

    `block` is the block of channels of x, None for a plain image; `weight_lanes` are the lanes of a
    packed weight, None for the vector length.
    """

    algorithm: str
    weight_shape: tuple[int, ...]
    windows: Window
    groups: int
    dtype: str
    target: Target
    block: int | None
    is_blocked: bool
    weight_lanes: int | None = None

    @property
    def result_layout(self) -> str:
        """The layout of the result, "NCHW" or in blocks."""
        return f"NCHW{self.lanes}c" if self.is_blocked else "NCHW"

    @property
    def lanes(self) -> int:
        """The lanes of a block of output channels."""
        if self.algorithm == "depthwise" and self.block is not None:
            return self.block
        return self.weight_lanes or lanes_of(self.weight_shape[0] // self.groups, self.dtype, self.target)

    @property
    def _layout(self) -> str:
        return "NCHW" if self.block is None else f"NCHW{self.block}c"

    def pack(self, weight: Array) -> Array:
        """The weight, an array of `weight_shape` and `dtype`, as the kernel reads it."""
        check_weights("plan_convolution", weight, "[CO, CI, KH, KW]")
        if weight.shape != self.weight_shape or weight.dtype != storage_dtype(self.dtype):
            text = f"{weight.dtype}{list(weight.shape)}"
            raise OperatorError(f"plan_convolution: weight must be {self.dtype}{list(self.weight_shape)}, got {text}")
        match self.algorithm:
            case "depthwise":
                return weight if self.block is None else pack_depthwise_conv2d(weight, self.block)
            case "direct":
                return pack_conv2d(weight, self.target, self.groups, self.lanes)
        return pack_winograd(weight, _tile_of(self.algorithm), self.target, self.lanes)

    def pack_bias(self, bias: Array) -> Array:
        """The bias [CO] as the kernel reads it: padded to whole blocks if the result has blocks."""
        return pack_channels(bias, self.lanes) if self.is_blocked else bias

    def weight(self, name: str) -> te.Tensor:
        """A placeholder for the packed weight."""
        outputs, channels, *kernel_shape = self.weight_shape
        lanes = self.lanes
        blocks = self.groups * -(-(outputs // self.groups) // lanes)
        match self.algorithm:
            case "depthwise":
                in_blocks = (blocks_of(outputs, lanes), *kernel_shape, lanes)
                return te.placeholder(self.weight_shape if self.block is None else in_blocks, self.dtype, name)
            case "direct":
                return te.placeholder((blocks, channels, *kernel_shape, lanes), self.dtype, name)
        side = _tile_of(self.algorithm) + WINDOW - 1
        return te.placeholder((side, side, blocks, channels, lanes), self.dtype, name)

    def apply(
        self, x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, name: str | None = None
    ) -> te.Tensor:
        """The result [N, CO, OH, OW] or in blocks, of a packed weight and a packed bias."""
        windows, outputs = self.windows, self.weight_shape[0]
        options = windows.strides, windows.pads, windows.dilations
        match self.algorithm:
            case "depthwise":
                return depthwise_conv2d(x, weight, bias, *options, self._layout, name)
            case "direct":
                layouts = self._layout, f"OIHW{self.lanes}o", self.result_layout
                return conv2d(x, weight, bias, *options, self.groups, outputs, *layouts, self.target, name)
        tile = _tile_of(self.algorithm)
        return winograd_conv2d(x, weight, bias, windows.pads, outputs, tile, self._layout, name)


def plan_convolution(
    x_shape: Sequence[int],
    weight_shape: Sequence[int],
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    groups: int = 1,
    dtype: str = "float32",
    target: Target | str = "host",
    algorithm: str | None = None,
    layout: str = "NCHW",
    result_layout: str | None = None,
    weight_lanes: int | None = None,
) -> ConvolutionPlan:
    """The convolution for these shapes; `x_shape` is the shape of the plain image.

    `algorithm` None chooses the fastest one that rounds about as well as direct sums, hence never
    "winograd4". `layout` is the layout of x; by default the result has blocks if x has.
    `result_layout` is "NCHW" or "blocks", which have the lanes of the weight: by default a vector,
    for a depthwise weight the lanes of x.
    """
    where = "plan_convolution"
    _, channels, height, width = integers(where, "x_shape", x_shape, 4, 1)
    shape = integers(where, "weight_shape", weight_shape, 4, 1)
    count = at_least(where, "groups", groups, 1)
    if channels != shape[1] * count or shape[0] % count:
        rule = f"weight_shape must be [{count} * outputs, {channels} / {count}, KH, KW]"
        raise OperatorError(f"{where}: {rule}, got {list(shape)}")
    windows = windows_of(where, (height, width), shape[2:], strides, pads, dilations)
    check_choice(where, "dtype", dtype, [known for known in DTYPES if known != "bool"])
    block = block_size(where, "layout", layout, "NCHW", "c")
    if result_layout is not None:
        check_choice(where, "result_layout", result_layout, ("NCHW", "blocks"))
    is_blocked = block is not None if result_layout is None else result_layout == "blocks"

    def plan(name: str) -> ConvolutionPlan:
        return ConvolutionPlan(
            algorithm=name,
            weight_shape=shape,
            windows=windows,
            groups=count,
            dtype=dtype,
            target=target_of(where, target),
            block=block,
            is_blocked=is_blocked,
            weight_lanes=None if weight_lanes is None else at_least(where, "weight_lanes", weight_lanes, 1),
        )

    applicable = [name for name in ALGORITHMS if _applies(plan(name))]
    choice = algorithm or _fastest(plan("direct"), applicable)
    check_choice(where, "algorithm", choice, applicable)
    made = plan(choice)
    if is_blocked and choice == "direct" and count > 1 and shape[0] // count % made.lanes:
        rule = f"output channels of a group must fill blocks of {made.lanes} where the result is in blocks"
        raise OperatorError(f"{where}: {rule}, got {shape[0] // count}")
    return made


def _applies(plan: ConvolutionPlan) -> bool:
    """Whether the algorithm of a plan can compute it."""
    windows, same_layout = plan.windows, plan.is_blocked == (plan.block is not None)
    match plan.algorithm:
        case "direct":
            return True
        case "depthwise":
            is_depthwise = plan.block is None or plan.weight_shape[0] == plan.groups
            return plan.weight_shape[1] == 1 and same_layout and is_depthwise
    plain = (*windows.taps, *windows.strides, *windows.dilations) == (WINDOW, WINDOW, 1, 1, 1, 1)
    return plain and plan.groups == 1 and is_float(plan.dtype) and same_layout


def _fastest(plan: ConvolutionPlan, applicable: Sequence[str]) -> str:
    """The algorithm with the fewest multiply-adds that rounds about as well as direct sums."""
    windows, (outputs, channels) = plan.windows, plan.weight_shape[:2]
    if plan.groups > 1 and "depthwise" in applicable:
        return "depthwise"
    if "winograd2" not in applicable:
        return "direct"
    tile = _tile_of("winograd2")
    tiles = -(-windows.places[0] // tile) * -(-windows.places[1] // tile)
    winograd = tiles * ((tile + WINDOW - 1) ** 2 * channels * outputs + _TRANSFORM_COST * (channels + outputs))
    direct = windows.places[0] * windows.places[1] * WINDOW**2 * channels * outputs
    return "winograd2" if winograd < _WINOGRAD_GAIN * direct else "direct"


def _tile_of(algorithm: str) -> int:
    """The side of the result tiles of a Winograd algorithm."""
    return next(tile for tile in TRANSFORMS if algorithm == f"winograd{tile}")
