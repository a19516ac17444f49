# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulates of nodes, by their definition: padding and zeros count."""

from __future__ import annotations

from math import prod

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.groups import BODY
from vdla.compiler.graph.operators.record import Trait
from vdla.compiler.graph.operators.table import RECORDS


def macs_of(graph: Graph, node: Node) -> int:
    """The multiply-accumulates of a product, or of all products of a group; else 0."""
    body = node.attributes.get(BODY)
    if isinstance(body, Graph):
        return sum(macs_of(body, inner) for inner in body.nodes)
    record = RECORDS.get(node.op)
    if record is None or not record.has(Trait.PRODUCT):
        return 0
    names = (node.inputs[0], node.inputs[record.weight], node.outputs[0])
    x, weight, result = (_extents(graph, name) for name in names)
    if not x or not weight or not result:
        return 0
    if not record.has(Trait.MATRIX_PRODUCT):
        image = result if record.has(Trait.CONVOLUTION) else x
        return image[0] * prod(image[2:]) * prod(weight)
    inner = x[-2] if node.attribute("transA") and len(x) > 1 else x[-1]
    return prod(result) * inner


def _extents(graph: Graph, name: str) -> tuple[int, ...]:
    kind = graph.types.get(name)
    return kind.extents if isinstance(kind, TensorType) and kind.static else ()
