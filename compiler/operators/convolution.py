"""Which convolution to use for given shapes: direct, Winograd's or depthwise, with its weights packed.

layer = convolution((1, 64, 56, 56), (64, 64, 3, 3), pads=1)
w = layer.weight("w")                       # a placeholder for layer.pack(weights)
y = layer.output(x, w, bias)
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
    machine_of,
)
from vdla.compiler.operators.conv2d import conv2d, lanes_of, pack_conv2d
from vdla.compiler.operators.depthwise_conv2d import depthwise_conv2d
from vdla.compiler.operators.windows import Ints, Windows, windows_of
from vdla.compiler.operators.winograd import TRANSFORMS, WINDOW, pack_winograd, winograd_conv2d
from vdla.compiler.target import Target

ALGORITHMS = ("direct", "depthwise", "winograd2", "winograd4")
TRANSFORM = 64  # multiply-adds that transforming a tile costs, for each channel of the data and of the result
GAIN = 0.8  # of the direct work: what Winograd's way may take at most


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution of [N, C, H, W] by [CO, C / groups, KH, KW] that computes by `algorithm`, one of ALGORITHMS."""

    algorithm: str
    shape: tuple[int, ...]
    windows: Windows
    groups: int
    dtype: str
    target: Target

    @property
    def pads(self) -> tuple[int, ...]:
        """Those before each spatial dimension, then after each."""
        return (*self.windows.before, *self.windows.after)

    def pack(self, weight: Array) -> Array:
        """The weights, an array of `shape` and `dtype`, as the kernel reads them."""
        check_weights("convolution", weight, "[CO, CI, KH, KW]")
        if weight.shape != self.shape or weight.dtype != storage_dtype(self.dtype):
            found = f"{weight.dtype}{list(weight.shape)}"
            raise OperatorError(f"convolution: weight must be {self.dtype}{list(self.shape)}, got {found}")
        match self.algorithm:
            case "depthwise":
                return weight
            case "direct":
                return pack_conv2d(weight, self.target, self.groups)
        return pack_winograd(weight, results_of(self.algorithm), self.target)

    def weight(self, name: str) -> te.Tensor:
        """A placeholder for packed weights."""
        outs, channels, *kernel = self.shape
        lanes = lanes_of(outs // self.groups, self.dtype, self.target)
        blocks = self.groups * -(-(outs // self.groups) // lanes)
        match self.algorithm:
            case "depthwise":
                return te.placeholder(self.shape, self.dtype, name)
            case "direct":
                return te.placeholder((blocks, channels, *kernel, lanes), self.dtype, name)
        side = results_of(self.algorithm) + WINDOW - 1
        return te.placeholder((side, side, blocks, channels, lanes), self.dtype, name)

    def output(
        self, x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, name: str | None = None
    ) -> te.Tensor:
        """[N, CO, OH, OW], of packed weights and a bias [CO]."""
        windows, outs = self.windows, self.shape[0]
        match self.algorithm:
            case "depthwise":
                return depthwise_conv2d(x, weight, bias, windows.strides, self.pads, windows.dilations, name)
            case "direct":
                steps = windows.strides, self.pads, windows.dilations
                return conv2d(x, weight, bias, *steps, self.groups, outs, name, self.target)
        return winograd_conv2d(x, weight, bias, self.pads, outs, name)


def convolution(
    x_shape: Sequence[int],
    weight_shape: Sequence[int],
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    groups: int = 1,
    dtype: str = "float32",
    target: Target | str = "host",
    algorithm: str | None = None,
) -> Convolution:
    """The convolution for these shapes; `algorithm` None: the fastest that rounds like the plain sums, which
    F(4, 3), "winograd4", does not."""
    where = "convolution"
    _, channels, height, width = integers(where, "x_shape", x_shape, 4, 1)
    shape = integers(where, "weight_shape", weight_shape, 4, 1)
    count = at_least(where, "groups", groups, 1)
    if channels != shape[1] * count or shape[0] % count:
        rule = f"weight_shape must be [{count} * outputs, {channels} / {count}, KH, KW]"
        raise OperatorError(f"{where}: {rule}, got {list(shape)}")
    windows = windows_of(where, (height, width), shape[2:], strides, pads, dilations)
    check_choice(where, "dtype", dtype, [known for known in DTYPES if known != "bool"])
    machine = machine_of(where, target)
    chosen = algorithm or fastest(windows, shape, count, dtype)
    check_choice(where, "algorithm", chosen, [name for name in ALGORITHMS if fits(name, windows, shape, count, dtype)])
    return Convolution(chosen, shape, windows, count, dtype, machine)


def fits(algorithm: str, windows: Windows, shape: Sequence[int], groups: int, dtype: str) -> bool:
    """Whether an algorithm can compute a convolution."""
    match algorithm:
        case "direct":
            return True
        case "depthwise":
            return shape[1] == 1
    plain = (*windows.kernel, *windows.strides, *windows.dilations) == (WINDOW, WINDOW, 1, 1, 1, 1)
    return plain and groups == 1 and is_float(dtype)


def fastest(windows: Windows, shape: Sequence[int], groups: int, dtype: str) -> str:
    """The algorithm that takes least, of those that round like the plain sums."""
    outs, channels = shape[:2]
    if groups > 1 and channels == 1:
        return "depthwise"
    if not fits("winograd2", windows, shape, groups, dtype):
        return "direct"
    results = results_of("winograd2")
    tiles = -(-windows.counts[0] // results) * -(-windows.counts[1] // results)
    products = tiles * ((results + WINDOW - 1) ** 2 * channels * outs + TRANSFORM * (channels + outs))
    direct = windows.counts[0] * windows.counts[1] * WINDOW**2 * channels * outs
    return "winograd2" if products < GAIN * direct else "direct"


def results_of(algorithm: str) -> int:
    """The results along one side of Winograd's tiles."""
    return next(results for results in TRANSFORMS if algorithm == f"winograd{results}")
