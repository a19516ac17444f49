# SPDX-License-Identifier: Apache-2.0
"""Which integer rule computes the operand of a QuantizeLinear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from helpers.integer_evaluator.nodes import attributes, run_node
from helpers.integer_evaluator.operators import INTEGER, Operand, Sums, Uncomputed, requantised, with_added_bias
from helpers.integer_evaluator.quantised import Array, Quantised, limits, quantised_real
from helpers.integer_evaluator.sums import window_maxima
from helpers.integer_evaluator.tensors import Tensors

ACTIVATIONS = ("Relu", "Clip")
COPIES = (
    "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "GlobalMaxPool", "Identity",
    "MaxPool", "Pad", "ReduceMax", "ReduceMin", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze",
    "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators whose results are elements of their first operand, or zeros."""
BIASED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class Result:
    """The parameters of a QuantizeLinear with one scale."""

    scale: Array
    zero_point: Array

    def bound(self, real: Array | None) -> int | None:
        """A bound as QuantizeLinear makes it."""
        if real is None:
            return None
        return int(quantised_real(real, self.scale, self.zero_point.astype(np.int64), self.zero_point.dtype))


def integers(tensors: Tensors, name: str, result: Result) -> Array | None:
    """A tensor as QuantizeLinear makes it, minus the zero point; None where no rule applies."""
    anchor, (low, high) = _before_activations(tensors, name, result)
    rounded = _rounded(tensors, anchor, result)
    zero = int(result.zero_point)
    return None if rounded is None else np.clip(rounded, low - zero, high - zero)


# --- activations ----------------------------------------------------------------------------------


def _before_activations(tensors: Tensors, name: str, result: Result) -> tuple[str, tuple[int, int]]:
    """The tensor before Relu and Clip, and the quantised bounds that they leave."""
    low, high = limits(result.zero_point.dtype)
    while (node := tensors.producers.get(name)) is not None and node.op_type in ACTIVATIONS:
        if tensors.readers[name] > 1 or not all(bound in tensors.arrays for bound in node.input[1:] if bound):
            break
        least, most = (result.bound(real) for real in _reals(tensors, node))
        # The activation nearest to the QuantizeLinear acts last, so its bounds prevail.
        low = low if least is None else min(max(low, least), high)
        high = high if most is None else max(min(high, most), low)
        name = node.input[0]
    return name, (low, high)


def _reals(tensors: Tensors, node: onnx.NodeProto) -> tuple[Array | None, Array | None]:
    """The bounds of a Relu or Clip."""
    known = attributes(node)
    if node.op_type == "Relu":
        return np.zeros((), np.float32), None
    if "min" in known or "max" in known:  # before opset 11
        return tuple(np.float32(known[key]) if key in known else None for key in ("min", "max"))
    return tuple(tensors.arrays[name] if name else None for name in [*node.input[1:], "", ""][:2])


# --- operators ------------------------------------------------------------------------------------


def _rounded(tensors: Tensors, name: str, result: Result) -> Array | None:
    """round(sum * scale) of a tensor."""
    if name in tensors.dequantised:
        return requantised(tensors.dequantised[name], result.scale)
    node = tensors.producers.get(name)
    if node is None or not (_is_moved(tensors, name) or tensors.readers[name] == 1):
        return None
    if node.op_type in COPIES:
        return _copied(tensors, node, name, result)
    if node.op_type == "Concat":
        return _joined(tensors, node, result)
    operands = [tensors.operand(operand) for operand in node.input]
    sums = _biased(tensors, node, operands, result) if node.op_type == "Add" else None
    if sums is None and node.op_type in INTEGER:
        sums = INTEGER[node.op_type](node, operands, result.scale)
    return None if sums is None else sums.rounded


def _is_moved(tensors: Tensors, name: str) -> bool:
    """Whether a tensor is dequantised, perhaps before copies."""
    node = tensors.producers.get(name)
    is_copy = node is not None and node.op_type in COPIES
    return name in tensors.dequantised or (is_copy and _is_moved(tensors, node.input[0]))


def _copied(tensors: Tensors, node: onnx.NodeProto, name: str, result: Result) -> Array | None:
    """Copies choose among quantised values, whose order is that of the real ones."""
    rest = [tensors.operand(operand) for operand in node.input[1:]]
    known = attributes(node)
    is_plain = not any(isinstance(operand, Quantised | Uncomputed) for operand in rest)
    if not is_plain or (node.op_type == "MaxPool" and len(node.output) > 1):
        return None
    if node.op_type == "Pad" and len(rest) > 1 and rest[1] is not None:
        if rest[1].any():
            return None
        rest[1] = np.zeros(rest[1].shape, np.int64)
    if node.op_type == "Resize" and known.get("mode", b"nearest") != b"nearest":
        return None
    inner = integers(tensors, node.input[0], result)
    if inner is None:
        return None
    if node.op_type == "MaxPool":
        return window_maxima(inner, known["kernel_shape"], known)
    names = [output for output in node.output if output]
    return run_node(node, [inner, *rest], tensors.opsets)[names.index(name)].astype(np.int64)


def _joined(tensors: Tensors, node: onnx.NodeProto, result: Result) -> Array | None:
    """Concat of parts that are each quantised with the parameters of the result."""
    parts = [integers(tensors, name, result) for name in node.input]
    return None if any(part is None for part in parts) else np.concatenate(parts, axis=attributes(node)["axis"])


def _biased(tensors: Tensors, node: onnx.NodeProto, operands: list[Operand], result: Result) -> Sums | None:
    """A product by a constant and an Add of one constant number for each of its channels."""
    for at in (0, 1):
        product, bias = tensors.producers.get(node.input[at]), operands[1 - at]
        if product is None or product.op_type not in BIASED or tensors.readers[node.input[at]] > 1:
            continue
        is_bias = tensors.is_constant(node.input[1 - at]) and len(product.input) == 2
        if is_bias and tensors.is_constant(product.input[1]):
            factors = [tensors.operand(name) for name in product.input]
            return with_added_bias(product, factors, bias, result.scale)
    return None
