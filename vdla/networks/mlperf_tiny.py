# SPDX-License-Identifier: Apache-2.0
"""The networks of MLPerf Tiny (Banbury et al., 2021), whose visual wake words are MobileNet v1.

They have the layers of the reference models; the softmax behind the scores is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.networks.layers import Feature, add, batch_norm, classifier, conv, dense, relu
from vdla.networks.mobilenet import mobilenet_v1
from vdla.networks.moments import Moments, standard, weighted
from vdla.networks.network_builder import Dimension, NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

FRAMES, COEFFICIENTS = 49, 10
"""Of a second of sound: windows of 40 ms every 20 ms, and what describes each."""


def ds_cnn(batch: Dimension = 1, width: int = 64, depth: int = 4, classes: int = 12, seed: int = 0) -> ModelProto:
    """DS-CNN (Zhang et al., 2017): `sound` [batch, 1, 49, 10] to `logits` [batch, classes]."""
    net = NetworkBuilder("ds_cnn", seed)
    net.input("sound", (batch, 1, FRAMES, COEFFICIENTS))
    x = Feature("sound", 1, FRAMES, standard(1), COEFFICIENTS)
    x = conv(net, x, width, (10, 4), "stem", strides=2, pads=(4, 1, 5, 1), bias=True)
    x = relu(net, batch_norm(net, x, "stem.bn"), "stem.relu")
    for index in range(depth):
        name = f"block{index}"
        x = conv(net, x, width, 3, f"{name}.depthwise", groups=width, bias=True)
        x = relu(net, batch_norm(net, x, f"{name}.bn1"), f"{name}.relu1")
        x = conv(net, x, width, 1, f"{name}.pointwise", bias=True)
        x = relu(net, batch_norm(net, x, f"{name}.bn2"), f"{name}.relu2")
    return net.model({classifier(net, x, classes): (batch, classes)})


def mobilenet_vww(
    batch: Dimension = 1, image: int = 96, width: float = 0.25, depth: int = 13, classes: int = 2, seed: int = 0
) -> ModelProto:
    """MobileNet v1: `image` [batch, 3, image, image] to `logits` [batch, classes]."""
    return mobilenet_v1(batch, image, width, depth, classes, seed)


def resnet8(
    batch: Dimension = 1, image: int = 32, width: int = 16, stages: int = 3, classes: int = 10, seed: int = 0
) -> ModelProto:
    """ResNet-8: `image` [batch, 3, image, image] to `logits` [batch, classes]."""
    net = NetworkBuilder("resnet8", seed)
    net.input("image", (batch, 3, image, image))
    x = conv(net, Feature("image", 3, image, standard(3)), width, 3, "stem", bias=True)
    x = relu(net, batch_norm(net, x, "stem.bn"), "stem.relu")
    for stage in range(stages):
        x = _residual(net, x, width << stage, f"stage{stage}")
    return net.model({classifier(net, x, classes): (batch, classes)})


def autoencoder(
    batch: Dimension = 1, inputs: int = 640, width: int = 128, latent: int = 8, depth: int = 4, seed: int = 0
) -> ModelProto:
    """An autoencoder: `features` [batch, inputs] to `reconstruction` of the same shape."""
    net = NetworkBuilder("autoencoder", seed)
    x = Feature(net.input("features", (batch, inputs)), inputs, 1, standard(inputs))
    for index, outputs in enumerate([width] * depth + [latent] + [width] * depth):
        x = _dense_unit(net, x, outputs, f"dense{index}")
    return net.model({dense(net, x.name, x.channels, inputs, "reconstruction"): (batch, inputs)})


def _residual(net: NetworkBuilder, x: Feature, channels: int, name: str) -> Feature:
    """Two convolutions; a step of 2 where the channels grow, and then one convolution beside it."""
    strides = 1 if x.channels == channels else 2
    y = conv(net, x, channels, 3, f"{name}.conv1", strides, bias=True)
    y = relu(net, batch_norm(net, y, f"{name}.bn1"), f"{name}.relu1")
    y = batch_norm(net, conv(net, y, channels, 3, f"{name}.conv2", bias=True), f"{name}.bn2")
    if strides > 1:
        x = conv(net, x, channels, 1, f"{name}.shortcut", strides, bias=True, gain=1.0)
    return relu(net, add(net, x, y, f"{name}.add"), f"{name}.relu")


def _dense_unit(net: NetworkBuilder, x: Feature, outputs: int, name: str) -> Feature:
    """Dense layer, batch normalisation, rectifier."""
    weight = net.normal((outputs, x.channels), (2 / x.channels) ** 0.5)
    bias = net.uniform(-0.1, 0.1, (outputs,))
    operands = [x.name, net.constant(f"{name}.weight", weight), net.constant(f"{name}.bias", bias)]
    net.node("Gemm", operands, name, transB=1)
    sums = weighted(x.moments, weight[None, ..., None])
    x = batch_norm(net, Feature(name, outputs, 1, Moments(sums.mean + bias, sums.variance)), f"{name}.bn")
    return relu(net, x, f"{name}.relu")
