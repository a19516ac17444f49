# SPDX-License-Identifier: Apache-2.0
"""`to_qdq`: QuantizeLinear and DequantizeLinear around the operators of a float model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from helpers.quantiser.graphs import (
    Array,
    attribute,
    constants,
    consumers,
    copy_of,
    fold_batch_norm,
    ranges,
    without_unused_constants,
)
from helpers.quantiser.parameters import Parameters, Scheme

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
OPERATORS = (*PRODUCTS, "Add", "AveragePool", "GlobalAveragePool", "Concat")
"""Their operands and results are quantised."""
ACTIVATIONS = ("Relu", "Clip")
"""Part of the operator before them, if they are its only reader."""
SAME_SCALE = ("MaxPool", "Flatten", "Pad", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
"""Their results have the parameters of their quantised operand."""


def to_qdq(
    model: onnx.ModelProto,
    calibration_data: Iterable[Mapping[str, Array]],
    power_of_two: bool = False,
    uint8: bool = False,
    per_channel: bool = True,
    weight_bits: int = 8,
) -> onnx.ModelProto:
    """The QDQ form of a float model; its other operators stay in float32.

    Tensor `x` becomes `x_QuantizeLinear_Output` and `x_DequantizeLinear_Output`; a float result of
    the graph keeps its name.
    """
    scheme = Scheme(power_of_two, uint8, per_channel, weight_bits)
    folded = fold_batch_norm(model)
    writer = _Writer(folded, scheme, ranges(folded, calibration_data))
    return writer.write()


class _Writer:
    def __init__(self, model: onnx.ModelProto, scheme: Scheme, found: Mapping[str, tuple[float, float]]) -> None:
        self.model, self.scheme, self.ranges = copy_of(model), scheme, found
        self.constants, self.readers = constants(model), consumers(model)
        self.producers = {name: node for node in model.graph.node for name in node.output}
        self.outputs = {info.name for info in model.graph.output}
        self.parameters = self._parameters()
        self.nodes: list[onnx.NodeProto] = []
        self.added: dict[str, Array] = {}

    # --- which tensors, and how

    def _parameters(self) -> dict[str, Parameters]:
        """The parameters of every activation that is quantised."""
        nodes = self.model.graph.node
        operands = [name for node in nodes if node.op_type in (*OPERATORS, "MaxPool") for name in node.input]
        results = [self._result(node) for node in nodes if node.op_type in OPERATORS]
        chosen = {name for name in (*operands, *results) if name in self.ranges}
        found = {name: self.scheme.activation(*self.ranges[name]) for name in chosen}
        for node in self.model.graph.node:
            if node.op_type in SAME_SCALE and node.input[0] in found:
                found |= dict.fromkeys(node.output, found[node.input[0]])
            elif node.op_type in ACTIVATIONS and node.input[0] in found and node.output[0] not in found:
                found[node.output[0]] = self.scheme.activation(*self.ranges[node.output[0]])
        return found

    def _result(self, node: onnx.NodeProto) -> str:
        """The result of an operator, or of the activation that follows it."""
        name = node.output[0]
        readers = self.readers.get(name, [])
        if len(readers) == 1 and readers[0].op_type in ACTIVATIONS and name not in self.outputs:
            return self._result(readers[0])
        return name

    # --- the graph

    def write(self) -> onnx.ModelProto:
        graph = self.model.graph
        for info in graph.input:
            self._pair(info.name, info.name)
        for node in graph.node:
            self._node(node)
        del graph.node[:]
        graph.node.extend(self.nodes)
        graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in self.added.items())
        del graph.value_info[:]
        model = without_unused_constants(self.model)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _node(self, node: onnx.NodeProto) -> None:
        new = onnx.NodeProto()
        new.CopyFrom(node)
        inputs = [self._operand(node, at) for at in range(len(node.input))]
        del new.input[:]
        new.input.extend(inputs)
        for at, name in enumerate(node.output):
            if name in self.outputs and name in self.parameters:
                new.output[at] = f"{name}_float"
        self.nodes.append(new)
        for name, real in zip(node.output, new.output, strict=True):
            self._pair(name, real)

    def _pair(self, name: str, real: str) -> None:
        """QuantizeLinear and DequantizeLinear of tensor `name`, which `real` holds in float32."""
        if name not in self.parameters:
            return
        integers, pair = f"{name}_QuantizeLinear_Output", self._named(name, self.parameters[name])
        result = name if name in self.outputs else _dequantised(name)
        self.nodes.append(helper.make_node("QuantizeLinear", [real, *pair], [integers], f"{name}_QuantizeLinear"))
        self.nodes.append(helper.make_node("DequantizeLinear", [integers, *pair], [result], f"{name}_DequantizeLinear"))

    def _named(self, name: str, parameters: Parameters) -> list[str]:
        """The names of scale and zero point, which become initialisers."""
        self.added[f"{name}_scale"] = parameters.scale
        self.added[f"{name}_zero_point"] = parameters.zero_point
        return [f"{name}_scale", f"{name}_zero_point"]

    def _operand(self, node: onnx.NodeProto, at: int) -> str:
        name = node.input[at]
        if name in self.parameters:
            return name if name in self.outputs else _dequantised(name)
        is_float = name in self.constants and self.constants[name].dtype == np.float32
        if not is_float or node.op_type not in OPERATORS:
            return name
        if node.op_type in PRODUCTS and at == 2:
            return self._bias(node)
        if node.op_type in PRODUCTS:
            return self._constant(name, self.scheme.weight(self.constants[name], self._channels(node)))
        values = self.constants[name]
        return self._constant(name, self.scheme.activation(float(values.min()), float(values.max())))

    def _channels(self, node: onnx.NodeProto) -> int | None:
        """The axis of the results of a product in its weights."""
        match node.op_type:
            case "Conv":
                return 0
            case "ConvTranspose":
                return 1 if attribute(node, "group", 1) == 1 else None
            case "Gemm":
                return 0 if attribute(node, "transB", 0) else 1
            case _:
                return self.constants[node.input[1]].ndim - 1

    def _constant(self, name: str, parameters: Parameters) -> str:
        """An initialiser as integers and a DequantizeLinear."""
        self.added[f"{name}_quantized"] = parameters.quantised(self.constants[name])
        return self._dequantise(name, parameters)

    def _bias(self, node: onnx.NodeProto) -> str:
        """A bias as int32 of the scale of the sums."""
        x, w, name = node.input
        weight = self.scheme.weight(self.constants[w], self._channels(node))
        scale = np.asarray(self.parameters[x].scale * weight.scale, np.float32)
        zero_point = np.zeros(scale.shape, np.int32)
        parameters = Parameters(scale, zero_point, 0 if scale.ndim else None)
        self.added[f"{name}_quantized"] = parameters.quantised(self.constants[name])
        return self._dequantise(name, parameters)

    def _dequantise(self, name: str, parameters: Parameters) -> str:
        result = _dequantised(name)
        if any(result in node.output for node in self.nodes):
            return result
        inputs = [f"{name}_quantized", *self._named(name, parameters)]
        axis = {} if parameters.axis is None else {"axis": parameters.axis}
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [result], f"{name}_DequantizeLinear", **axis))
        return result


def _dequantised(name: str) -> str:
    return f"{name}_DequantizeLinear_Output"
