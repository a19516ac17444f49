# SPDX-License-Identifier: Apache-2.0
"""Additions, products and rescalings of quantised values, element by element."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import Node
from vdla.compiler.graph.integer.affine import activation, decline, multipliers
from vdla.compiler.graph.integer.products import fuse_biased
from vdla.compiler.graph.integer.result import QuantisedResult, sole
from vdla.compiler.graph.rewriting import Replacement
from vdla.hardware.factors import residual_factors, slope_factors


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
