# SPDX-License-Identifier: Apache-2.0
"""The QDQ graph of a float graph: QuantizeLinear and DequantizeLinear around its layers.

The dequantised value keeps its name, so that outputs and float operators read the same name as
before. Biases are int32 in the scale of the sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import quantise_bias
from vdla.compiler.graph.quantise.groups import GroupedWeight
from vdla.compiler.graph.quantise.parameters import ActivationParameters, WeightParameters
from vdla.compiler.graph.quantise.plan import QuantisationPlan, QuantisedLayer
from vdla.compiler.graph.rewriting import unused_name


@dataclass(frozen=True, slots=True)
class QuantisedParameters:
    """Parameters of activations by value; of weights, and float biases, by the layer's name.

    A bias has its shape in the graph, or one element for each output.
    """

    activations: Mapping[str, ActivationParameters]
    weights: Mapping[str, WeightParameters]
    biases: Mapping[str, Array]


def insert_qdq(graph: Graph, plan: QuantisationPlan, parameters: QuantisedParameters) -> Graph:
    """The graph with the layers of a plan quantised; values shared by layers are quantised once."""
    return _Writer(graph, plan, parameters).write()


class _Writer:
    def __init__(self, graph: Graph, plan: QuantisationPlan, parameters: QuantisedParameters) -> None:
        self.graph, self.plan, self.parameters = graph, plan, parameters
        self.nodes: list[Node] = []
        self.constants, self.types = dict(graph.constants), dict(graph.types)
        self.read: dict[str, str] = {}  # the value that readers of an input or a constant read
        self.layers = {id(layer.node): layer for layer in plan.layers}
        self.added: dict[str, tuple[str, str]] = {}  # by product: the added constant, and its quantised form

    def write(self) -> Graph:
        """The QDQ graph."""
        for name in (*self.graph.inputs, *self.graph.constants):
            if name in self.plan.values:
                self.read[name] = self._fresh(f"{name}_dequantised")
                self._convert(name, name, self.read[name])
        for node in self.graph.nodes:
            self._add(node)
        return self.graph.replace(nodes=tuple(self.nodes), constants=self.constants, types=self.types)

    def _add(self, node: Node) -> None:
        inputs = tuple(self.read.get(name, name) for name in node.inputs)
        layer = self.layers.get(id(node))
        if layer is not None and layer.weight:
            inputs = (inputs[0], *self._constants(layer))
        if node.op == "Add":
            for name, bias in (self.added[name] for name in node.inputs if name in self.added):
                inputs = tuple(bias if given == name else given for given in inputs)
        quantised = {name: self._fresh(f"{name}_float") for name in node.outputs if name in self.plan.values}
        self.types.update({made: self.types[name] for name, made in quantised.items()})
        self.nodes.append(replace(node, inputs=inputs, outputs=tuple(quantised.get(n, n) for n in node.outputs)))
        for name, made in quantised.items():
            self._convert(name, made, name)

    # --- activations

    def _convert(self, name: str, source: str, result: str) -> None:
        """result = DQ(Q(source)), with the parameters of `name`."""
        parameters = self.parameters.activations[self.plan.values[name]]
        integers, value = self._fresh(f"{name}_quantised"), self.graph.constant(name)
        scale = self._constant(f"{name}_scale", np.asarray(parameters.scale))
        zero = self._constant(f"{name}_zero_point", np.array(parameters.zero_point, np.int8))
        self.types[integers] = replace(self.graph.tensor(name), dtype="int8")
        self.types[result] = self.graph.tensor(name)
        if value is None:
            self.nodes.append(Node("QuantizeLinear", (source, scale, zero), (integers,), {}, f"{name}_quantise"))
        else:
            rounded = np.rint(value / parameters.scale) + parameters.zero_point
            self.constants[integers] = np.clip(rounded, -128, 127).astype(np.int8)
        self.nodes.append(Node("DequantizeLinear", (integers, scale, zero), (result,), {}, f"{name}_dequantise"))

    # --- constants of products

    def _constants(self, layer: QuantisedLayer) -> tuple[str, ...]:
        """The weight and, where the product itself adds one, the bias."""
        made = self.parameters.weights[layer.name]
        axis = layer.axis if made.scale.size > 1 else None
        if isinstance(made, GroupedWeight):
            weight = self._grouped(layer.weight, made)
        else:
            weight = self._dequantised(layer.weight, made.values, made.scale, axis)
        if layer.name not in self.parameters.biases:
            return (weight,)
        bias = self._bias(layer, made)
        if layer.bias and layer.bias not in layer.node.inputs:
            self.added[layer.node.outputs[0]] = layer.bias, bias
            return (weight,)
        return weight, bias

    def _bias(self, layer: QuantisedLayer, weight: WeightParameters) -> str:
        """A bias in the scale of the sums."""
        data = self.parameters.activations[self.plan.values[layer.activations[0]]]
        scale = np.asarray(data.scale * weight.scale, np.float32)
        given = self.parameters.biases[layer.name]
        integers = quantise_bias(given.reshape(-1), scale).reshape(given.shape)
        axis = None if scale.size == 1 else int(np.argmax(given.shape))
        return self._dequantised(layer.bias or f"{layer.node.outputs[0]}_bias", integers, scale, axis)

    def _dequantised(self, name: str, integers: Array, scale: Array, axis: int | None) -> str:
        """A constant of integers, dequantised."""
        factor = scale.reshape(()) if axis is None else scale
        given = (
            self._constant(f"{name}_quantised", integers),
            self._constant(f"{name}_scale", factor),
            self._constant(f"{name}_zero_point", np.zeros(factor.shape, integers.dtype)),
        )
        result = self._fresh(f"{name}_dequantised")
        self.types[result] = TensorType("float32", integers.shape)
        attributes = {} if axis is None else {"axis": axis}
        self.nodes.append(Node("DequantizeLinear", given, (result,), attributes, f"{name}_dequantise"))
        return result

    def _grouped(self, name: str, weight: GroupedWeight) -> str:
        """A constant of numbers of four bits, dequantised in blocks."""
        numbers = self._constant(f"{name}_quantised", weight.numbers.astype("int4"))
        scales = self._constant(f"{name}_scale", weight.block_scales)
        result = self._fresh(f"{name}_dequantised")
        self.types[result] = TensorType("float32", weight.values.shape)
        attributes = {"axis": weight.axis, "block_size": weight.size}
        self.nodes.append(Node("DequantizeLinear", (numbers, scales), (result,), attributes, f"{name}_dequantise"))
        return result

    def _constant(self, base: str, value: Array) -> str:
        name = self._fresh(base)
        self.constants[name] = value
        self.types[name] = TensorType(value.dtype.name, value.shape)
        return name

    def _fresh(self, base: str) -> str:
        """A name beginning with `base` that no value has yet."""
        return unused_name(self.types, base)
