# SPDX-License-Identifier: Apache-2.0
"""QLinear operators of ONNX: operands, scales and zero points as inputs of one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from helpers.integer_evaluator.nodes import attributes
from helpers.integer_evaluator.operators import Sums, matmul_sums
from helpers.integer_evaluator.quantised import Array, Quantised, limits
from helpers.integer_evaluator.requantise import product_scale
from helpers.integer_evaluator.sums import convolution


def _operand(values: Array, scale: Array, zero_point: Array, axis: int = 0) -> Quantised:
    return Quantised(values, scale, zero_point.astype(np.int64), axis)


def _result(sums: Sums, zero_point: Array) -> Array:
    zero = zero_point.reshape(()).astype(np.int64)
    return np.clip(sums.rounded + zero, *limits(zero_point.dtype)).astype(zero_point.dtype)


def _convolution(node: onnx.NodeProto, operands: Sequence[Array | None]) -> Array:
    x, sx, zx, w, sw, zw, sy, zy, *rest = operands
    inputs, weight = _operand(x, sx, zx), _operand(w, sw, zw)
    total = convolution(inputs.centred, weight.centred, attributes(node))
    channels = (-1, *[1] * (x.ndim - 2))
    if rest and rest[0] is not None:
        total = total + rest[0].astype(np.int64).reshape(channels)
    scale = product_scale(sx.reshape(-1), sw.reshape(-1), sy.reshape(-1))
    return _result(Sums(total, scale.reshape(channels)), zy)


def _matmul(node: onnx.NodeProto, operands: Sequence[Array | None]) -> Array:
    a, sa, za, b, sb, zb, sy, zy = operands
    sums = matmul_sums(_operand(a, sa, za), _operand(b, sb, zb, b.ndim - 1), sy.reshape(()))
    assert sums is not None, "QLinearMatMul: the scale of the first operand must be a scalar"
    return _result(sums, zy)


QLINEAR: dict[str, Callable[[onnx.NodeProto, Sequence[Array | None]], Array]] = {
    "QLinearConv": _convolution,
    "QLinearMatMul": _matmul,
}
