# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation, folded into the product before it, else into a scale and a shift.

The factors are computed in float64, so that a folded network differs from the original by rounding
of its weights only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite


def fold_batch_norm(graph: Graph) -> Graph:
    """The graph without BatchNormalization by constants.

    Constants of each channel that are added to the results of convolutions, or multiply them,
    become parts of weights and biases.
    """
    return rewrite(graph, (_fold, _fold_affine))


def _fold(graph: Graph, node: Node) -> Replacement | None:
    """Fold a normalisation by constant statistics."""
    if node.op != "BatchNormalization" or any(node.outputs[1:]) or node.attribute("training_mode"):
        return None
    numbers = [graph.constant(name) for name in node.inputs[1:5]]
    if any(value is None for value in numbers):
        return None
    scale, bias, mean, variance = (np.asarray(value, np.float64) for value in numbers)
    with np.errstate(all="ignore"):  # a variance below 0 makes NaN here as in the operator
        return _folded(graph, node, scale / np.sqrt(variance + np.float64(node.attribute("epsilon"))), bias, mean)


def _folded(graph: Graph, node: Node, factor: Array, bias: Array, mean: Array) -> Replacement | None:
    """A product with these factors in its weight, or products and sums of constants."""
    shift = bias - mean * factor
    product = graph.producers.get(node.inputs[0])
    if product is not None and has_trait(product.op, Trait.BIASED) and graph.readers(node.inputs[0]) == 1:
        folded = _into_product(graph, node, product, factor, shift)
        if folded is not None:
            return folded
    return _as_scale(graph, node, factor, shift)


def _into_product(graph: Graph, node: Node, product: Node, factor: Array, shift: Array) -> Replacement | None:
    """The product with scaled weights and another bias."""
    weight = graph.constant(product.inputs[1])
    name = product.inputs[2] if len(product.inputs) > 2 else ""
    bias = graph.constant(name) if name else np.zeros(len(factor))
    if weight is None or bias is None or (product.op == "Gemm" and _scales_bias(product)):
        return None
    moved = np.broadcast_to(bias, (len(factor),)) * factor + shift
    return _with_constants(graph, node, product, (_scaled(product, weight, factor), moved))


def _scales_bias(gemm: Node) -> bool:
    return float(gemm.attribute("beta")) != 1.0 or float(gemm.attribute("alpha")) != 1.0


def _scaled(product: Node, weight: Array, factor: Array) -> Array:
    """A weight times a factor for each output channel."""
    ones = (1,) * (weight.ndim - 2)
    match product.op:
        case "Conv":
            return weight * factor.reshape(-1, 1, *ones)
        case "Gemm":
            return weight * factor.reshape((-1, 1) if product.attribute("transB") else (1, -1))
        case _:  # the weight of a transposed convolution is [inputs, outputs of a group, ...]
            groups = int(product.attribute("group"))
            grouped = weight.reshape(groups, -1, *weight.shape[1:]) * factor.reshape(groups, 1, -1, *ones)
            return np.asarray(grouped.reshape(weight.shape))


def _with_constants(graph: Graph, node: Node, product: Node, values: tuple[Array, Array]) -> Replacement | None:
    """The product with another weight and bias, computing the result of the node after it."""
    dtype = graph.tensor(node.outputs[0]).dtype
    names = [fresh_name(graph, f"{node.outputs[0]}_{part}") for part in ("weight", "bias")]
    constants = {name: np.asarray(value).astype(dtype) for name, value in zip(names, values, strict=True)}
    return Replacement(
        nodes=(replace(product, inputs=(product.inputs[0], *names), outputs=node.outputs[:1]),),
        constants=constants,
        types={name: TensorType(dtype, value.shape) for name, value in constants.items()},
        matched=(product,),
    )


def _as_scale(graph: Graph, node: Node, factor: Array, shift: Array) -> Replacement | None:
    """A normalisation on its own: x * factor + shift."""
    kind = graph.tensor(node.outputs[0])
    if kind.shape is None:
        return None
    shape = (len(factor), *(1,) * (len(kind.shape) - 2))
    base = node.outputs[0]
    product, scale, added = (fresh_name(graph, f"{base}_{part}") for part in ("product", "scale", "shift"))
    constants = {scale: factor.reshape(shape).astype(kind.dtype), added: shift.reshape(shape).astype(kind.dtype)}
    return Replacement(
        nodes=(
            Node("Mul", (node.inputs[0], scale), (product,), {}, node.name),
            Node("Add", (product, added), (base,), {}, node.name),
        ),
        constants=constants,
        types={product: kind, **{name: TensorType(kind.dtype, shape) for name in constants}},
    )


_AFFINE = ("Add", "Sub", "Mul", "Div")


def _fold_affine(graph: Graph, node: Node) -> Replacement | None:
    """A constant of each channel that is added to, or multiplies, a convolution's result goes into
    its weight and bias: a batch normalisation may be written so.
    """
    if node.op not in _AFFINE:
        return None
    for product_side, constant_side in ((0, 1), (1, 0)) if node.op != "Div" else ((0, 1),):
        product, value = graph.producers.get(node.inputs[product_side]), graph.constant(node.inputs[constant_side])
        if product is None or value is None or product.op not in ("Conv", "ConvTranspose"):
            continue
        kind = graph.tensor(node.outputs[0])
        if graph.readers(product.outputs[0]) > 1 or kind != graph.types[product.outputs[0]]:
            continue
        if kind.shape is None or not isinstance(kind.shape[1], int):
            continue
        constant = _per_channel(value, kind.shape[1], len(kind.shape))
        if constant is None:
            continue
        with np.errstate(all="ignore"):
            factor, shift = _factor_and_shift(node.op, constant.astype(np.float64), product_side)
            folded = _into_product(graph, node, product, factor, shift)
        if folded is not None and all(np.isfinite(array).all() for array in folded.constants.values()):
            return folded
    return None


def _factor_and_shift(op: str, value: Array, side: int) -> tuple[Array, Array]:
    """(a, b) of a * x + b, where x is the operand at `side`."""
    ones, zeros = np.ones_like(value), np.zeros_like(value)
    match op:
        case "Mul":
            return value, zeros
        case "Div":
            return 1 / value, zeros
        case "Sub":
            return (-ones, value) if side else (ones, -value)
    return ones, value


def _per_channel(value: Array, channels: int, rank: int) -> Array | None:
    """A broadcast constant as one number a channel; None if it varies along another axis."""
    padded = value.reshape((1,) * (rank - value.ndim) + value.shape)
    if any(extent != 1 for axis, extent in enumerate(padded.shape) if axis != 1):
        return None
    return np.broadcast_to(padded.reshape(-1), (channels,))
