# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 of +1 and -1, with a shortcut around each convolution (Liu et al., Bi-Real Net, 2018);
the first and the last layer and the shortcuts have 8 bits.

The network is in integers, as a training that knows of binary weights exports it: the activations
between blocks are sixteenths, and convolutions read their signs, with +1 around the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.networks.gallery import signs
from vdla.networks.network_builder import Dimension, NetworkBuilder
from vdla.networks.quantised_values import SIXTEENTHS, dequantised, requantised, sign

if TYPE_CHECKING:
    from onnx import ModelProto


def binary_resnet18(
    batch: Dimension = 1,
    image: int = 224,
    width: int = 64,
    blocks: Sequence[int] = (2, 2, 2, 2),
    classes: int = 1000,
    seed: int = 0,
) -> ModelProto:
    """`image` [batch, 3, image, image] to `logits` [batch, classes]."""
    net = NetworkBuilder("binary_resnet18", seed)
    x = requantised(net, net.input("image", (batch, 3, image, image)), SIXTEENTHS, "image")
    x = _conv(net, x, _bytes(net, (width, 3, 7, 7)), (2 / 147) ** 0.5 / 73, "conv1", strides=2, pads=3)
    x = net.node("MaxPool", [x], "stem", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage, count in enumerate(blocks):
        for index in range(2 * count):
            outputs, strides = width << stage, 2 if stage > 0 and index == 0 else 1
            x = _block(net, x, (outputs, channels), strides, f"layer{stage + 1}.{index}")
            channels = outputs
    x = requantised(net, net.node("GlobalAveragePool", [x], "mean"), SIXTEENTHS, "mean")
    x = net.node("Flatten", [x], "flat", axis=1)
    scale = channels**-0.5 / 73
    weight = dequantised(net, net.constant("fc.integers", _bytes(net, (classes, channels))), scale, "fc.weight")
    logits = requantised(net, net.node("Gemm", [x, weight], "fc", transB=1), SIXTEENTHS, "fc")
    return net.model({logits: (batch, classes)})


def _block(net: NetworkBuilder, x: str, channels: tuple[int, int], strides: int, name: str) -> str:
    """A binary convolution and its shortcut, of which the mean of 2x2 pixels is one if it must have
    other channels and half the extents.
    """
    outputs, inputs = channels
    ends = net.constant(f"{name}.ends", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    one = net.constant(f"{name}.one", np.array(1, np.float32))
    bits = requantised(net, sign(net, x, name), 1.0, f"{name}.signs")
    bits = requantised(net, net.node("Pad", [bits, ends, one], f"{name}.pad"), 1.0, f"{name}.pad")
    weights = signs(net.random, (outputs, 9 * inputs)).reshape(outputs, inputs, 3, 3)
    y = _conv(net, bits, weights, (9 * inputs) ** -0.5, f"{name}.conv", strides)
    if strides > 1:
        x = net.node("AveragePool", [x], f"{name}.pool", kernel_shape=[2, 2], strides=[2, 2])
        x = requantised(net, x, SIXTEENTHS, f"{name}.pool")
        x = _conv(net, x, _bytes(net, (outputs, inputs, 1, 1)), inputs**-0.5 / 73, f"{name}.downsample")
    return requantised(net, net.node("Add", [y, x], f"{name}.add"), SIXTEENTHS, f"{name}.add")


def _conv(
    net: NetworkBuilder, x: str, weights: NDArray[np.int8], scale: float, name: str, strides: int = 1, pads: int = 0
) -> str:
    weight = dequantised(net, net.constant(f"{name}.integers", weights), scale, f"{name}.weight")
    kernel = [*weights.shape[2:]]
    y = net.node("Conv", [x, weight], name, kernel_shape=kernel, strides=[strides] * 2, pads=[pads] * 4)
    return requantised(net, y, SIXTEENTHS, name)


def _bytes(net: NetworkBuilder, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return net.random.integers(-127, 128, shape).astype(np.int8)
