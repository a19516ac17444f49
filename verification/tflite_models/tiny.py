# SPDX-License-Identifier: Apache-2.0
"""The networks of MLPerf Tiny as int8 files with seeded weights: their operators and shapes.

A scale is that at which a layer's results fill int8 without many of them at its limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from vdla.support.arrays import Array
from vdla.verification.tflite_models.writer import TfliteWriter

_SAME = 0
_LOGIT = 0.05  # the scale of what a softmax reads
_NONE, _RELU = 0, 1
_WEIGHT_SPREAD, _DATA_SPREAD, _RESULT_SPREAD = 73.0, 60.0, 45.0  # standard deviations of int8 numbers


@dataclass(frozen=True, slots=True, eq=False)
class TinyModel:
    """A network, as it was written and as a file; `image` is the shape of its input `x`."""

    name: str
    writer: TfliteWriter
    content: bytes
    image: tuple[int, ...]

    def data(self, seed: int) -> Array:
        """A random input."""
        return np.random.default_rng(seed).integers(-128, 128, self.image).astype(np.int8)


class _Network:
    """A network in work; values are numbers of tensors."""

    def __init__(self, seed: int, image: Sequence[int]) -> None:
        self.random, self.writer, self.image = np.random.default_rng(seed), TfliteWriter(), tuple(image)
        self.input = self.writer.tensor(image, scale=0.05, zero_point=-1, name="x")

    def shape(self, value: int) -> tuple[int, ...]:
        return self.writer.tensors[value].shape

    def _weight(
        self, x: int, shape: Sequence[int], axis: int, channels: int, scale: float = 0.006
    ) -> tuple[int, int, float]:
        """Weight, bias in the scale of sums over `x`, the mean weight scale: about `scale`."""
        values = np.clip(self.random.normal(0, _WEIGHT_SPREAD, tuple(shape)).round(), -127, 127).astype(np.int8)
        scales = scale * self.random.uniform(0.7, 1.3, channels)
        weight = self.writer.constant(values, scale=scales.tolist(), axis=axis)
        bias = self.random.integers(-3000, 3000, shape[axis]).astype(np.int32)
        products = (scales * self.writer.tensors[x].scale[0]).tolist()
        return weight, self.writer.constant(bias, scale=products), float(scales.mean())

    def _result(self, shape: Sequence[int], scale: float, activation: int, name: str = "") -> int:
        zero = -128 if activation == _RELU else 4
        return self.writer.tensor(shape, scale=float(np.float32(scale)), zero_point=zero, name=name)

    def _scale(self, x: int, weight: float, terms: int, activation: int) -> float:
        room = 2 if activation == _RELU else 1
        return (
            self.writer.tensors[x].scale[0]
            * weight
            * sqrt(terms)
            * _WEIGHT_SPREAD
            * _DATA_SPREAD
            / _RESULT_SPREAD
            / room
        )

    def conv(self, x: int, outputs: int, kernel: Sequence[int], stride: int = 1, activation: int = _RELU) -> int:
        batch, height, width, channels = self.shape(x)
        weight, bias, mean = self._weight(x, (outputs, *kernel, channels), 0, outputs)
        shape = (batch, -(-height // stride), -(-width // stride), outputs)
        y = self._result(shape, self._scale(x, mean, prod(kernel) * channels, activation), activation)
        options = {"StrideH": stride, "StrideW": stride, "DilationHFactor": 1, "DilationWFactor": 1}
        self.writer.operator(
            "CONV_2D", (x, weight, bias), (y,), Padding=_SAME, FusedActivationFunction=activation, **options
        )
        return y

    def depthwise(self, x: int, stride: int = 1) -> int:
        batch, height, width, channels = self.shape(x)
        weight, bias, mean = self._weight(x, (1, 3, 3, channels), 3, channels)
        shape = (batch, -(-height // stride), -(-width // stride), channels)
        y = self._result(shape, self._scale(x, mean, 9, _RELU), _RELU)
        options = {"StrideH": stride, "StrideW": stride, "DilationHFactor": 1, "DilationWFactor": 1}
        self.writer.operator(
            "DEPTHWISE_CONV_2D", (x, weight, bias), (y,),
            Padding=_SAME, DepthMultiplier=1, FusedActivationFunction=_RELU, **options,
        )  # fmt: skip
        return y

    def separable(self, x: int, outputs: int, stride: int = 1) -> int:
        return self.conv(self.depthwise(x, stride), outputs, (1, 1))

    def add(self, a: int, b: int) -> int:
        scale = sqrt(self.writer.tensors[a].scale[0] ** 2 + self.writer.tensors[b].scale[0] ** 2)
        y = self._result(self.shape(a), scale, _RELU)
        self.writer.operator("ADD", (a, b), (y,), FusedActivationFunction=_RELU)
        return y

    def pool(self, x: int) -> int:
        batch, height, width, channels = self.shape(x)
        of = self.writer.tensors[x]
        y = self.writer.tensor((batch, 1, 1, channels), scale=of.scale[0], zero_point=of.zero_point)
        options = {"FilterHeight": height, "FilterWidth": width, "StrideH": height, "StrideW": width}
        self.writer.operator("AVERAGE_POOL_2D", (x,), (y,), Padding=1, **options)
        flat = self.writer.tensor((batch, channels), scale=of.scale[0], zero_point=of.zero_point)
        target = self.writer.constant(np.array([batch, channels], np.int32))
        self.writer.operator("RESHAPE", (y, target), (flat,))
        return flat

    def dense(self, x: int, outputs: int, activation: int = _NONE, name: str = "") -> int:
        rows, depth = self.shape(x)
        weight_scale = 0.006 if activation == _RELU or name else _LOGIT / self._scale(x, 1.0, depth, activation)
        weight, bias, mean = self._weight(x, (outputs, depth), 0, 1, weight_scale)
        y = self._result((rows, outputs), self._scale(x, mean, depth, activation), activation, name)
        self.writer.operator("FULLY_CONNECTED", (x, weight, bias), (y,), FusedActivationFunction=activation)
        return y

    def softmax(self, x: int) -> int:
        y = self.writer.tensor(self.shape(x), scale=1 / 256, zero_point=-128, name="y")
        self.writer.operator("SOFTMAX", (x,), (y,), Beta=1.0)
        return y

    def done(self, name: str, output: int) -> TinyModel:
        return TinyModel(name, self.writer, self.writer.bytes((self.input,), (output,)), self.image)


def keyword_spotting(seed: int = 0) -> TinyModel:
    """DS-CNN: 49 x 10 features of speech, 12 words."""
    net = _Network(seed, (1, 49, 10, 1))
    x = net.conv(net.input, 64, (10, 4), 2)
    for _ in range(4):
        x = net.separable(x, 64)
    return net.done("keyword_spotting", net.softmax(net.dense(net.pool(x), 12)))


def visual_wake_words(seed: int = 0) -> TinyModel:
    """MobileNet v1 of a quarter of the channels: 96 x 96 pixels, person or not."""
    net = _Network(seed, (1, 96, 96, 3))
    x = net.conv(net.input, 8, (3, 3), 2)
    blocks = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *(((128, 1),) * 5), (256, 2), (256, 1))
    for outputs, stride in blocks:
        x = net.separable(x, outputs, stride)
    return net.done("visual_wake_words", net.softmax(net.dense(net.pool(x), 2)))


def image_classification(seed: int = 0) -> TinyModel:
    """ResNet-8: 32 x 32 pixels, 10 classes."""
    net = _Network(seed, (1, 32, 32, 3))
    x = net.conv(net.input, 16, (3, 3))
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.conv(net.conv(x, outputs, (3, 3), stride), outputs, (3, 3), 1, _NONE)
        shortcut = x if stride == 1 else net.conv(x, outputs, (1, 1), stride, _NONE)
        x = net.add(shortcut, y)
    return net.done("image_classification", net.softmax(net.dense(net.pool(x), 10)))


def anomaly_detection(seed: int = 0) -> TinyModel:
    """An autoencoder of 640 features of sound."""
    net = _Network(seed, (1, 640))
    x = net.input
    for outputs in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = net.dense(x, outputs, _RELU)
    return net.done("anomaly_detection", net.dense(x, 640, name="y"))


TINY_MODELS: Mapping[str, Callable[[int], TinyModel]] = {
    made.__name__: made for made in (keyword_spotting, visual_wake_words, image_classification, anomaly_detection)
}
"""The networks by name, of a seed."""
