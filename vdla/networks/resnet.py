# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 and ResNet-50 (He et al., 2016); a bottleneck's stride is in its 3x3 convolution.

`width`, the channels of the first stage, and `blocks`, the blocks of each stage, make smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vdla.networks.layers import Feature, add, batch_norm, classifier, conv, relu, relu_max_pool
from vdla.networks.moments import standard
from vdla.networks.network_builder import Dimension, NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

EXPANSION = 4
_Block = Callable[[NetworkBuilder, Feature, int, int, str], Feature]


def resnet18(
    batch: Dimension = 1,
    image: int = 224,
    width: int = 64,
    blocks: Sequence[int] = (2, 2, 2, 2),
    classes: int = 1000,
    seed: int = 0,
) -> ModelProto:
    """`image` [batch, 3, image, image] to `logits` [batch, classes]."""
    return _resnet("resnet18", _basic, batch, image, width, blocks, classes, seed)


def resnet50(
    batch: Dimension = 1,
    image: int = 224,
    width: int = 64,
    blocks: Sequence[int] = (3, 4, 6, 3),
    classes: int = 1000,
    seed: int = 0,
) -> ModelProto:
    """`image` [batch, 3, image, image] to `logits` [batch, classes]."""
    return _resnet("resnet50", _bottleneck, batch, image, width, blocks, classes, seed)


def _resnet(
    name: str,
    block: _Block,
    batch: Dimension,
    image: int,
    width: int,
    blocks: Sequence[int],
    classes: int,
    seed: int,
) -> ModelProto:
    net = NetworkBuilder(name, seed)
    net.input("image", (batch, 3, image, image))
    x = conv(net, Feature("image", 3, image, standard(3)), width, 7, "conv1", strides=2)
    x = relu_max_pool(net, batch_norm(net, x, "bn1"), 3, 2, 1, "stem")
    for stage, count in enumerate(blocks):
        for index in range(count):
            strides = 2 if stage > 0 and index == 0 else 1
            x = block(net, x, width << stage, strides, f"layer{stage + 1}.{index}")
    logits = classifier(net, x, classes)
    return net.model({logits: (batch, classes)})


def _basic(net: NetworkBuilder, x: Feature, channels: int, strides: int, name: str) -> Feature:
    y = _conv_bn(net, x, channels, 3, strides, name, 1)
    y = relu(net, y, f"{name}.relu1")
    y = _conv_bn(net, y, channels, 3, 1, name, 2)
    return _residual(net, x, y, strides, name)


def _bottleneck(net: NetworkBuilder, x: Feature, channels: int, strides: int, name: str) -> Feature:
    y = _conv_bn(net, x, channels, 1, 1, name, 1)
    y = relu(net, y, f"{name}.relu1")
    y = _conv_bn(net, y, channels, 3, strides, name, 2)
    y = relu(net, y, f"{name}.relu2")
    y = _conv_bn(net, y, EXPANSION * channels, 1, 1, name, 3)
    return _residual(net, x, y, strides, name)


def _conv_bn(
    net: NetworkBuilder, x: Feature, channels: int, kernel: int, strides: int, name: str, number: int
) -> Feature:
    y = conv(net, x, channels, kernel, f"{name}.conv{number}", strides)
    return batch_norm(net, y, f"{name}.bn{number}")


def _residual(net: NetworkBuilder, x: Feature, y: Feature, strides: int, name: str) -> Feature:
    if strides != 1 or x.channels != y.channels:
        x = batch_norm(net, conv(net, x, y.channels, 1, f"{name}.downsample", strides), f"{name}.downsample.bn")
    return relu(net, add(net, y, x, f"{name}.add"), f"{name}.relu")
