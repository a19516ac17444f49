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
from vdla.networks.quantised_values import SIXTEENTHS, dequantised, requantised, sign

if TYPE_CHECKING:
    from onnx import ModelProto

Weights = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.int8]]
"""Integers of a shape, [outputs, inputs]."""


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
    x = requantised(net, net.input("features", (batch, features[0])), SIXTEENTHS, "features")
    for index, (inputs, outputs) in enumerate(pairwise(features)):
        name = f"dense{index}"
        values = weights(net.random, (outputs, inputs))
        scale = float(1 / (np.sqrt(inputs) * max(1.0, float(np.abs(values).std() + np.abs(values).mean()))))
        weight = dequantised(net, net.constant(f"{name}.integers", values), scale, f"{name}.weight")
        x = net.node("Gemm", [x, weight], name, transB=1)
        inner = index < len(features) - 2
        if activation == "Sign":
            x = requantised(net, x, SIXTEENTHS, name)
            x = requantised(net, sign(net, x, name), 1.0, f"{name}.signs") if inner else x
        else:
            x = requantised(net, net.node(activation, [x], f"{name}.active") if inner else x, SIXTEENTHS, name)
    return net.model({x: (batch, features[-1])})


def swishes(batch: int | str = 1, seed: int = 0, image: int = 16, width: int = 32, depth: int = 3) -> ModelProto:
    """Convolutions with hard-swish, whose operands and results are sixteenths."""
    net = NetworkBuilder("swishes", seed)
    x, channels = requantised(net, net.input("image", (batch, 3, image, image)), SIXTEENTHS, "image"), 3
    for index in range(depth):
        name, kernel = f"conv{index}", 3 if index % 2 == 0 else 1
        values = net.random.integers(-127, 128, (width, channels, kernel, kernel)).astype(np.int8)
        scale = float((2 / (channels * kernel**2)) ** 0.5 / 73)
        weight = dequantised(net, net.constant(f"{name}.integers", values), scale, f"{name}.weight")
        x = net.node("Conv", [x, weight], name, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)
        x = requantised(net, x, SIXTEENTHS, name)
        x = requantised(net, net.node("HardSwish", [x], f"{name}.swish"), SIXTEENTHS, f"{name}.swish")
        channels = width
    return net.model({x: (batch, width, image, image)})


def tokens(batch: int | str = 1, seed: int = 0, rows: int = 128, width: int = 64, classes: int = 512) -> ModelProto:
    """A block of attention over tokens behind RMSNorm, as decoders have them, and the place of the
    largest of each token's scores.
    """
    net = NetworkBuilder("tokens", seed)
    x = requantised(net, net.input("tokens", (batch, rows, width)), SIXTEENTHS, "tokens")
    normal = _norm(net, x, width, "norm")
    queries = _rows_product(net, normal, (width, width), "queries", width**-0.5)
    keys = _product(net, normal, (width, width), "keys")
    values = _rows_product(net, normal, (width, width), "values")
    turned = _turned(net, keys)
    products = net.node("MatMul", [queries, turned], "scores")  # the weights of queries have the factor
    scores = requantised(net, products, SIXTEENTHS, "scores")
    shares = _powers_of_two(net, scores)
    total = net.node("ReduceSum", [shares, net.constant("rows.axis", np.array([-1]))], "total")
    weighted = requantised(net, net.node("MatMul", [shares, values], "weighted"), 1.0, "weighted")
    seen = requantised(net, net.node("Div", [weighted, total], "seen"), SIXTEENTHS, "seen")
    seen = _rows_product(net, seen, (width, width), "projection")
    x = requantised(net, net.node("Add", [x, seen], "sum"), SIXTEENTHS, "sum")
    logits = _rows_product(net, _norm(net, x, width, "last_norm"), (width, classes), "logits")
    words = net.node("ArgMax", [logits], "words", axis=-1, keepdims=0)
    return net.model({words: (batch, rows)}, "int64")


def codebook(batch: int | str = 1, seed: int = 0, rows: int = 128, width: int = 64, codes: int = 512) -> ModelProto:
    """Features of patches, and the place of the code that is nearest to those of each patch, by
    sums of absolute differences, as a model with a codebook has it.
    """
    net = NetworkBuilder("codebook", seed)
    x = requantised(net, net.input("patches", (batch, rows, width)), SIXTEENTHS, "patches")
    x = net.node("Relu", [_product(net, x, (width, width), "first")], "first.active")
    x = requantised(net, x, SIXTEENTHS, "first")
    x = net.node("Relu", [_product(net, x, (width, width), "second")], "features")
    alone = _alone(net, x)
    likely = np.clip(np.rint(net.random.normal(0, 12, (codes, width))), 0, 127)  # as rectified features are
    values = net.constant("codes.integers", likely.astype(np.int8))
    apart = net.node("Sub", [alone, dequantised(net, values, SIXTEENTHS, "codes")], "apart")
    last = net.constant("features.axis", np.array([-1]))
    far = net.node("ReduceSum", [net.node("Abs", [apart], "distances"), last], "distance", keepdims=0)
    nearest = net.node("ArgMin", [far], "nearest", axis=-1, keepdims=0)
    return net.model({nearest: (batch, rows)}, "int64")


def faces(batch: int | str = 1, seed: int = 0, image: int = 28, width: int = 64, features: int = 128) -> ModelProto:
    """Convolutions with PReLU, whose slopes are those of channels, around a residual block, as
    networks that compare faces have them (Chen et al., 2018), and the features of a face.
    """
    net = NetworkBuilder("faces", seed)
    x = net.input("image", (batch, 3, image, image))
    x = _sloped_convolution(net, x, (width, 3, 3), "stem")
    inner = _sloped_convolution(net, x, (2 * width, width, 1), "expansion")
    inner = _sloped_convolution(net, inner, (2 * width, 1, 3), "depthwise", group=2 * width)
    x = net.node("Add", [x, _convolution(net, inner, (width, 2 * width, 1), "projection")], "sum")
    x = _sloped_convolution(net, x, (features, width, 1), "head")
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "mean")], "flat", axis=1)
    weight = net.constant("embedding.weight", net.normal((features, features), features**-0.5))
    x = net.node("Gemm", [x, weight], "embedding", transB=1)
    return net.model({x: (batch, features)})


def _sloped_convolution(net: NetworkBuilder, x: str, shape: tuple[int, int, int], name: str, group: int = 1) -> str:
    x = _convolution(net, x, shape, name, group)
    slopes = net.constant(f"{name}.slopes", net.uniform(0, 0.5, (shape[0], 1, 1)))
    return net.node("PRelu", [x, slopes], f"{name}.active")


def _convolution(net: NetworkBuilder, x: str, shape: tuple[int, int, int], name: str, group: int = 1) -> str:
    """A convolution of [outputs, inputs of a group, kernel]."""
    outputs, inputs, kernel = shape
    weight = net.normal((outputs, inputs, kernel, kernel), (2 / (inputs * kernel**2)) ** 0.5)
    bias = net.constant(f"{name}.bias", net.normal((outputs,), 0.1))
    options = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "group": group}
    return net.node("Conv", [x, net.constant(f"{name}.weight", weight), bias], name, **options)


def _powers_of_two(net: NetworkBuilder, scores: str) -> str:
    """2 ** (score - most) of each row of scores in sixteenths, with lines between whole powers, as
    Stevens et al. (2021) have softmax in fixed point; 127/128 for 1.
    """
    most = net.node("ReduceMax", [scores, net.constant("keys.axis", np.array([-1]))], "most")
    below = net.node("Sub", [scores, most], "below")
    below = requantised(net, below, SIXTEENTHS, "below", zero_point=127)
    negative = net.node("Neg", [below], "negative")
    whole = net.node("Floor", [negative], "whole")
    numbers = {"two": 2.0, "half": 0.5, "units": 128.0, "half_units": 64.0}
    two, half, units, half_units = (net.constant(name, np.array(x, np.float32)) for name, x in numbers.items())
    line = net.node("Sub", [two, net.node("Sub", [negative, whole], "rest")], "line")
    power = net.node("Mul", [line, net.node("Pow", [half, whole], "whole_power")], "twice_power")
    steps = net.node("Floor", [net.node("Mul", [power, half_units], "fixed")], "steps")
    return requantised(net, net.node("Div", [steps, units], "shares"), 1 / 128, "shares")


def _norm(net: NetworkBuilder, x: str, width: int, name: str) -> str:
    scale = net.constant(f"{name}.weight", np.ones(width, np.float32))
    return requantised(net, net.node("RMSNormalization", [x, scale], name, axis=-1), SIXTEENTHS, name)


def _turned(net: NetworkBuilder, keys: str) -> str:
    """Keys as columns; integers are turned."""
    integers, parameters = _integers(net, keys, "keys")
    turned = net.node("Transpose", [integers], "turned", perm=[0, 2, 1])
    return net.node("DequantizeLinear", [turned, *parameters], "turned.values")


def _alone(net: NetworkBuilder, features: str) -> str:
    """Each row as a matrix; integers get the dimension."""
    integers, parameters = _integers(net, features, "alone")
    alone = net.node("Unsqueeze", [integers, net.constant("alone.axis", np.array([2]))], "alone")
    return net.node("DequantizeLinear", [alone, *parameters], "alone.values")


def _integers(net: NetworkBuilder, x: str, name: str) -> tuple[str, list[str]]:
    """Floats as integers of sixteenths, and the scale and the zero point of these."""
    parameters = [net.constant(f"{name}.scale", np.array(SIXTEENTHS, np.float32))]
    parameters.append(net.constant(f"{name}.zero", np.array(0, np.int8)))
    return net.node("QuantizeLinear", [x, *parameters], f"{name}.quantised"), parameters


def _rows_product(net: NetworkBuilder, x: str, shape: tuple[int, int], name: str, factor: float = 1.0) -> str:
    """`factor` times rows times a constant matrix [inputs, outputs], quantised."""
    return requantised(net, _product(net, x, shape, name, factor), SIXTEENTHS * factor, name)


def _product(net: NetworkBuilder, x: str, shape: tuple[int, int], name: str, factor: float = 1.0) -> str:
    values = net.random.integers(-127, 128, shape).astype(np.int8)
    scale = factor * shape[0] ** -0.5 / 73
    weight = dequantised(net, net.constant(f"{name}.integers", values), scale, f"{name}.weight")
    return net.node("MatMul", [x, weight], name)


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
