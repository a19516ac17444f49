"""Nodes whose result is the memory of their input under another shape: they take no step."""

from __future__ import annotations

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.operators.record import Trait
from vdla.compiler.graph.operators.table import has_trait


def is_alias(graph: Graph, node: Node) -> bool:
    """Whether a node only gives the memory of a value another shape."""
    if not has_trait(node.op, Trait.RESHAPE) or node.inputs[0] in graph.constants or node.outputs[0] in graph.outputs:
        return False
    kinds = [graph.types[name] for name in (node.inputs[0], node.outputs[0])]
    return all(isinstance(kind, TensorType) and kind.static and kind.dtype != "str" for kind in kinds)


def alias_sources(graph: Graph) -> dict[str, str]:
    """For each value that is an alias, the value whose memory it is."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        if is_alias(graph, node):
            found[node.outputs[0]] = found.get(node.inputs[0], node.inputs[0])
    return found
