# SPDX-License-Identifier: Apache-2.0
"""Walks a graph in its order; float tensors are computed only where something needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from helpers.integer_evaluator.nodes import attributes
from helpers.integer_evaluator.patterns import Result, integers
from helpers.integer_evaluator.qlinear import QLINEAR
from helpers.integer_evaluator.quantised import FEW_BITS, Array, Quantised, quantised_real
from helpers.integer_evaluator.tensors import Tensors


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`quantised`: every tensor of few bits that a node makes, by name; `outputs` of the graph.

    `by_float` names those of `quantised` that a float operator computed, whose last bits depend on
    its implementation; quantised inputs of the graph are not among them.
    """

    quantised: Mapping[str, Array]
    outputs: Mapping[str, Array]
    by_float: frozenset[str]


def evaluate(
    model: onnx.ModelProto, inputs: Mapping[str, Array], given: Mapping[str, Array] | None = None
) -> Evaluation:
    """Runs a QDQ or QLinear model by the contract of this package.

    `given` replaces results of QuantizeLinear by name: with those of `by_float` from another
    implementation, all other tensors have to be equal.
    """
    walk = _Walk(Tensors.of(model, inputs), given or {})
    for node in model.graph.node:
        walk.visit(node)
    outputs = {info.name: walk.tensors.array(info.name) for info in model.graph.output}
    made = {name: array for name, array in walk.tensors.arrays.items() if name in walk.tensors.producers}
    few = {name: array for name, array in made.items() if array.dtype.name in FEW_BITS}
    return Evaluation(few, outputs, frozenset(walk.by_float))


@dataclass(frozen=True, slots=True)
class _Walk:
    tensors: Tensors
    given: Mapping[str, Array]
    by_float: set[str] = field(default_factory=set)

    def visit(self, node: onnx.NodeProto) -> None:
        """Integer tensors are computed now, float tensors when they are asked for."""
        tensors, result = self.tensors, node.output[0]
        if node.op_type == "QuantizeLinear":
            array = self._quantise(node)
            tensors.arrays[result] = self.given.get(result, array)
        elif node.op_type == "DequantizeLinear":
            tensors.dequantised[result] = self._dequantised(node)
        elif node.op_type in QLINEAR:
            tensors.arrays[result] = QLINEAR[node.op_type](node, [tensors.optional(name) for name in node.input])
        elif all(name in tensors.arrays for name in node.input if name):
            tensors.compute(node)

    def _dequantised(self, node: onnx.NodeProto) -> Quantised:
        values, scale, *rest = (self.tensors.array(name) for name in node.input)
        zero_point = rest[0].astype(np.int64) if rest else np.zeros(scale.shape, np.int64)
        assert not attributes(node).get("block_size", 0), "blocked scales are not part of the contract"
        axis = attributes(node).get("axis", 1) % max(values.ndim, 1)
        return Quantised(values, scale, zero_point, axis)

    def _quantise(self, node: onnx.NodeProto) -> Array:
        name, *parameters = node.input
        scale, *rest = (self.tensors.array(parameter) for parameter in parameters)
        zero = rest[0] if rest else np.zeros(scale.shape, _result_dtype(node))
        if scale.size == 1:
            result = Result(scale.reshape(()), zero.reshape(()))
            centred = integers(self.tensors, name, result)
            if centred is not None:
                return (centred + zero.astype(np.int64)).astype(zero.dtype)
        if name in self.tensors.producers:
            self.by_float.add(node.output[0])
        x = self.tensors.array(name)
        shaped = Quantised(x, scale, zero.astype(np.int64), attributes(node).get("axis", 1) % max(x.ndim, 1))
        return quantised_real(x, shaped.along_axis(scale), shaped.along_axis(shaped.zero_point), zero.dtype)


def _result_dtype(node: onnx.NodeProto) -> np.dtype:
    """The element type of a QuantizeLinear without a zero point."""
    code = attributes(node).get("output_dtype", 0)
    return helper.tensor_dtype_to_np_dtype(code) if code else np.dtype(np.uint8)
