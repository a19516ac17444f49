# SPDX-License-Identifier: Apache-2.0
"""Additions, products and rescalings of quantised values, element by element."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import activation, decline, multipliers, parameters
from vdla.compiler.graph.integer.products import fuse_biased
from vdla.compiler.graph.integer.result import QuantisedResult, sole
from vdla.compiler.graph.rewriting import Replacement, fresh_name
from vdla.hardware.factors import UNIT_SLOPE, over, residual_factors, slope_factors


def fuse_add(result: QuantisedResult, node: Node) -> Replacement:
    """vdla.QAdd of two activations, or a product with a bias."""
    biased = fuse_biased(result, node)
    return biased if biased is not None else _sum(result, node, 1)


def fuse_sub(result: QuantisedResult, node: Node) -> Replacement:
    """vdla.QAdd with a negative second factor."""
    return _sum(result, node, -1)


def _sum(result: QuantisedResult, node: Node, sign: int) -> Replacement:
    """first * a + second * b in the scale of the greater one over its factor."""
    graph = result.graph
    sole(graph, node)
    a, b = (activation(graph, name) for name in node.inputs)
    (first, second), factor = residual_factors(a.scale, b.scale, result.scale)
    attributes = {
        "factors": (first, sign * second),
        "a_zero_point": a.zero_point,
        "b_zero_point": b.zero_point,
        **multipliers(factor),
    }
    return result.becomes("vdla.QAdd", (a.name, b.name), attributes, (node,))


def fuse_mul(result: QuantisedResult, node: Node) -> Replacement:
    """vdla.QMul of two activations."""
    graph = result.graph
    sole(graph, node)
    a, b = (activation(graph, name) for name in node.inputs)
    attributes = {
        "a_zero_point": a.zero_point,
        "b_zero_point": b.zero_point,
        **multipliers(result.from_scale(a.scale * b.scale)),
    }
    return result.becomes("vdla.QMul", (a.name, b.name), attributes, (node,))


def fuse_rescale(result: QuantisedResult, node: Node) -> Replacement:
    """vdla.QRescale: an activation in another scale, perhaps clipped."""
    x = activation(result.graph, result.value)
    attributes = {"x_zero_point": x.zero_point, **multipliers(result.from_scale(x.scale))}
    return result.becomes("vdla.QRescale", (x.name,), attributes, ())


def fuse_leaky_relu(result: QuantisedResult, node: Node) -> Replacement:
    """vdla.QLeakyRelu: the slope as a ratio of integers."""
    graph = result.graph
    sole(graph, node)
    x, slope = activation(graph, node.inputs[0]), float(np.float32(node.attribute("alpha")))
    if not 0 <= slope <= 1:
        decline(f"have a slope from 0 to 1, got {slope:g}")
    factors, factor = slope_factors(slope, x.scale, result.scale)
    attributes = {
        "factors": factors,
        "x_zero_point": x.zero_point,
        **multipliers(factor),
    }
    return result.becomes("vdla.QLeakyRelu", (x.name,), attributes, (node,))


def fuse_prelu(result: QuantisedResult, node: Node) -> Replacement:
    """vdla.QPRelu: the slope of each channel in parts of 128, int8 if all fit, else int16.

    The slopes have the shape [C, 1, ...] and broadcast to the activation.
    """
    graph = result.graph
    sole(graph, node)
    x, slope = activation(graph, node.inputs[0]), _slopes(graph, node)
    parts = np.rint(slope.astype(np.float64) * UNIT_SLOPE)
    if not np.abs(parts).max(initial=0) < _MOST_PARTS:
        decline(f"have slopes within {_MOST_PARTS // UNIT_SLOPE}, got {np.abs(slope).max():g}")
    fits = parts.min(initial=0) >= -128 and parts.max(initial=0) <= 127
    name, values = fresh_name(graph, f"{result.name}_slope"), parts.astype(np.int8 if fits else np.int16)
    attributes = {"x_zero_point": x.zero_point, **multipliers(over(x.scale, result.scale, UNIT_SLOPE))}
    made = Replacement((), {name: values}, {name: TensorType(values.dtype.name, values.shape)})
    return result.becomes("vdla.QPRelu", (x.name, name), attributes, (node,), made)


_MOST_PARTS = 1 << 15


def _slopes(graph: Graph, node: Node) -> Array:
    """The slopes of the channels, [C, 1, ...]; one slope for all is that of each channel."""
    source = graph.producers.get(node.inputs[1])
    slope = graph.constant(node.inputs[1])
    if slope is None and source is not None and source.op == "DequantizeLinear":
        slope = _dequantised(graph, source)
    shape = graph.tensor(node.inputs[0]).shape
    if slope is None or slope.dtype != np.float32 or not np.isfinite(slope).all():
        decline(f"have constant slopes, got {node.inputs[1]}")
    if shape is None or len(shape) < 2:
        decline(f"have a batch and channels, got {shape}")
    full = slope.reshape((1,) * (len(shape) - slope.ndim) + slope.shape)
    axes = [axis for axis, extent in enumerate(full.shape) if extent > 1]
    if len(axes) > 1:
        decline(f"have slopes along one dimension, got {list(slope.shape)}")
    axis = axes[0] if axes else 1
    count = shape[axis]
    if not isinstance(count, int):
        decline("have a known number of channels")
    return np.broadcast_to(slope.reshape(-1), (count,)).reshape(count, *(1,) * (len(shape) - axis - 1))


def _dequantised(graph: Graph, node: Node) -> Array | None:
    """The constant that a DequantizeLinear of one scale, or of scales of a dimension, computes."""
    values, given = graph.constant(node.inputs[0]), parameters(graph, node)
    if values is None or given is None:
        return None
    sides = [1] * values.ndim
    if not given.per_tensor:
        sides[given.axis] = -1
    scale, zero_point = (
        (given.scale.reshape(sides), given.zero_point.reshape(sides))
        if values.ndim
        else (given.scale[0], given.zero_point[0])
    )
    return np.asarray((values.astype(np.int64) - zero_point).astype(np.float32) * scale, np.float32)
