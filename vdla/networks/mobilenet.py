# SPDX-License-Identifier: Apache-2.0
"""MobileNet v1 (Howard et al., 2017), v2 (Sandler et al., 2018) and v3 (Howard et al., 2019).

`width` multiplies the channels, which stay multiples of 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.networks.layers import (
    Feature,
    add,
    batch_norm,
    classifier,
    conv,
    dense,
    hard_swish,
    relu,
    relu6,
    squeeze_excite,
)
from vdla.networks.moments import standard
from vdla.networks.network_builder import Dimension, NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

DIVISOR = 8
# v1: channels and stride of each depthwise-separable block.
V1_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
# v2: expansion, channels, repeats and stride of the first block of each stage.
V2_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
# v3, large: kernel, expanded channels, channels, squeeze and excite, HardSwish, stride.
V3_BLOCKS = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


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


def mobilenet_v3(
    batch: Dimension = 1, image: int = 224, width: float = 1.0, depth: int = 15, classes: int = 1000, seed: int = 0
) -> ModelProto:
    """`image` [batch, 3, image, image] to `logits` [batch, classes].

    It has the last `depth` blocks of the large network.
    """
    net = NetworkBuilder("mobilenet_v3", seed)
    net.input("image", (batch, 3, image, image))
    x = conv(net, Feature("image", 3, image, standard(3)), scaled(16, width), 3, "stem", strides=2)
    x = hard_swish(net, batch_norm(net, x, "stem.bn"), "stem.hard_swish")
    for index, block in enumerate(V3_BLOCKS[-depth:]):
        x = _excited_residual(net, x, block, width, f"block{index}")
    x = conv(net, x, scaled(960, width), 1, "head")
    x = hard_swish(net, batch_norm(net, x, "head.bn"), "head.hard_swish")
    net.node("GlobalAveragePool", [x.name], "pool")
    net.node("Flatten", ["pool"], "features", axis=1)
    hidden = scaled(1280, width)
    dense(net, "features", x.channels, hidden, "hidden", gain=2.0)
    net.node("HardSwish", ["hidden"], "hidden.hard_swish")
    return net.model({dense(net, "hidden.hard_swish", hidden, classes, "logits"): (batch, classes)})


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


def _excited_residual(
    net: NetworkBuilder, x: Feature, block: tuple[int, int, int, bool, bool, int], width: float, name: str
) -> Feature:
    """Expand, depthwise, squeeze and excite, project; a residual where the shapes agree."""
    kernel, expanded, outputs, excites, swishes, strides = block
    expanded, outputs = scaled(expanded, width), scaled(outputs, width)
    activation, y = hard_swish if swishes else relu, x
    if expanded != x.channels:
        y = conv(net, y, expanded, 1, f"{name}.expand")
        y = activation(net, batch_norm(net, y, f"{name}.bn1"), f"{name}.activation1")
    y = conv(net, y, y.channels, kernel, f"{name}.depthwise", strides, groups=y.channels)
    y = activation(net, batch_norm(net, y, f"{name}.bn2"), f"{name}.activation2")
    if excites:
        y = squeeze_excite(net, y, scaled(y.channels, 0.25), f"{name}.excite")
    y = batch_norm(net, conv(net, y, outputs, 1, f"{name}.project"), f"{name}.bn3")
    return add(net, x, y, f"{name}.add") if strides == 1 and x.channels == outputs else y
