"""The choice among direct, Winograd and depthwise convolution, and the packed weight.

plan = plan_convolution((1, 64, 56, 56), (64, 64, 3, 3), pads=1)
w = plan.weight("w")  # a placeholder for plan.pack(array)
y = plan.apply(x, w, bias)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.ir import DTYPES, Array, is_float, storage_dtype
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_choice,
    check_weights,
    integers,
    target_of,
)
from vdla.compiler.operators.conv2d import conv2d, lanes_of, pack_conv2d
from vdla.compiler.operators.depthwise_conv2d import depthwise_conv2d
from vdla.compiler.operators.windows import Ints, Windows, windows_of
from vdla.compiler.operators.winograd import TRANSFORMS, WINDOW, pack_winograd, winograd_conv2d
from vdla.compiler.target import Target

_ALGORITHMS = ("direct", "depthwise", "winograd2", "winograd4")
_TRANSFORM_COST = 64  # multiply-adds to transform a tile, for each channel of the data and of the result
_WINOGRAD_GAIN = 0.8  # of the multiply-adds of the direct convolution: the most that Winograd may take


@dataclass(frozen=True, slots=True)
class ConvolutionPlan:
    """A convolution of [N, C, H, W] by [CO, C / groups, KH, KW] with one of the algorithms."""

    algorithm: str
    weight_shape: tuple[int, ...]
    windows: Windows
    groups: int
    dtype: str
    target: Target

    @property
    def _lanes(self) -> int:
        return lanes_of(self.weight_shape[0] // self.groups, self.dtype, self.target)

    def pack(self, weight: Array) -> Array:
        """The weight, an array of `weight_shape` and `dtype`, as the kernel reads it."""
        check_weights("plan_convolution", weight, "[CO, CI, KH, KW]")
        if weight.shape != self.weight_shape or weight.dtype != storage_dtype(self.dtype):
            found = f"{weight.dtype}{list(weight.shape)}"
            raise OperatorError(f"plan_convolution: weight must be {self.dtype}{list(self.weight_shape)}, got {found}")
        match self.algorithm:
            case "depthwise":
                return weight
            case "direct":
                return pack_conv2d(weight, self.target, self.groups)
        return pack_winograd(weight, _tile_of(self.algorithm), self.target)

    def weight(self, name: str) -> te.Tensor:
        """A placeholder for the packed weight."""
        outputs, channels, *kernel_shape = self.weight_shape
        lanes = self._lanes
        blocks = self.groups * -(-(outputs // self.groups) // lanes)
        match self.algorithm:
            case "depthwise":
                return te.placeholder(self.weight_shape, self.dtype, name)
            case "direct":
                return te.placeholder((blocks, channels, *kernel_shape, lanes), self.dtype, name)
        side = _tile_of(self.algorithm) + WINDOW - 1
        return te.placeholder((side, side, blocks, channels, lanes), self.dtype, name)

    def apply(
        self, x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, name: str | None = None
    ) -> te.Tensor:
        """The result [N, CO, OH, OW], of a packed weight and a bias [CO]."""
        windows, outputs = self.windows, self.weight_shape[0]
        match self.algorithm:
            case "depthwise":
                return depthwise_conv2d(x, weight, bias, windows.strides, windows.pads, windows.dilations, name)
            case "direct":
                return conv2d(
                    x,
                    weight,
                    bias,
                    windows.strides,
                    windows.pads,
                    windows.dilations,
                    self.groups,
                    outputs,
                    weight_layout=f"OIHW{self._lanes}o",
                    target=self.target,
                    name=name,
                )
        return winograd_conv2d(x, weight, bias, windows.pads, outputs, _tile_of(self.algorithm), name=name)


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
) -> ConvolutionPlan:
    """The convolution for these shapes.

    `algorithm` None chooses the fastest one that rounds about as well as direct sums: never
    "winograd4", which does not.
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
    machine = target_of(where, target)
    choice = algorithm or _fastest(windows, shape, count, dtype)
    check_choice(
        where, "algorithm", choice, [name for name in _ALGORITHMS if _applies(name, windows, shape, count, dtype)]
    )
    return ConvolutionPlan(choice, shape, windows, count, dtype, machine)


def _applies(algorithm: str, windows: Windows, shape: Sequence[int], groups: int, dtype: str) -> bool:
    """Whether an algorithm can compute a convolution."""
    match algorithm:
        case "direct":
            return True
        case "depthwise":
            return shape[1] == 1
    plain = (*windows.kernel_shape, *windows.strides, *windows.dilations) == (WINDOW, WINDOW, 1, 1, 1, 1)
    return plain and groups == 1 and is_float(dtype)


def _fastest(windows: Windows, shape: Sequence[int], groups: int, dtype: str) -> str:
    """The algorithm with the fewest multiply-adds that rounds about as well as direct sums."""
    outputs, channels = shape[:2]
    if groups > 1 and channels == 1:
        return "depthwise"
    if not _applies("winograd2", windows, shape, groups, dtype):
        return "direct"
    tile = _tile_of("winograd2")
    tiles = -(-windows.counts[0] // tile) * -(-windows.counts[1] // tile)
    winograd = tiles * ((tile + WINDOW - 1) ** 2 * channels * outputs + _TRANSFORM_COST * (channels + outputs))
    direct = windows.counts[0] * windows.counts[1] * WINDOW**2 * channels * outputs
    return "winograd2" if winograd < _WINOGRAD_GAIN * direct else "direct"


def _tile_of(algorithm: str) -> int:
    """The side of the result tiles of a Winograd algorithm."""
    return next(tile for tile in TRANSFORMS if algorithm == f"winograd{tile}")
