# SPDX-License-Identifier: Apache-2.0
"""`to_qlinear`: QLinear operators in place of those that QuantizeLinear and DequantizeLinear frame.

Conv and MatMul become QLinearConv and QLinearMatMul, and copies of one scale work on integers.
What has no such form stays as it is.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from helpers.quantiser.graphs import Array, constants, consumers, copy_of, without_unused_constants
from helpers.quantiser.qdq import SAME_SCALE


def to_qlinear(model: onnx.ModelProto) -> onnx.ModelProto:
    """The QLinear form of a QDQ model of `to_qdq`; all tensors of few bits keep their names."""
    return _Rewriter(model).rewrite()


class _Rewriter:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.model, self.constants, self.readers = copy_of(model), constants(model), consumers(model)
        self.producers = {name: node for node in model.graph.node for name in node.output}

    def rewrite(self) -> onnx.ModelProto:
        graph = self.model.graph
        nodes = [self._node(node) for node in model_nodes(self.model)]
        del graph.node[:]
        graph.node.extend(nodes)
        self._remove_unread()
        onnx.checker.check_model(self.model, full_check=True)
        return without_unused_constants(self.model)

    def _node(self, quantise: onnx.NodeProto) -> onnx.NodeProto:
        """The QLinear operator that replaces a QuantizeLinear, or the node itself."""
        if quantise.op_type != "QuantizeLinear":
            return quantise
        node = self.producers.get(self._before_activation(quantise))
        sources = [self.producers.get(name) for name in node.input] if node else []
        if node is None or not sources or not all(_is_dequantise(source) for source in sources[:2] if source):
            return quantise
        result, name = quantise.output, f"{node.name}_quant"
        known = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        if node.op_type == "Conv" and all(_is_dequantise(source) for source in sources):
            inputs = [*sources[0].input, *sources[1].input, *quantise.input[1:]]
            inputs += [sources[2].input[0]] if len(sources) > 2 else []
            return helper.make_node("QLinearConv", inputs, result, name, **known)
        if node.op_type == "MatMul" and all(_is_dequantise(source) for source in sources):
            return helper.make_node(
                "QLinearMatMul", [*sources[0].input, *sources[1].input, *quantise.input[1:]], result, name
            )
        same = node.op_type in SAME_SCALE and self._is_same(sources[0], quantise)
        if same and node.output[0] == quantise.input[0]:
            return helper.make_node(node.op_type, [sources[0].input[0], *node.input[1:]], result, name, **known)
        return quantise

    def _before_activation(self, quantise: onnx.NodeProto) -> str:
        """The tensor before a Relu that saturation does as well."""
        name, _, zero = quantise.input
        node = self.producers.get(name)
        zero_point = self.constants[zero]
        saturates = zero_point.ndim == 0 and zero_point == np.iinfo(zero_point.dtype).min
        return node.input[0] if node is not None and node.op_type == "Relu" and saturates else name

    def _is_same(self, dequantise: onnx.NodeProto | None, quantise: onnx.NodeProto) -> bool:
        def parameters(node: onnx.NodeProto) -> list[Array]:
            return [self.constants[name] for name in node.input[1:]]

        return dequantise is not None and all(
            np.array_equal(a, b) for a, b in zip(parameters(dequantise), parameters(quantise), strict=True)
        )

    def _remove_unread(self) -> None:
        """Nodes whose results nothing reads any more."""
        graph = self.model.graph
        outputs = {info.name for info in graph.output}
        while True:
            read = {name for node in graph.node for name in node.input} | outputs
            kept = [node for node in graph.node if read & set(node.output)]
            if len(kept) == len(graph.node):
                return
            del graph.node[:]
            graph.node.extend(kept)


def model_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Copies of the nodes, which may outlive the graph's list."""
    nodes = []
    for node in model.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        nodes.append(copy)
    return nodes


def _is_dequantise(node: onnx.NodeProto | None) -> bool:
    return node is not None and node.op_type == "DequantizeLinear"
