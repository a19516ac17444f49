"""A network in float32: images in blocks of channels, as its packed weights have lanes.

Convolutions of 3x3 windows take Winograd's form where that is faster; the first layer reads the
plain image.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from vdla.benchmarks.network_cpu.bound_network import Array, BoundNetwork, KernelPart
from vdla.benchmarks.network_cpu.layers import ConvLayer, DenseLayer, MaxPoolLayer, MeanLayer, NetworkLayer
from vdla.compiler import operators, te


def float_network(layers: Sequence[NetworkLayer], source: str, image: Array) -> BoundNetwork:
    """The kernels of a network for this CPU."""
    network = BoundNetwork(layers, source, image)
    channels = {source: image.shape[1]}
    for number, layer in enumerate(layers):
        arrays = [network.arrays[name] for name in layer.inputs]
        operator, constants = _kernel(layer, arrays[0], channels[layer.x])
        network.add(number, layer.y, operator, [arrays[0], *constants, *arrays[1:]])
        channels[layer.y] = len(layer.weight) if isinstance(layer, ConvLayer) else channels[layer.x]
    return network


def _kernel(layer: NetworkLayer, x: Array, channels: int) -> KernelPart:
    """The operator of a layer, a function of x, constants and a residual; and the constants."""
    match layer:
        case ConvLayer():
            return _conv(layer, x)
        case MaxPoolLayer(kernel=kernel, strides=strides, pads=pads):
            return lambda t: operators.blocked_max_pool(t, kernel, strides, pads, name="y"), []
        case MeanLayer():
            return lambda t: operators.flatten(operators.blocked_global_average_pool(t, channels, "y"), name="z"), []
        case DenseLayer(weight=weight, bias=bias):
            packed = operators.pack_dense(weight)
            layout = f"OI{packed.shape[-1]}o"
            return lambda t, w, b: operators.dense(t, w, b, len(weight), layout, "y"), [packed, bias]


def _conv(layer: ConvLayer, x: Array) -> KernelPart:
    """A convolution with what is fused into it."""
    if layer.is_depthwise:
        return _depthwise(layer, x.shape[-1])
    if x.ndim == 5 and _plan(layer, x).algorithm == "winograd2":
        return _winograd(layer, x.shape[-1])
    packed = operators.pack_conv2d(layer.weight)
    lanes = packed.shape[-1]
    layouts = {
        "layout": "NCHW" if x.ndim == 4 else f"NCHW{x.shape[-1]}c",
        "weight_layout": f"OIHW{lanes}o",
        "result_layout": f"NCHW{lanes}c",
    }

    def operator(t: te.Tensor, w: te.Tensor, b: te.Tensor, *rest: te.Tensor) -> te.Tensor:
        options = {"strides": layer.strides, "pads": layer.pads, "out_channels": len(layer.weight), "name": "y"}
        return _epilogue(layer, operators.conv2d(t, w, b, **options, **layouts), rest)  # type: ignore[arg-type]

    return operator, [packed, operators.pack_channels(layer.bias, lanes)]


def _depthwise(layer: ConvLayer, lanes: int) -> KernelPart:
    """A depthwise convolution with its bounds."""
    packed = operators.pack_blocked_depthwise_conv2d(layer.weight, lanes)

    def operator(t: te.Tensor, w: te.Tensor, b: te.Tensor, *rest: te.Tensor) -> te.Tensor:
        y = operators.blocked_depthwise_conv2d(t, w, b, layer.strides, layer.pads, name="y")
        return _epilogue(layer, y, rest)

    return operator, [packed, operators.pack_channels(layer.bias, lanes)]


def _winograd(layer: ConvLayer, lanes: int) -> KernelPart:
    """A convolution in Winograd's form with what is fused into it."""
    packed = operators.pack_winograd(layer.weight, tile=2)

    def operator(t: te.Tensor, w: te.Tensor, b: te.Tensor, *rest: te.Tensor) -> te.Tensor:
        y = operators.winograd_conv2d(t, w, b, layer.pads, len(layer.weight), 2, f"NCHW{lanes}c", "y")
        return _epilogue(layer, y, rest)

    return operator, [packed, operators.pack_channels(layer.bias, packed.shape[-1])]


def _plan(layer: ConvLayer, x: Array) -> operators.ConvolutionPlan:
    """The choice of an algorithm by shapes."""
    shape = (x.shape[0], layer.weight.shape[1], x.shape[2], x.shape[3])
    return operators.plan_convolution(shape, layer.weight.shape, layer.strides, layer.pads)


def _epilogue(layer: ConvLayer, y: te.Tensor, residual: Sequence[te.Tensor]) -> te.Tensor:
    """The residual connection and the bounds after a convolution."""
    total = operators.add(y, residual[0], "total") if residual else y
    if layer.bounds == (0, inf):
        return operators.relu(total, "bounded")
    return total if layer.bounds == (-inf, inf) else operators.clip(total, *layer.bounds, name="bounded")
