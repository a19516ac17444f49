"""Multiply-accumulates of nodes, by their definition: padding and zeros count."""

from __future__ import annotations

from math import prod

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.groups import BODY

_CONVOLUTIONS = ("Conv", "ConvInteger", "QLinearConv", "vdla.BlockedConv", "vdla.BlockedQConv", "vdla.QConv")
_TRANSPOSED = ("ConvTranspose", "vdla.BlockedQConvTranspose", "vdla.QConvTranspose")
_PRODUCTS = ("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul", "vdla.QDense", "vdla.QMatMul")
_WEIGHT_OF = {"QLinearConv": 3, "QLinearMatMul": 3}


def macs_of(graph: Graph, node: Node) -> int:
    """The multiply-accumulates of a convolution or product, or of all those of a group; else 0."""
    body = node.attributes.get(BODY)
    if isinstance(body, Graph):
        return sum(macs_of(body, inner) for inner in body.nodes)
    if node.op not in (*_CONVOLUTIONS, *_TRANSPOSED, *_PRODUCTS):
        return 0
    x, weight, result = (_extents(graph, name) for name in (node.inputs[0], _weight(node), node.outputs[0]))
    if not x or not weight or not result:
        return 0
    if node.op in (*_CONVOLUTIONS, *_TRANSPOSED):
        image = result if node.op in _CONVOLUTIONS else x
        return image[0] * prod(image[2 : len(weight)]) * prod(weight)  # padding channels of blocks do not count
    inner = x[-2] if node.attributes.get("transA", 0) and len(x) > 1 else x[-1]
    return prod(result) * inner


def _weight(node: Node) -> str:
    return node.inputs[_WEIGHT_OF.get(node.op, 1)]


def _extents(graph: Graph, name: str) -> tuple[int, ...]:
    kind = graph.types.get(name)
    return kind.extents if isinstance(kind, TensorType) and kind.static else ()
