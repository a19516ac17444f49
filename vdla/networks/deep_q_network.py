# SPDX-License-Identifier: Apache-2.0
"""The deep Q network (Mnih et al., 2015): three convolutions, two dense layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.networks.layers import Feature, conv, dense, relu
from vdla.networks.moments import standard
from vdla.networks.network_builder import Dimension, NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

FRAMES = 4
# Channels at the width of the paper, kernel, stride.
CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
HIDDEN = 512


def deep_q_network(
    batch: Dimension = 1, image: int = 84, width: float = 1.0, actions: int = 18, seed: int = 0
) -> ModelProto:
    """`frames` [batch, 4, image, image] of pixels from 0 to 1 to `values` [batch, actions]."""
    net = NetworkBuilder("deep_q_network", seed)
    net.input("frames", (batch, FRAMES, image, image))
    x = Feature("frames", FRAMES, image, standard(FRAMES))
    for index, (channels, kernel, strides) in enumerate(CONVOLUTIONS):
        x = conv(net, x, round(channels * width), kernel, f"conv{index + 1}", strides, pads=0, bias=True)
        x = relu(net, x, f"relu{index + 1}")
    net.node("Flatten", [x.name], "features", axis=1)
    hidden = round(HIDDEN * width)
    dense(net, "features", x.channels * x.size * x.size, hidden, "hidden", gain=2.0)
    net.node("Relu", ["hidden"], "hidden.relu")
    return net.model({dense(net, "hidden.relu", hidden, actions, "values"): (batch, actions)})
