# SPDX-License-Identifier: Apache-2.0
"""The integer arithmetic of each operator: from quantised operands to a sum and its scale.

`INTEGER` maps an operator to a function of (node, operands, scale of the result); None instead of
`Sums` says that the integer rule does not apply, and the operator is computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import onnx

from helpers.integer_evaluator.nodes import attributes
from helpers.integer_evaluator.quantised import Array, Quantised
from helpers.integer_evaluator.requantise import LARGEST_DENOMINATOR, float32, product_scale, residual_factors, scaled
from helpers.integer_evaluator.sums import (
    convolution,
    matrix_product,
    transposed_convolution,
    window_sums,
)
from helpers.integer_evaluator.windows import counts, window


@dataclass(frozen=True, slots=True)
class Uncomputed:
    """A float tensor that no integer rule needs."""


Operand = Quantised | Array | Uncomputed | None
"""A dequantised tensor, a known one of another kind, an unknown one, or an operand left out."""


@dataclass(frozen=True, slots=True)
class Sums:
    """result = clip(round(sums * scale) + zero point); `scale` float32 broadcasts."""

    sums: Array
    scale: Array

    @property
    def rounded(self) -> Array:
        """round(sums * scale)."""
        return scaled(self.sums, self.scale)


Rule = Callable[[onnx.NodeProto, Sequence[Operand], Array], Sums | None]
INTEGER: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers the rule of operators."""

    def register(function: Rule) -> Rule:
        INTEGER.update(dict.fromkeys(names, function))
        return function

    return register


# --- sums of products -----------------------------------------------------------------------------


@rule("Conv", "ConvTranspose")
def _convolution(node: onnx.NodeProto, operands: Sequence[Operand], sy: Array) -> Sums | None:
    x, w, *rest = operands
    axis = 0 if node.op_type == "Conv" else 1
    if not _is_per_tensor(x) or not _has_channels(w, axis):
        return None
    assert isinstance(x, Quantised) and isinstance(w, Quantised)
    known, rank = attributes(node), x.values.ndim - 2
    if node.op_type == "ConvTranspose" and known.get("group", 1) > 1 and w.scale.size > 1:
        return None  # a channel of the weights would stand for one result of each group
    compute = convolution if node.op_type == "Conv" else transposed_convolution
    total = compute(x.centred, w.centred, known)
    return _with_bias(total, x, w, rest[0] if rest else None, sy, (-1, *[1] * rank))


@rule("Gemm")
def _gemm(node: onnx.NodeProto, operands: Sequence[Operand], sy: Array) -> Sums | None:
    a, b, *rest = operands
    known = attributes(node)
    columns = 0 if known.get("transB", 0) else 1
    if known.get("alpha", 1.0) != 1.0 or known.get("beta", 1.0) != 1.0:
        return None
    if not _is_per_tensor(a) or not _has_channels(b, columns):
        return None
    assert isinstance(a, Quantised) and isinstance(b, Quantised)
    left = a.centred.T if known.get("transA", 0) else a.centred
    right = b.centred if columns else b.centred.T
    return _with_bias(matrix_product(left, right), a, b, rest[0] if rest else None, sy, (-1,))


@rule("MatMul")
def _matmul(node: onnx.NodeProto, operands: Sequence[Operand], sy: Array) -> Sums | None:
    return matmul_sums(*operands, sy)


def matmul_sums(a: Operand, b: Operand, sy: Array, bias: Operand = None) -> Sums | None:
    """MatMul of two or more dimensions, and a bias over the last of them."""
    if not _is_per_tensor(a) or not isinstance(b, Quantised) or not _has_channels(b, b.values.ndim - 1):
        return None
    assert isinstance(a, Quantised)
    return _with_bias(matrix_product(a.centred, b.centred), a, b, bias, sy, (-1,))


def with_added_bias(node: onnx.NodeProto, factors: Sequence[Operand], bias: Operand, sy: Array) -> Sums | None:
    """A product and a bias that an Add has; None where the bias is not one number a channel."""
    array = bias.values if isinstance(bias, Quantised) else bias
    weight = factors[1]
    if not isinstance(array, np.ndarray) or not isinstance(weight, Quantised):
        return None
    spatial = weight.values.ndim - 2 if node.op_type in ("Conv", "ConvTranspose") else 0
    if array.ndim > 0 and not _is_along(array.shape, array.ndim - spatial - 1):
        return None
    flat = (
        Quantised(bias.values.reshape(-1), bias.scale, bias.zero_point)
        if isinstance(bias, Quantised)
        else array.reshape(-1)
    )
    if node.op_type == "MatMul":
        return matmul_sums(*factors, sy, flat)
    return INTEGER[node.op_type](node, [*factors, flat], sy)


def _is_along(shape: tuple[int, ...], axis: int) -> bool:
    """Whether only one axis is longer than 1."""
    return axis >= 0 and all(extent == 1 for at, extent in enumerate(shape) if at != axis)


def _with_bias(
    total: Array, x: Quantised, w: Quantised, bias: Operand, sy: Array, shape: tuple[int, ...]
) -> Sums | None:
    """`shape`: in which a vector of channels broadcasts with the sums."""
    if isinstance(bias, Uncomputed):
        return None
    scale = float32(x.scale.reshape(-1) * w.scale.reshape(-1))
    if bias is not None:
        added = integer_bias(bias, scale)
        total = total + (added.reshape(shape) if added.ndim == 1 else added)
    return Sums(total, product_scale(x.scale.reshape(-1), w.scale.reshape(-1), sy).reshape(shape))


def integer_bias(bias: Quantised | Array, scale: Array) -> Array:
    """A bias as int32 of the scale of the sums, int64 here."""
    if isinstance(bias, Quantised):
        own = np.broadcast_to(bias.scale.reshape(-1), scale.shape) if bias.scale.size == 1 else bias.scale
        same = bias.values.dtype == np.int32 and not bias.zero_point.any() and np.array_equal(own, scale)
        if same:
            return bias.values.astype(np.int64)
    real = bias.real if isinstance(bias, Quantised) else bias
    return np.clip(np.rint(real.astype(np.float32) / scale).astype(np.float64), -(2**31), 2**31 - 1).astype(np.int64)


# --- sums of tensors and of windows ---------------------------------------------------------------


@rule("Add", "Sub")
def _add(node: onnx.NodeProto, operands: Sequence[Operand], sy: Array) -> Sums | None:
    a, b = operands
    if not _is_per_tensor(a) or not _is_per_tensor(b):
        return None
    assert isinstance(a, Quantised) and isinstance(b, Quantised)
    factor_a, factor_b, larger, denominator = residual_factors(a.scale.reshape(()), b.scale.reshape(()))
    total = a.centred * factor_a + b.centred * (factor_b if node.op_type == "Add" else -factor_b)
    return Sums(total, float32(larger / float32(sy * float32(denominator))))


@rule("Mul")
def _mul(node: onnx.NodeProto, operands: Sequence[Operand], sy: Array) -> Sums | None:
    a, b = operands
    if not _is_per_tensor(a) or not _is_per_tensor(b):
        return None
    assert isinstance(a, Quantised) and isinstance(b, Quantised)
    return Sums(a.centred * b.centred, product_scale(a.scale.reshape(()), b.scale.reshape(()), sy))


@rule("LeakyRelu")
def _leaky_relu(node: onnx.NodeProto, operands: Sequence[Operand], sy: Array) -> Sums | None:
    [x] = operands
    slope = Fraction(float(np.float32(attributes(node).get("alpha", 0.01))))
    if not _is_per_tensor(x) or not 0 <= slope <= 1:
        return None
    assert isinstance(x, Quantised)
    nearest = slope.limit_denominator(LARGEST_DENOMINATOR)
    total = np.where(x.centred > 0, x.centred * nearest.denominator, x.centred * nearest.numerator)
    return Sums(total, float32(x.scale.reshape(()) / float32(sy * float32(nearest.denominator))))


@rule("PRelu")
def _prelu(node: onnx.NodeProto, operands: Sequence[Operand], sy: Array) -> Sums | None:
    x, given = operands
    slope = given.real if isinstance(given, Quantised) else given
    if not _is_per_tensor(x) or not isinstance(slope, np.ndarray) or sum(n > 1 for n in slope.shape) > 1:
        return None
    assert isinstance(x, Quantised)
    parts = np.rint(slope.astype(np.float64) * 128).astype(np.int64)
    if x.values.ndim < 2 or np.abs(parts).max() >= 2**15:
        return None
    total = np.where(x.centred > 0, x.centred * 128, x.centred * parts)
    return Sums(total, float32(x.scale.reshape(()) / float32(sy * float32(128))))


@rule("AveragePool")
def _average_pool(node: onnx.NodeProto, operands: Sequence[Operand], sy: Array) -> Sums | None:
    [x] = operands
    if not _is_per_tensor(x):
        return None
    assert isinstance(x, Quantised)
    known = attributes(node)
    sizes, kernel = x.values.shape[2:], known["kernel_shape"]
    divisors = counts(sizes, window(sizes, kernel, known), bool(known.get("count_include_pad", 0)))
    return Sums(window_sums(x.centred, kernel, known), _average_scale(x, sy, divisors))


@rule("GlobalAveragePool", "ReduceMean")
def _global_average_pool(node: onnx.NodeProto, operands: Sequence[Operand], sy: Array) -> Sums | None:
    x, *given = operands
    if not _is_per_tensor(x):
        return None
    assert isinstance(x, Quantised)
    known, axes = attributes(node), tuple(range(2, x.values.ndim))
    if node.op_type == "ReduceMean":
        chosen = given[0] if given else known.get("axes")
        is_spatial = isinstance(chosen, np.ndarray | list) and {int(at) % x.values.ndim for at in chosen} == {*axes}
        if not axes or not is_spatial:
            return None
    count = np.array(x.values[0, 0].size)
    total = x.centred.sum(axis=axes, keepdims=bool(known.get("keepdims", 1)))
    return Sums(total, _average_scale(x, sy, count))


def _average_scale(x: Quantised, sy: Array, counted: Array) -> Array:
    return float32(_copy_scale(x, sy) / float32(counted))


# --- requantisation -------------------------------------------------------------------------------


def requantised(x: Quantised, sy: Array) -> Array | None:
    """The rounded values of a dequantised tensor in another scale."""
    return scaled(x.centred, _copy_scale(x, sy)) if x.is_per_tensor else None


def _copy_scale(x: Quantised, sy: Array) -> Array:
    return float32(x.scale.reshape(()) / sy)


# --- operands -------------------------------------------------------------------------------------


def _is_per_tensor(operand: Operand) -> bool:
    return isinstance(operand, Quantised) and operand.is_per_tensor


def _has_channels(operand: Operand, axis: int) -> bool:
    """Whether an operand has one scale, or a vector of them along `axis`."""
    return isinstance(operand, Quantised) and (operand.is_per_tensor or operand.axis % operand.values.ndim == axis)
