# SPDX-License-Identifier: Apache-2.0
"""Small networks with the operators that the gallery's instructions are for.

Networks of few-bit, sparse or binary weights are in integers, as a training that knows of such
weights exports them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.networks.network_builder import NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

Weights = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.int8]]
"""Integers of a shape, [outputs, inputs]."""
SIXTEENTHS = 1 / 16


def sound(batch: int | str = 1, seed: int = 0, samples: int = 1024, width: int = 32, classes: int = 10) -> ModelProto:
    """A network for waveforms: convolutions of one dimension, each with a maximum of four samples
    (Dai et al., 2017).
    """
    net = NetworkBuilder("sound", seed)
    x, channels = net.input("sound", (batch, 1, samples)), 1
    for index in range(3):
        weight = net.constant(f"conv{index}.weight", net.normal((width, channels, 3), (2 / (3 * channels)) ** 0.5))
        x = net.node("Conv", [x, weight], f"conv{index}", kernel_shape=[3], pads=[1, 1])
        x = net.node("Relu", [x], f"relu{index}")
        x = net.node("MaxPool", [x], f"pool{index}", kernel_shape=[4], strides=[4])
        channels = width
    x = net.node("GlobalAveragePool", [x], "mean")
    x = net.node("Flatten", [x], "flat", axis=1)
    weight = net.constant("classifier.weight", net.normal((classes, width), width**-0.5))
    net.node("Gemm", [x, weight], "logits", transB=1)
    return net.model({"logits": (batch, classes)})


def perceptron(
    batch: int | str = 1,
    seed: int = 0,
    *,
    weights: Weights,
    features: Sequence[int] = (512, 512, 512, 16),
    activation: str = "Relu",
) -> ModelProto:
    """Dense layers whose weights are given, quantised, with an activation between them; that of
    binary networks, Sign, has results of +1 and -1.
    """
    net = NetworkBuilder("perceptron", seed)
    x = _requantised(net, net.input("features", (batch, features[0])), SIXTEENTHS, "features")
    for index, (inputs, outputs) in enumerate(pairwise(features)):
        name = f"dense{index}"
        values = weights(net.random, (outputs, inputs))
        scale = float(1 / (np.sqrt(inputs) * max(1.0, float(np.abs(values).std() + np.abs(values).mean()))))
        weight = _dequantised(net, net.constant(f"{name}.integers", values), scale, f"{name}.weight")
        x = net.node("Gemm", [x, weight], name, transB=1)
        inner = index < len(features) - 2
        if activation == "Sign":
            x = _requantised(net, x, SIXTEENTHS, name)
            x = _requantised(net, _sign(net, x, name), 1.0, f"{name}.signs") if inner else x
        else:
            x = _requantised(net, net.node(activation, [x], f"{name}.active") if inner else x, SIXTEENTHS, name)
    return net.model({x: (batch, features[-1])})


def _sign(net: NetworkBuilder, x: str, name: str) -> str:
    """+1 or -1; that of 0 is +1."""
    half = net.constant(f"{name}.half", np.array(SIXTEENTHS / 2, np.float32))
    return net.node("Sign", [net.node("Add", [x, half], f"{name}.moved")], f"{name}.sign")


def swishes(batch: int | str = 1, seed: int = 0, image: int = 16, width: int = 32, depth: int = 3) -> ModelProto:
    """Convolutions with hard-swish, whose operands and results are sixteenths."""
    net = NetworkBuilder("swishes", seed)
    x, channels = _requantised(net, net.input("image", (batch, 3, image, image)), SIXTEENTHS, "image"), 3
    for index in range(depth):
        name, kernel = f"conv{index}", 3 if index % 2 == 0 else 1
        values = net.random.integers(-127, 128, (width, channels, kernel, kernel)).astype(np.int8)
        scale = float((2 / (channels * kernel**2)) ** 0.5 / 73)
        weight = _dequantised(net, net.constant(f"{name}.integers", values), scale, f"{name}.weight")
        x = net.node("Conv", [x, weight], name, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)
        x = _requantised(net, x, SIXTEENTHS, name)
        x = _requantised(net, net.node("HardSwish", [x], f"{name}.swish"), SIXTEENTHS, f"{name}.swish")
        channels = width
    return net.model({x: (batch, width, image, image)})


def _requantised(net: NetworkBuilder, x: str, scale: float, name: str) -> str:
    """Floats as integers of a scale, and back."""
    parameters = [net.constant(f"{name}.scale", np.array(scale, np.float32))]
    parameters.append(net.constant(f"{name}.zero", np.array(0, np.int8)))
    quantised = net.node("QuantizeLinear", [x, *parameters], f"{name}.quantised")
    return net.node("DequantizeLinear", [quantised, *parameters], f"{name}.values")


def _dequantised(net: NetworkBuilder, integers: str, scale: float, name: str) -> str:
    parameters = [net.constant(f"{name}.scale", np.array(scale, np.float32))]
    parameters.append(net.constant(f"{name}.zero", np.array(0, np.int8)))
    return net.node("DequantizeLinear", [integers, *parameters], name)


# --- weights --------------------------------------------------------------------------------------


def four_bits(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int8]:
    """All integers of four bits."""
    return random.integers(-8, 8, shape).astype(np.int8)


def two_of_four(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int8]:
    """Integers of six bits, of which two of every four are 0."""
    outputs, inputs = shape
    order = random.permuted(np.tile(np.arange(4), (outputs, inputs // 4, 1)), axis=-1)
    kept = random.integers(-32, 32, shape).astype(np.int8).reshape(outputs, -1, 4)
    return np.where(order < 2, kept, np.int8(0)).reshape(shape)


def signs(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int8]:
    """+1 and -1."""
    return (2 * random.integers(0, 2, shape) - 1).astype(np.int8)


def blocks_of_fifteen(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int8]:
    """Blocks of fifteen integers of four bits, each with a power of two."""
    outputs, inputs = shape
    mantissas = random.integers(-7, 8, (outputs, inputs // 15, 15))
    exponents = random.integers(0, 5, (outputs, inputs // 15, 1))
    return (mantissas << exponents).astype(np.int8).reshape(shape)
