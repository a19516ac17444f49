"""Walks a graph in its order; float tensors are computed only where something needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

from helpers.integer_evaluator.nodes import attributes, run_node
from helpers.integer_evaluator.operators import (
    COPIES,
    INTEGER,
    Operand,
    Sums,
    Uncomputed,
    copied,
    joined,
    moved,
    product_with_bias,
)
from helpers.integer_evaluator.qlinear import QLINEAR
from helpers.integer_evaluator.quantised import FEW_BITS, Array, Quantised, limits, quantised_real

ACTIVATIONS = ("Relu", "Clip")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`quantised`: every tensor of few bits that a node makes, by name; `outputs` of the graph."""

    quantised: Mapping[str, Array]
    outputs: Mapping[str, Array]


def evaluate(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> Evaluation:
    """Runs a QDQ or QLinear model by the contract of this package."""
    return _Walk(model, inputs).run()


@dataclass(slots=True)
class _Walk:
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    arrays: dict[str, Array] = field(default_factory=dict)
    dequantised: dict[str, Quantised] = field(default_factory=dict)
    producers: dict[str, onnx.NodeProto] = field(default_factory=dict)
    opsets: dict[str, int] = field(default_factory=dict)

    def run(self) -> Evaluation:
        graph = self.model.graph
        self.opsets = {entry.domain: entry.version for entry in self.model.opset_import}
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self.arrays |= {name: np.asarray(array) for name, array in self.inputs.items()}
        given = set(self.arrays)
        for node in graph.node:
            self._visit(node)
        outputs = {info.name: self.array(info.name) for info in graph.output}
        few = {name: array for name, array in self.arrays.items() if name not in given and array.dtype.name in FEW_BITS}
        return Evaluation(few, outputs)

    # --- nodes

    def _visit(self, node: onnx.NodeProto) -> None:
        """Integer tensors are computed now, float tensors when they are asked for."""
        if node.op_type == "QuantizeLinear":
            self.arrays[node.output[0]] = self._quantise(node)
        elif node.op_type == "DequantizeLinear":
            self.dequantised[node.output[0]] = self._quantised_operand(node)
        elif node.op_type in QLINEAR:
            self.arrays[node.output[0]] = QLINEAR[node.op_type](node, [self._optional(name) for name in node.input])
        elif all(name in self.arrays for name in node.input if name):
            self._compute(node)

    def _quantised_operand(self, node: onnx.NodeProto) -> Quantised:
        values, scale, *rest = (self.array(name) for name in node.input)
        zero_point = rest[0].astype(np.int64) if rest else np.zeros(scale.shape, np.int64)
        assert not attributes(node).get("block_size", 0), "blocked scales are not part of the contract"
        axis = attributes(node).get("axis", 1) % max(values.ndim, 1)
        return Quantised(values, scale, zero_point, axis)

    def _quantise(self, node: onnx.NodeProto) -> Array:
        name, scale, *rest = node.input
        sy = self.array(scale)
        zero = self.array(rest[0]) if rest else np.zeros(sy.shape, _result_dtype(node))
        rounded, bounds = None, limits(zero.dtype)
        if sy.size == 1:
            sy, zero = sy.reshape(()), zero.reshape(())
            anchor, bounds = self._activations(name, sy, zero)
            rounded = self._integer(anchor, sy)
        if rounded is None:
            x = self.array(name)
            result = Quantised(x, sy, zero.astype(np.int64), attributes(node).get("axis", 1) % max(x.ndim, 1))
            return quantised_real(x, result.along_axis(sy), result.along_axis(result.zero_point), zero.dtype)
        return np.clip(rounded + zero.astype(np.int64), *bounds).astype(zero.dtype)

    def _activations(self, name: str, sy: Array, zero: Array) -> tuple[str, tuple[int, int]]:
        """The tensor before Relu and Clip, and the quantised bounds that they leave."""
        low, high = limits(zero.dtype)
        while name not in self.dequantised and name in self.producers:
            node = self.producers[name]
            if node.op_type not in ACTIVATIONS or not all(bound in self.arrays for bound in node.input[1:] if bound):
                break
            ends = (np.float32(0), None) if node.op_type == "Relu" else self._clip_bounds(node)
            of_ends = [
                None if end is None else int(quantised_real(end, sy, zero.astype(np.int64), zero.dtype)) for end in ends
            ]
            # The activation nearest to the QuantizeLinear acts last, so its bounds prevail.
            if of_ends[0] is not None:
                low = min(max(low, of_ends[0]), high)
            if of_ends[1] is not None:
                high = max(min(high, of_ends[1]), low)
            name = node.input[0]
        return name, (low, high)

    def _clip_bounds(self, node: onnx.NodeProto) -> tuple[Array | None, Array | None]:
        known = attributes(node)
        if "min" in known or "max" in known:  # before opset 11
            return tuple(np.float32(known[key]) if key in known else None for key in ("min", "max"))  # type: ignore
        low, high = (self.arrays[name] if name else None for name in [*node.input[1:], "", ""][:2])
        return low, high

    # --- integer rules

    def _integer(self, name: str, sy: Array) -> Array | None:
        """round(sum * scale) of the tensor that is quantised, or None where no rule applies."""
        if name in self.dequantised:
            result = copied(self.dequantised[name], sy)
            return None if result is None else result.rounded
        node = self.producers.get(name)
        if node is None:
            return None
        operands = [self._operand(operand) for operand in node.input]
        if node.op_type == "Concat":
            return joined(node, operands, sy)
        result = self._sums(node, operands, sy)
        return None if result is None else result.rounded

    def _sums(self, node: onnx.NodeProto, operands: list[Operand], sy: Array) -> Sums | None:
        if node.op_type in COPIES:
            return moved(node, operands, sy, self.opsets)
        if node.op_type == "Add" and (product := self._biased_product(node, operands, sy)) is not None:
            return product
        return INTEGER[node.op_type](node, operands, sy) if node.op_type in INTEGER else None

    def _biased_product(self, node: onnx.NodeProto, operands: list[Operand], sy: Array) -> Sums | None:
        """MatMul and an Add of a constant vector, without a QuantizeLinear between them."""
        for at in (0, 1):
            product, bias = self.producers.get(node.input[at]), operands[1 - at]
            is_product = product is not None and product.op_type == "MatMul" and isinstance(operands[at], Uncomputed)
            if is_product and _is_vector(bias):
                a, b = (self._operand(name) for name in product.input)
                return product_with_bias(a, b, bias, sy)
        return None

    def _operand(self, name: str) -> Operand:
        """None for an operand that is left out; nothing is computed."""
        if not name:
            return None
        return self.dequantised.get(name, self.arrays.get(name, Uncomputed()))

    # --- float

    def _optional(self, name: str) -> Array | None:
        return self.array(name) if name else None

    def array(self, name: str) -> Array:
        """A tensor in its own dtype; computed if it is not there yet."""
        if name in self.arrays:
            return self.arrays[name]
        if name in self.dequantised:
            return self.dequantised[name].real
        self._compute(self.producers[name])
        return self.arrays[name]

    def _compute(self, node: onnx.NodeProto) -> None:
        results = run_node(node, [self._optional(name) for name in node.input], self.opsets)
        names = [name for name in node.output if name]
        self.arrays |= dict(zip(names, (np.asarray(result) for result in results), strict=True))


def _is_vector(bias: Operand) -> bool:
    array = bias.values if isinstance(bias, Quantised) else bias
    return isinstance(array, np.ndarray) and array.ndim == 1


def _result_dtype(node: onnx.NodeProto) -> np.dtype:
    """The element type of a QuantizeLinear without a zero point."""
    code = attributes(node).get("output_dtype", 0)
    return helper.tensor_dtype_to_np_dtype(code) if code else np.dtype(np.uint8)
