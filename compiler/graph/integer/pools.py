# SPDX-License-Identifier: Apache-2.0
"""Pools of quantised values: a maximum or a sum, and one requantisation."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.integer.affine import activation, decline, multipliers
from vdla.compiler.graph.integer.result import QuantisedResult, sole
from vdla.compiler.graph.integer.windows import overhangs, pool_options
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite

_MOST_ELEMENTS = 1 << 20  # of an average: the sums stay below 2**29
_IDENTITY = {"x_zero_point": 0, "y_zero_point": 0, "low": -128, "high": 127}
_EXACT_ONE = {"multiplier": np.array([1 << 23]), "shift": np.array([23])}


def fuse_average_pool(result: QuantisedResult, node: Node) -> Replacement:
    """vdla.QAveragePool: a sum; the multiplier is divided by the number of elements."""
    graph = result.graph
    sole(graph, node)
    counted = int(node.attribute("count_include_pad")) if node.op == "AveragePool" else 0
    if counted and overhangs(graph, node):
        decline("have windows within the padded input, since padding counts")
    x, options = activation(graph, node.inputs[0]), pool_options(graph, node)
    if prod(options["kernel_shape"]) > _MOST_ELEMENTS:
        decline(f"average at most {_MOST_ELEMENTS} elements, got {prod(options['kernel_shape'])}")
    attributes = {
        **options,
        "count_include_pad": counted,
        "x_zero_point": x.zero_point,
        **multipliers(result.from_scale(x.scale)),
    }
    return result.becomes("vdla.QAveragePool", (x.name,), attributes, (node,))


def fuse_reduce_mean(result: QuantisedResult, node: Node) -> Replacement:
    """vdla.QAveragePool over whole images; without `keepdims`, reshaped afterwards."""
    graph = result.graph
    shape = graph.tensor(node.inputs[0]).shape
    rank = len(shape or ())
    if not is_spatial_mean(graph, node):
        decline("average over the spatial dimensions of a batch of images")
    pooled = fuse_average_pool(result, node)
    if node.attribute("keepdims"):
        return pooled
    kind = graph.tensor(result.name)
    name = fresh_name(graph, f"{result.name}_pooled")
    full = replace(kind, shape=(*(shape or ())[:2], *(1,) * (rank - 2)))
    *_, pool = pooled.nodes
    nodes = (replace(pool, outputs=(name,)), Node("Flatten", (name,), (result.name,), {"axis": 1}, node.name))
    return replace(pooled, nodes=nodes, types={**pooled.types, name: full})


def is_spatial_mean(graph: Graph, node: Node) -> bool:
    """Whether a ReduceMean is a global average pool."""
    axes = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    rank = len(graph.tensor(node.inputs[0]).shape or ())
    if node.op != "ReduceMean" or axes is None or rank < 3:
        return False
    return sorted(int(axis) % rank for axis in axes.reshape(-1)) == list(range(2, rank))


def fuse_max_pools(graph: Graph) -> Graph:
    """The graph with vdla.QMaxPool for MaxPool of int8, fused with a following rescaling."""
    return rewrite(rewrite(graph, (_max_pool,)), (_rescaled_pool,))


def _max_pool(graph: Graph, node: Node) -> Replacement | None:
    if (
        node.op not in ("MaxPool", "GlobalMaxPool")
        or graph.tensor(node.inputs[0]).dtype != "int8"
        or any(node.outputs[1:])
    ):
        return None
    kind = graph.tensor(node.inputs[0])
    if kind.shape is None or not all(isinstance(extent, int) for extent in kind.shape[2:]):
        return None
    attributes = {**pool_options(graph, node), **_EXACT_ONE, **_IDENTITY}
    return Replacement((Node("vdla.QMaxPool", node.inputs[:1], node.outputs[:1], attributes, node.name),))


def _rescaled_pool(graph: Graph, node: Node) -> Replacement | None:
    pool = graph.producers.get(node.inputs[0]) if node.op == "vdla.QRescale" else None
    if pool is None or pool.op != "vdla.QMaxPool" or graph.readers(node.inputs[0]) != 1:
        return None
    attributes = {**pool.attributes, **node.attributes}
    return Replacement((replace(pool, outputs=node.outputs, attributes=attributes),), matched=(pool,))
