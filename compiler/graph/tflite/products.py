# SPDX-License-Identifier: Apache-2.0
"""Dense layers and matrix products."""

from __future__ import annotations

from math import prod

import numpy as np

from vdla.compiler.graph.graph import TensorType
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import activated, check_float, float_weight
from vdla.compiler.graph.tflite.weights import product_factors, quantised_bias, quantised_weight
from vdla.hardware.fixed_point import fixed_point

_MATRIX = 2


def fully_connected(at: OperatorContext) -> None:
    """FULLY_CONNECTED: rows times a weight [outputs, depth]."""
    if at.option("WeightsFormat"):
        decline(f"have weights in the default format, got number {at.option('WeightsFormat')}")
    shape = at.tensor(1).shape
    if len(shape) != _MATRIX or 0 in shape:
        decline(f"have a weight of two dimensions, got {list(shape)}")
    outputs, depth = shape
    x = at.read(0)
    kind = at.builder.type_of(x)
    if prod(kind.extents) % depth:
        decline(f"read rows of {depth}, got {list(kind.extents)}")
    rows = at.builder.reshape(x, (prod(kind.extents) // depth, depth))
    result = TensorType(at.output.dtype, (at.builder.type_of(rows).extents[0], outputs))
    made = _quantised(at, rows, outputs, result) if at.is_quantised else _float(at, rows, outputs, result)
    keeps = at.option("KeepNumDims") and len(kind.extents) > 1
    at.define(at.builder.reshape(made, (*kind.extents[:-1], outputs) if keeps else result.extents))


def _quantised(at: OperatorContext, rows: str, outputs: int, result: TensorType) -> str:
    values, bias = quantised_weight(at, 1, 0), quantised_bias(at, 2, outputs)
    factors = product_factors(at, 0, 1, outputs)
    attributes = {"x_zero_point": at.affine(0).zero_point, **at.rescaled(factors)}
    attributes["fixed_point"] = fixed_point(factors, once=True)
    operands = [at.builder.constant(v, f"{at.builder.label}_{n}") for v, n in ((values, "weight"), (bias, "bias"))]
    return at.add("vdla.QDense", [rows, *operands], attributes, result)


def _float(at: OperatorContext, rows: str, outputs: int, result: TensorType) -> str:
    check_float(at)
    if at.tensor(1).data is None:
        weight = at.read(1)
    else:
        weight = at.builder.constant(float_weight(at.tensor(1)), f"{at.builder.label}_weight")
    operands = [rows, weight]
    if at.has(2):
        bias = float_weight(at.tensor(2)).reshape(-1)
        if bias.size != outputs:
            decline(f"have a bias of {outputs}, got {bias.size}")
        operands.append(at.builder.constant(bias, f"{at.builder.label}_bias"))
    return activated(at, at.add("Gemm", operands, {"transB": 1}, result))


def batch_matmul(at: OperatorContext) -> None:
    """BATCH_MATMUL: products of the last two dimensions, each perhaps transposed."""
    names = [at.read(0), at.read(1)]
    for position, option in enumerate(("AdjX", "AdjY")):
        if at.option(option):
            rank = len(at.builder.type_of(names[position]).extents)
            if rank < _MATRIX:
                decline("have matrices")
            names[position] = at.builder.moved(names[position], (*range(rank - 2), rank - 1, rank - 2))
    kinds = [at.builder.type_of(name) for name in names]
    shape = _product_shape(*(kind.extents for kind in kinds))
    if not at.is_quantised:
        check_float(at, 0, 1)
        at.define(at.add("MatMul", names, {}, TensorType("float32", shape)))
        return
    a, b = at.affine(0), at.affine(1)
    factor = float(a.scale * b.scale) / at.result.wide
    zeros = {"a_zero_point": a.zero_point, "b_zero_point": b.zero_point}
    at.define(at.add("vdla.QMatMul", names, {**zeros, **at.rescaled(factor)}, TensorType("int8", shape)))


def _product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    if min(len(a), len(b)) < _MATRIX or a[-1] != b[-2]:
        decline(f"multiply matrices that fit each other, got {list(a)} and {list(b)}")
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        decline(f"multiply batches that fit each other, got {list(a)} and {list(b)}")
    return (*batch, a[-2], b[-1])
