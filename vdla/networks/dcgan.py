# SPDX-License-Identifier: Apache-2.0
"""The generator of DCGAN (Radford et al., 2016), with 4x4 kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.networks.layers import Feature, batch_norm, conv_transpose, relu
from vdla.networks.moments import standard
from vdla.networks.network_builder import Dimension, NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

KERNEL = 4
COLOURS = 3


def dcgan_generator(
    batch: Dimension = 1, noise: int = 100, width: int = 128, doublings: int = 4, seed: int = 0
) -> ModelProto:
    """`noise` [batch, noise, 1, 1] to `image` [batch, 3, S, S] from -1 to 1, S = 4 * 2^doublings.

    `width` is the number of channels before the last layer; each layer towards the noise has twice
    as many.
    """
    net = NetworkBuilder("dcgan_generator", seed)
    net.input("noise", (batch, noise, 1, 1))
    x = Feature("noise", noise, 1, standard(noise))
    for index in range(doublings):
        strides, pads = (1, 0) if index == 0 else (2, 1)
        x = conv_transpose(net, x, width << (doublings - 1 - index), KERNEL, f"deconv{index}", strides, pads)
        x = relu(net, batch_norm(net, x, f"bn{index}"), f"relu{index}")
    x = conv_transpose(net, x, COLOURS, KERNEL, f"deconv{doublings}", strides=2, pads=1, gain=1.0)
    net.node("Tanh", [x.name], "image")
    return net.model({"image": (batch, COLOURS, x.size, x.size)})
