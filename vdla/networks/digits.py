# SPDX-License-Identifier: Apache-2.0
"""A small network for handwritten digits, with the trained weights of `digits_weights.npz`.

It has one of each: convolutions with batch normalisation, a max pool, a residual block, a global
average pool and a dense layer. `digits_training` trained it, on images of `digits_images`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vdla.networks.digits_images import CLASSES, SIZE, held_out_digits, load_arrays
from vdla.networks.layers import EPSILON
from vdla.networks.network_builder import Dimension, NetworkBuilder
from vdla.support.arrays import Array

if TYPE_CHECKING:
    from onnx import ModelProto

KERNEL = 3


def digits(batch: Dimension = 1, seed: int = 0) -> ModelProto:
    """`image` [batch, 1, 8, 8] of pixels from 0 to 1 to `logits` [batch, 10]; `seed` is ignored."""
    net = NetworkBuilder("digits", seed)
    for name, array in load_arrays("digits_weights.npz").items():
        net.constant(name, array)
    net.input("image", (batch, 1, SIZE, SIZE))
    x = _unit(net, _unit(net, "image", 1), 2)
    x = net.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    y = _normalised(net, _unit(net, x, 3), 4)
    net.node("Add", [x, y], "add")
    net.node("Relu", ["add"], "relu4")
    net.node("GlobalAveragePool", ["relu4"], "average")
    net.node("Flatten", ["average"], "features", axis=1)
    net.node("Gemm", ["features", "logits.weight", "logits.bias"], "logits", transB=1)
    return net.model({"logits": (batch, CLASSES)})


def some_digits(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random held-out images [N, 1, 8, 8]."""
    images = held_out_digits().images
    return images[rng.integers(0, len(images), shape[0])]


def _unit(net: NetworkBuilder, x: str, number: int) -> str:
    return net.node("Relu", [_normalised(net, x, number)], f"relu{number}")


def _normalised(net: NetworkBuilder, x: str, number: int) -> str:
    conv, norm = f"conv{number}", f"bn{number}"
    net.node("Conv", [x, f"{conv}.weight"], conv, kernel_shape=[KERNEL] * 2, pads=[1] * 4)
    statistics = [f"{norm}.{key}" for key in ("weight", "bias", "mean", "variance")]
    return net.node("BatchNormalization", [conv, *statistics], norm, epsilon=EPSILON)
