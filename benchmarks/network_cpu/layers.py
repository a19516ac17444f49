"""The layers of a convolutional network, read from its ONNX model: one layer a kernel.

Batch normalisation is folded into the weights; a bias, a residual connection and bounds (ReLU,
ReLU6) belong to the convolution before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ConvLayer:
    """y = clip(conv(x) + bias + residual, *bounds); `weight` is [CO, C / groups, KH, KW]."""

    x: str
    y: str
    weight: Floats
    bias: Floats
    strides: int
    pads: int
    groups: int
    residual: str | None = None
    bounds: tuple[float, float] = (-inf, inf)

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel has its own kernel."""
        return self.groups > 1

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the layer reads."""
        return (self.x,) if self.residual is None else (self.x, self.residual)


@dataclass(frozen=True, slots=True)
class MaxPoolLayer:
    """The largest element of each window."""

    x: str
    y: str
    kernel: int
    strides: int
    pads: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the layer reads."""
        return (self.x,)


@dataclass(frozen=True, slots=True)
class MeanLayer:
    """The mean of each channel, [N, C]."""

    x: str
    y: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the layer reads."""
        return (self.x,)


@dataclass(frozen=True, slots=True)
class DenseLayer:
    """y = x @ weight.T + bias; `weight` is [N, K]."""

    x: str
    y: str
    weight: Floats
    bias: Floats

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the layer reads."""
        return (self.x,)


NetworkLayer = ConvLayer | MaxPoolLayer | MeanLayer | DenseLayer


def layers_of(model: ModelProto) -> list[NetworkLayer]:
    """The layers in order; nodes that are no layer and part of none raise KeyError."""
    from onnx import numpy_helper

    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    reader = _LayerReader(constants, Counter(name for node in model.graph.node for name in node.input))
    for node in model.graph.node:
        reader.read(node)
    return reader.layers


def needed_until(layers: Sequence[NetworkLayer]) -> Mapping[str, int]:
    """The number of the last layer that reads each tensor."""
    return {name: number for number, layer in enumerate(layers) for name in layer.inputs}


@dataclass(slots=True)
class _LayerReader:
    """Collects layers; a tensor that a layer has taken over goes by the layer's result."""

    constants: Mapping[str, NDArray[Any]]
    uses: Mapping[str, int]
    layers: list[NetworkLayer] = field(default_factory=list)

    def read(self, node: NodeProto) -> None:
        from onnx import helper

        options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        x, y = node.input[0], node.output[0]
        constants = [self.constants.get(name) for name in node.input[1:]]
        match node.op_type:
            case "Conv":
                weight, bias = constants[0], constants[1] if len(constants) > 1 else None
                assert weight is not None
                start = np.zeros(len(weight), np.float32) if bias is None else bias
                strides, pads = (
                    int(options.get(name, [default])[0]) for name, default in (("strides", 1), ("pads", 0))
                )
                conv = ConvLayer(
                    x=x, y=y, weight=weight, bias=start, strides=strides, pads=pads, groups=int(options.get("group", 1))
                )
                self.layers.append(conv)
            case "BatchNormalization":
                scale, shift, mean, variance = (np.asarray(value) for value in constants)
                factor = (scale / np.sqrt(variance + options.get("epsilon", 1e-5))).astype(np.float32)
                conv = self._conv(x)
                folded = ((conv.bias - mean) * factor + shift).astype(np.float32)
                self._replace(conv, replace(conv, y=y, weight=conv.weight * factor[:, None, None, None], bias=folded))
            case "Relu":
                self._bound(x, y, 0, inf)
            case "Clip":
                low, high = (float(np.asarray(value)) for value in constants)
                self._bound(x, y, low, high)
            case "Add":
                self._add(node)
            case "MaxPool":
                self.layers.append(
                    MaxPoolLayer(x, y, options["kernel_shape"][0], options["strides"][0], options["pads"][0])
                )
            case "GlobalAveragePool":
                self.layers.append(MeanLayer(x, y))
            case "Flatten":
                last = self.layers[-1]
                assert last.y == x
                self._replace(last, replace(last, y=y))
            case "Gemm":
                weight, bias = (np.asarray(value) for value in constants)
                self.layers.append(DenseLayer(x, y, weight if options.get("transB") else weight.T.copy(), bias))
            case other:
                raise KeyError(other)

    def _conv(self, y: str) -> ConvLayer:
        return next(layer for layer in self.layers if isinstance(layer, ConvLayer) and layer.y == y)

    def _replace(self, old: NetworkLayer, new: NetworkLayer) -> None:
        self.layers[next(n for n, layer in enumerate(self.layers) if layer is old)] = new

    def _bound(self, x: str, y: str, low: float, high: float) -> None:
        layer = next(layer for layer in self.layers if layer.y == x)
        if isinstance(layer, ConvLayer):
            self._replace(layer, replace(layer, y=y, bounds=(low, high)))
        else:  # the maximum of bounded elements: bound them before
            assert isinstance(layer, MaxPoolLayer)
            before = self._conv(layer.x)
            self._replace(before, replace(before, bounds=(low, high)))
            self._replace(layer, replace(layer, y=y))

    def _add(self, node: NodeProto) -> None:
        """The last convolution that only this addition reads takes the other operand over."""
        hosts = [
            layer
            for layer in self.layers
            if isinstance(layer, ConvLayer)
            and layer.y in node.input
            and self.uses[layer.y] == 1
            and layer.residual is None
            and layer.bounds == (-inf, inf)
        ]
        (other,) = (name for name in node.input if name != hosts[-1].y)
        self._replace(hosts[-1], replace(hosts[-1], y=node.output[0], residual=other))
