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
    """A convolution into blocks with what is fused into it."""
    blocked, plane = x.ndim == 5, x.shape[2:4]
    channels = layer.weight.shape[1] * layer.groups
    plan = operators.plan_convolution(
        (x.shape[0], channels, plane[0], plane[1]),
        layer.weight.shape,
        layer.strides,
        layer.pads,
        groups=layer.groups,
        layout=f"NCHW{x.shape[-1]}c" if blocked else "NCHW",
        result_layout="blocks",
    )

    def operator(t: te.Tensor, w: te.Tensor, b: te.Tensor, *rest: te.Tensor) -> te.Tensor:
        return _epilogue(layer, plan.apply(t, w, b, "y"), rest)

    return operator, [plan.pack(layer.weight), plan.pack_bias(layer.bias)]


def _epilogue(layer: ConvLayer, y: te.Tensor, residual: Sequence[te.Tensor]) -> te.Tensor:
    """The residual connection and the bounds after a convolution."""
    total = operators.add(y, residual[0], "total") if residual else y
    if layer.bounds == (0, inf):
        return operators.relu(total, "bounded")
    return total if layer.bounds == (-inf, inf) else operators.clip(total, *layer.bounds, name="bounded")
