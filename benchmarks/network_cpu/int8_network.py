"""A quantised network: uint8 images in blocks of as many channels as the dot product has lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import inf

import numpy as np

from vdla.benchmarks.network_cpu.bound_network import Array, BoundNetwork, KernelPart
from vdla.benchmarks.network_cpu.layers import (
    ConvLayer,
    DenseLayer,
    Floats,
    MaxPoolLayer,
    MeanLayer,
    NetworkLayer,
)
from vdla.benchmarks.network_cpu.model_of_layers import Affine, Int8Parameters, before_addition
from vdla.compiler import operators, te
from vdla.compiler.target import host

_LARGEST_FACTOR = 32767


def int8_network(
    layers: Sequence[NetworkLayer],
    source: str,
    image: Floats,
    ranges: Mapping[str, Affine],
    weights: Mapping[str, Int8Parameters],
) -> BoundNetwork:
    """The kernels of a quantised network for this CPU, from a float image to float results."""
    float_source = f"{source}.float"
    network = BoundNetwork(layers, float_source, image)
    network.add(-1, source, lambda x: _quantise(x, ranges[source]), [image])
    channels = {source: image.shape[1]}
    for number, layer in enumerate(layers):
        x = network.arrays[layer.x]
        operator, constants = _kernel(layer, x, channels[layer.x], ranges, weights)
        network.add(number, layer.y, operator, [x, *constants, *(network.arrays[name] for name in layer.inputs[1:])])
        channels[layer.y] = len(layer.weight) if isinstance(layer, ConvLayer) else channels[layer.x]
    return network


def _quantise(x: te.Tensor, affine: Affine) -> te.Tensor:
    """A float32 image as uint8."""
    scale, zero = te.const(float(affine.scale), "float32"), float(affine.zero_point)
    return te.compute(x.shape, lambda *i: te.cast("uint8", te.round(te.divide(x[i], scale)) + zero), "quantised")


def _kernel(
    layer: NetworkLayer,
    x: Array,
    channels: int,
    ranges: Mapping[str, Affine],
    weights: Mapping[str, Int8Parameters],
) -> KernelPart:
    """The operator of a layer, a function of x, constants and a residual; and the constants."""
    before, after = ranges[layer.x], ranges[layer.y]
    match layer:
        case ConvLayer():
            return _conv(layer, ranges, weights[layer.y])
        case MaxPoolLayer(kernel=kernel, strides=strides, pads=pads):
            return lambda t: operators.blocked_max_pool(t, kernel, strides, pads, name="y"), []
        case MeanLayer():
            scale = float(np.float32(before.scale / (after.scale * (x.shape[2] * x.shape[3]))))
            zeros = before.zero_point, after.zero_point
            mean = operators.blocked_qglobal_average_pool
            return lambda t: operators.flatten(mean(t, channels, scale, *zeros, name="y"), name="z"), []
        case DenseLayer():
            return _dense(layer, before, after, weights[layer.y])


def _conv(layer: ConvLayer, ranges: Mapping[str, Affine], found: Int8Parameters) -> KernelPart:
    """A convolution with what is fused into it."""
    before, after = ranges[layer.x], ranges[layer.y]
    own = after if layer.residual is None else ranges[before_addition(layer)]
    scale = (before.scale * found.scale / own.scale).astype(np.float32)
    zero = before.zero_point
    bounded = (after.zero_point if layer.bounds[0] > -inf else 0, 255)
    if layer.is_depthwise:
        packed = operators.pack_blocked_qdepthwise_conv2d(found.weight, scale, host(), found.bias, zero)
    else:
        packed = operators.pack_qconv2d(found.weight, scale, host(), found.bias, zero)

    def operator(x: te.Tensor, w: te.Tensor, b: te.Tensor, s: te.Tensor, *rest: te.Tensor) -> te.Tensor:
        options = {
            "x_zero_point": zero,
            "y_zero_point": own.zero_point,
            "strides": layer.strides,
            "pads": layer.pads,
            "largest_sum": packed.largest_sum,
            "clip": None if rest else bounded,
            "name": "y",
        }
        if layer.is_depthwise:
            kernel = layer.weight.shape[2:]
            return operators.blocked_qdepthwise_conv2d(x, w, b, s, host(), kernel, **options)  # type: ignore[arg-type]
        y = operators.blocked_qconv2d(x, w, b, s, host(), **options)  # type: ignore[arg-type]
        if layer.residual is None:
            return y
        return _add(y, own, rest[0], ranges[layer.residual], after, bounded)

    return operator, [packed.weight, packed.bias, packed.scale]


def _add(
    a: te.Tensor, a_range: Affine, b: te.Tensor, b_range: Affine, after: Affine, bounded: tuple[int, int]
) -> te.Tensor:
    """The sum of two quantised tensors, by the ratio of their scales as a fraction."""
    ratio = Fraction(float(a_range.scale)) / Fraction(float(b_range.scale))
    if ratio > 1:
        inverse = (1 / ratio).limit_denominator(_LARGEST_FACTOR)
        factors = inverse.denominator, inverse.numerator
    else:
        nearest = ratio.limit_denominator(_LARGEST_FACTOR)
        factors = nearest.numerator, nearest.denominator
    larger = (a_range.scale / factors[0]) if ratio > 1 else (b_range.scale / factors[1])
    zeros = a_range.zero_point, b_range.zero_point, after.zero_point
    return operators.qadd(a, b, factors, float(np.float32(larger / after.scale)), *zeros, clip=bounded, name="total")


def _dense(layer: DenseLayer, before: Affine, after: Affine, found: Int8Parameters) -> KernelPart:
    """A dense layer, dequantised."""
    scale = (before.scale * found.scale / after.scale).astype(np.float32)
    packed = operators.pack_qdense(found.weight, scale, host(), found.bias, before.zero_point)

    def operator(x: te.Tensor, w: te.Tensor, b: te.Tensor, s: te.Tensor) -> te.Tensor:
        y = operators.qdense(
            x, w, b, s, host(), len(layer.weight), after.zero_point, largest_sum=packed.largest_sum, name="y"
        )
        zero, factor = float(after.zero_point), float(after.scale)
        return te.compute(y.shape, lambda *i: (te.cast("float32", y[i]) - zero) * factor, "dequantised")

    return operator, [packed.weight, packed.bias, packed.scale]
