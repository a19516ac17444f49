# SPDX-License-Identifier: Apache-2.0
"""The pass that writes layers as quantisation knows them, as exporters of JAX do not.

    Gemm(a, b, c, beta=0)  ->  Gemm(a, b)
    Max(x, 0)              ->  Relu(x)

A product that is an Einsum stays one, and float where a network is quantised: rounded to int8 it
costs 2 to 3 dB of the outputs of a transformer, as ONNX Runtime, which leaves it out, does not.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.rewriting import Replacement, rewrite, without_dead_code


def plain_layers(graph: Graph) -> Graph:
    """The graph after all rules of this module."""
    return without_dead_code(rewrite(graph, (_gemm, _relu)))


def _gemm(graph: Graph, node: Node) -> Replacement | None:
    """A bias without effect; the product keeps it where it may be infinite."""
    if node.op != "Gemm" or len(node.inputs) < 3 or not node.inputs[2]:
        return None
    bias = graph.constant(node.inputs[2])
    silent = float(node.attributes.get("beta", 1.0)) == 0 or (bias is not None and not bias.any())
    if not silent or bias is None or not np.isfinite(bias).all():
        return None
    attributes = {name: value for name, value in node.attributes.items() if name != "beta"}
    return Replacement((Node("Gemm", node.inputs[:2], node.outputs, attributes, node.name),))


def _relu(graph: Graph, node: Node) -> Replacement | None:
    if node.op != "Max" or len(node.inputs) != 2 or not _is_float(graph, node.outputs[0]):
        return None
    for x, limit in (node.inputs, node.inputs[::-1]):
        value = graph.constant(limit)
        if value is not None and value.size == 1 and not value.any() and graph.types[x] == graph.types[node.outputs[0]]:
            return Replacement((Node("Relu", (x,), node.outputs, {}, node.name),))
    return None


def _is_float(graph: Graph, name: str) -> bool:
    kind = graph.types.get(name)
    return isinstance(kind, TensorType) and kind.dtype in ("float32", "float64")
