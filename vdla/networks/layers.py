# SPDX-License-Identifier: Apache-2.0
"""Layers of convolutional networks: each adds its nodes and predicts the moments of its result.

Weights are normally distributed with He et al.'s variance, 2 / (inputs of a sum). Convolutions are
square; batch normalisation stays a node of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.networks.moments import (
    Floats,
    Moments,
    added,
    applied,
    largest_rectified,
    multiplied,
    rectified,
    rounded,
    weighted,
)
from vdla.networks.network_builder import NetworkBuilder

EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Feature:
    """A tensor [N, channels, size, width] of the network under construction, or a square one."""

    name: str
    channels: int
    size: int
    moments: Moments
    width: int | None = None


def conv(
    net: NetworkBuilder,
    x: Feature,
    channels: int,
    kernel: int | tuple[int, int],
    name: str,
    strides: int = 1,
    groups: int = 1,
    pads: int | tuple[int, int, int, int] | None = None,
    bias: bool = False,
    gain: float = 2.0,
) -> Feature:
    """Convolution; by default padded by half the kernel."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    pads = (height // 2, width // 2) * 2 if pads is None else pads
    top, left, bottom, right = (pads,) * 4 if isinstance(pads, int) else pads
    inputs = x.channels // groups
    weight = net.normal((channels, inputs, height, width), (gain / (inputs * height * width)) ** 0.5)
    shift = net.uniform(-0.1, 0.1, (channels,)) if bias else np.zeros(channels, np.float32)
    operands = [x.name, net.constant(f"{name}.weight", weight)]
    operands += [net.constant(f"{name}.bias", shift)] if bias else []
    net.node(
        "Conv", operands, name,
        kernel_shape=[height, width], strides=[strides] * 2, pads=[top, left, bottom, right], group=groups,
    )  # fmt: skip
    rows = _inside(x.size, height, strides, top, bottom)
    columns = _inside(x.width or x.size, width, strides, left, right)
    share = np.outer(rows.mean(axis=0), columns.mean(axis=0))
    grouped = weight.reshape(groups, channels // groups, inputs, height, width)
    mean = weighted(x.moments, grouped * share, groups).mean + shift
    variance = weighted(x.moments, grouped * np.sqrt(share), groups).variance
    size = None if len(rows) == len(columns) else len(columns)
    return Feature(name, channels, len(rows), Moments(mean, variance), size)


def _inside(size: int, kernel: int, strides: int, before: int, after: int) -> NDArray[np.bool_]:
    """[results, kernel]: whether a tap reads a value of an axis and no padding."""
    results = (size + before + after - kernel) // strides + 1
    places = np.arange(results)[:, None] * strides + np.arange(kernel) - before
    return (places >= 0) & (places < size)


def conv_transpose(
    net: NetworkBuilder, x: Feature, channels: int, kernel: int, name: str, strides: int, pads: int, gain: float = 2.0
) -> Feature:
    """Transposed convolution."""
    size = (x.size - 1) * strides - 2 * pads + kernel
    taps = (x.size * kernel / size) ** 2  # that contribute to a result, on average
    weight = net.normal((x.channels, channels, kernel, kernel), (gain / (x.channels * taps)) ** 0.5)
    net.node(
        "ConvTranspose", [x.name, net.constant(f"{name}.weight", weight)], name,
        kernel_shape=[kernel] * 2, strides=[strides] * 2, pads=[pads] * 4,
    )  # fmt: skip
    total = weighted(x.moments, weight.transpose(1, 0, 2, 3)[None])
    share = taps / kernel**2
    return Feature(name, channels, size, Moments(total.mean * share, total.variance * share))


def batch_norm(net: NetworkBuilder, x: Feature, name: str) -> Feature:
    """Batch normalisation whose statistics are the predicted moments of `x`."""
    scale, shift = net.uniform(0.8, 1.2, (x.channels,)), net.uniform(-0.2, 0.2, (x.channels,))
    statistics = {"weight": scale, "bias": shift, "mean": x.moments.mean, "variance": x.moments.variance}
    names = [net.constant(f"{name}.{key}", _float32(values)) for key, values in statistics.items()]
    net.node("BatchNormalization", [x.name, *names], name, epsilon=EPSILON)
    return replace(x, name=name, moments=Moments(shift.astype(np.float64), scale.astype(np.float64) ** 2))


def _float32(values: Floats) -> NDArray[np.float32]:
    return values if values.dtype == np.float32 else rounded(values).astype(np.float32)


def relu(net: NetworkBuilder, x: Feature, name: str) -> Feature:
    """Rectifier."""
    net.node("Relu", [x.name], name)
    return replace(x, name=name, moments=rectified(x.moments))


def relu6(net: NetworkBuilder, x: Feature, name: str) -> Feature:
    """Clip to 0 and 6; after batch normalisation hardly a value is above 6."""
    bounds = [net.constant(f"{name}.{key}", np.array(value, np.float32)) for key, value in (("min", 0), ("max", 6))]
    net.node("Clip", [x.name, *bounds], name)
    return replace(x, name=name, moments=rectified(x.moments))


def hard_swish(net: NetworkBuilder, x: Feature, name: str) -> Feature:
    """x * HardSigmoid(x)."""
    net.node("HardSwish", [x.name], name)
    return replace(x, name=name, moments=applied(lambda values: values * _hard_sigmoid(values), x.moments))


def _hard_sigmoid(values: Floats) -> Floats:
    return np.clip(values / 6 + 0.5, 0, 1)


def silu(net: NetworkBuilder, x: Feature, name: str) -> Feature:
    """x * Sigmoid(x), as two nodes."""
    net.node("Mul", [x.name, net.node("Sigmoid", [x.name], f"{name}.sigmoid")], name)
    return replace(x, name=name, moments=applied(lambda values: values / (1 + np.exp(-values)), x.moments))


def squeeze_excite(net: NetworkBuilder, x: Feature, channels: int, name: str) -> Feature:
    """`x` times a factor from 0 to 1 for each channel, computed from the means of all channels."""
    net.node("GlobalAveragePool", [x.name], f"{name}.pool")
    mean = Moments(x.moments.mean, x.moments.variance / x.size**2)
    y = Feature(f"{name}.pool", x.channels, 1, mean)
    y = relu(net, conv(net, y, channels, 1, f"{name}.reduce", bias=True), f"{name}.relu")
    y = conv(net, y, x.channels, 1, f"{name}.expand", bias=True)
    net.node("HardSigmoid", [y.name], f"{name}.factor", alpha=1 / 6)
    net.node("Mul", [x.name, f"{name}.factor"], name)
    return replace(x, name=name, moments=multiplied(x.moments, applied(_hard_sigmoid, y.moments)))


def concat(net: NetworkBuilder, parts: Sequence[Feature], name: str) -> Feature:
    """The channels of all parts, in order."""
    net.node("Concat", [part.name for part in parts], name, axis=1)
    mean, variance = (
        np.concatenate(values) for values in zip(*((x.moments.mean, x.moments.variance) for x in parts), strict=True)
    )
    return Feature(name, sum(part.channels for part in parts), parts[0].size, Moments(mean, variance))


def relu_max_pool(net: NetworkBuilder, x: Feature, kernel: int, strides: int, pads: int, name: str) -> Feature:
    """Rectifier `{name}.relu`, then the largest of each window."""
    net.node("Relu", [x.name], f"{name}.relu")
    net.node("MaxPool", [f"{name}.relu"], name, kernel_shape=[kernel] * 2, strides=[strides] * 2, pads=[pads] * 4)
    size = (x.size + 2 * pads - kernel) // strides + 1
    return Feature(name, x.channels, size, largest_rectified(x.moments, kernel * kernel))


def add(net: NetworkBuilder, x: Feature, y: Feature, name: str) -> Feature:
    """Residual sum."""
    net.node("Add", [x.name, y.name], name)
    return replace(x, name=name, moments=added(x.moments, y.moments))


def classifier(net: NetworkBuilder, x: Feature, classes: int) -> str:
    """Global average pool, flatten and dense layer `logits` [N, classes]."""
    net.node("GlobalAveragePool", [x.name], "pool")
    net.node("Flatten", ["pool"], "features", axis=1)
    return dense(net, "features", x.channels, classes, "logits")


def dense(net: NetworkBuilder, x: str, inputs: int, outputs: int, name: str, gain: float = 1.0) -> str:
    """Dense layer on [N, inputs] with weights [outputs, inputs] and a bias."""
    weight = net.constant(f"{name}.weight", net.normal((outputs, inputs), (gain / inputs) ** 0.5))
    bias = net.constant(f"{name}.bias", net.uniform(-0.1, 0.1, (outputs,)))
    return net.node("Gemm", [x, weight, bias], name, transB=1)
