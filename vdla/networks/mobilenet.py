# SPDX-License-Identifier: Apache-2.0
"""MobileNet v1 (Howard et al., 2017) and v2 (Sandler et al., 2018).

`width` multiplies the channels, which stay multiples of 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.networks.layers import Feature, add, batch_norm, classifier, conv, relu, relu6
from vdla.networks.moments import standard
from vdla.networks.network_builder import Dimension, NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

DIVISOR = 8
# v1: channels and stride of each depthwise-separable block.
V1_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
# v2: expansion, channels, repeats and stride of the first block of each stage.
V2_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v1(
    batch: Dimension = 1, image: int = 224, width: float = 1.0, depth: int = 13, classes: int = 1000, seed: int = 0
) -> ModelProto:
    """`image` [batch, 3, image, image] to `logits` [batch, classes], by `depth` blocks."""
    net = NetworkBuilder("mobilenet_v1", seed)
    x = _stem(net, batch, image, width)
    x = relu(net, x, "stem.relu")
    for index, (channels, strides) in enumerate(V1_BLOCKS[:depth]):
        name = f"block{index}"
        x = conv(net, x, x.channels, 3, f"{name}.depthwise", strides, groups=x.channels)
        x = relu(net, batch_norm(net, x, f"{name}.bn1"), f"{name}.relu1")
        x = conv(net, x, scaled(channels, width), 1, f"{name}.pointwise")
        x = relu(net, batch_norm(net, x, f"{name}.bn2"), f"{name}.relu2")
    return net.model({classifier(net, x, classes): (batch, classes)})


def mobilenet_v2(
    batch: Dimension = 1, image: int = 224, width: float = 1.0, depth: int = 7, classes: int = 1000, seed: int = 0
) -> ModelProto:
    """`image` [batch, 3, image, image] to `logits` [batch, classes], by `depth` stages."""
    net = NetworkBuilder("mobilenet_v2", seed)
    x = _stem(net, batch, image, width)
    x = relu6(net, x, "stem.relu6")
    for stage, (expansion, channels, repeats, strides) in enumerate(V2_STAGES[:depth]):
        for index in range(repeats):
            step = strides if index == 0 else 1
            x = _inverted_residual(net, x, expansion, scaled(channels, width), step, f"stage{stage}.{index}")
    x = conv(net, x, scaled(1280, max(width, 1.0)), 1, "head")
    x = relu6(net, batch_norm(net, x, "head.bn"), "head.relu6")
    return net.model({classifier(net, x, classes): (batch, classes)})


def scaled(channels: int, width: float) -> int:
    """`width` times the channels, to the nearest multiple of 8, at most a tenth less."""
    exact = channels * width
    nearest = max(DIVISOR, int(exact + DIVISOR / 2) // DIVISOR * DIVISOR)
    return nearest if nearest >= 0.9 * exact else nearest + DIVISOR


def _stem(net: NetworkBuilder, batch: Dimension, image: int, width: float) -> Feature:
    net.input("image", (batch, 3, image, image))
    x = conv(net, Feature("image", 3, image, standard(3)), scaled(32, width), 3, "stem", strides=2)
    return batch_norm(net, x, "stem.bn")


def _inverted_residual(
    net: NetworkBuilder, x: Feature, expansion: int, channels: int, strides: int, name: str
) -> Feature:
    """Expand, depthwise, project without an activation; a residual where the shapes agree."""
    y = x
    if expansion != 1:
        y = conv(net, y, expansion * x.channels, 1, f"{name}.expand")
        y = relu6(net, batch_norm(net, y, f"{name}.bn1"), f"{name}.relu1")
    y = conv(net, y, y.channels, 3, f"{name}.depthwise", strides, groups=y.channels)
    y = relu6(net, batch_norm(net, y, f"{name}.bn2"), f"{name}.relu2")
    y = batch_norm(net, conv(net, y, channels, 1, f"{name}.project"), f"{name}.bn3")
    return add(net, x, y, f"{name}.add") if strides == 1 and x.channels == channels else y
