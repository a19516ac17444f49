"""ONNX models of layers: in float32, or quantised with QuantizeLinear and DequantizeLinear nodes.

A quantised model has uint8 activations, int8 weights with a scale for each channel, and int32
biases. A convolution with a residual connection is quantised before the addition and after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.network_cpu.layers import ConvLayer, DenseLayer, Floats, MaxPoolLayer, MeanLayer, NetworkLayer

OPSET, IR_VERSION = 17, 8


@dataclass(frozen=True, slots=True)
class Affine:
    """q represents (q - zero_point) * scale."""

    scale: np.float32
    zero_point: int


@dataclass(frozen=True, slots=True)
class Int8Parameters:
    """int8 weight with a scale for each output, and the int32 bias of scale x_scale * scale."""

    weight: NDArray[np.int8]
    scale: Floats
    bias: NDArray[np.int32]


def before_addition(layer: ConvLayer) -> str:
    """The name of the result of a convolution before its residual is added."""
    return f"{layer.y}.conv"


def float_model(layers: Sequence[NetworkLayer], source: str, shape: Sequence[int], results: Sequence[str]) -> bytes:
    """The model in float32 with these results."""
    writer = _ModelWriter(None, {})
    for layer in layers:
        writer.layer(layer)
    return writer.model(source, shape, results)


def quantised_model(
    layers: Sequence[NetworkLayer],
    source: str,
    shape: Sequence[int],
    ranges: Mapping[str, Affine],
    weights: Mapping[str, Int8Parameters],
) -> bytes:
    """The model with QuantizeLinear and DequantizeLinear nodes; its result is float32."""
    writer = _ModelWriter(ranges, weights)
    writer.quantise(source)
    for layer in layers:
        writer.layer(layer)
    return writer.model(source, shape, [writer.names[layers[-1].y]])


class _ModelWriter:
    """Nodes and constants of a model; `names` maps a tensor to the one that nodes read."""

    def __init__(self, ranges: Mapping[str, Affine] | None, weights: Mapping[str, Int8Parameters]) -> None:
        self.names: dict[str, str] = {}
        self._ranges, self._weights = ranges, weights
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def layer(self, layer: NetworkLayer) -> None:
        """The nodes of a layer."""
        x = self.names.get(layer.x, layer.x)
        match layer:
            case ConvLayer():
                self._conv(layer, x)
            case MaxPoolLayer(kernel=kernel, strides=strides, pads=pads):
                window = {"kernel_shape": [kernel] * 2, "strides": [strides] * 2, "pads": [pads] * 4}
                self._node("MaxPool", [x], layer.y, **window)
                self.quantise(layer.y)
            case MeanLayer():
                self._node("GlobalAveragePool", [x], f"{layer.y}.mean")
                flat = self.quantise(f"{layer.y}.mean", layer.y)
                self._node("Flatten", [flat], f"{layer.y}.flat" if self._ranges else layer.y)
                self.names[layer.y] = f"{layer.y}.flat" if self._ranges else layer.y
            case DenseLayer(weight=weight, bias=bias):
                self._node("Gemm", [x, *self._parameters(layer, weight, bias)], layer.y, transB=1)
                self.quantise(layer.y)

    def quantise(self, name: str, tensor: str | None = None) -> str:
        """Quantise and dequantise a tensor by the range of `tensor`; the name to read."""
        if self._ranges is None:
            return name
        tensor = tensor or name
        affine = self._ranges[tensor]
        scale = self._constant(f"{name}.scale", np.asarray(affine.scale, np.float32))
        zero = self._constant(f"{name}.zero", np.asarray(affine.zero_point, np.uint8))
        self._node("QuantizeLinear", [name, scale, zero], f"{name}.q")
        self._node("DequantizeLinear", [f"{name}.q", scale, zero], f"{name}.dq")
        self.names[tensor] = f"{name}.dq"
        return f"{name}.dq"

    def model(self, source: str, shape: Sequence[int], results: Sequence[str]) -> bytes:
        """The serialised model."""
        from onnx import TensorProto, helper

        x = helper.make_tensor_value_info(source, TensorProto.FLOAT, list(shape))
        y = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
        graph = helper.make_graph(self._nodes, "network", [x], y, self._constants)
        opset = [helper.make_opsetid("", OPSET)]
        return bytes(helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION).SerializeToString())

    def _conv(self, layer: ConvLayer, x: str) -> None:
        options = {
            "kernel_shape": list(layer.weight.shape[2:]),
            "strides": [layer.strides] * 2,
            "pads": [layer.pads] * 4,
            "group": layer.groups,
        }
        last = before_addition(layer)
        self._node("Conv", [x, *self._parameters(layer, layer.weight, layer.bias)], last, **options)
        if layer.residual is not None:
            other = self.names.get(layer.residual, layer.residual)
            self._node("Add", [self.quantise(last), other], f"{layer.y}.sum")
            last = f"{layer.y}.sum"
        match layer.bounds:
            case (low, high) if low > -inf and high < inf and self._ranges is None:
                limits = (self._constant(f"{layer.y}.{n}", np.float32(v)) for n, v in (("low", low), ("high", high)))
                self._node("Clip", [last, *limits], layer.y)
            case (low, _) if low > -inf:  # the range of a quantised result ends at the upper bound
                self._node("Relu", [last], layer.y)
            case _:
                self._node("Identity", [last], layer.y)
        self.quantise(layer.y)

    def _parameters(self, layer: ConvLayer | DenseLayer, weight: Floats, bias: Floats) -> list[str]:
        """The names of weight and bias."""
        if self._ranges is None:
            return [self._constant(f"{layer.y}.weight", weight), self._constant(f"{layer.y}.bias", bias)]
        found = self._weights[layer.y]
        parts: dict[str, tuple[NDArray[Any], Floats]] = {
            "weight": (found.weight, found.scale),
            "bias": (found.bias, self._ranges[layer.x].scale * found.scale),
        }
        for name, (values, scale) in parts.items():
            arrays = {"q": values, "s": scale.astype(np.float32), "z": np.zeros(len(scale), values.dtype)}
            inputs = [self._constant(f"{layer.y}.{name}.{key}", array) for key, array in arrays.items()]
            self._node("DequantizeLinear", inputs, f"{layer.y}.{name}", axis=0)
        return [f"{layer.y}.{name}" for name in parts]

    def _node(self, operator: str, inputs: Sequence[str], y: str, **options: Any) -> None:  # noqa: ANN401  attributes
        from onnx import helper

        self._nodes.append(helper.make_node(operator, list(inputs), [y], **options))

    def _constant(self, name: str, value: Any) -> str:  # noqa: ANN401  an array or a NumPy scalar
        from onnx import numpy_helper

        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name
