"""Element-wise nodes that compute a function of one value: GELU, written as five nodes, is one."""

from __future__ import annotations

from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.operators import Trait, has_trait


def functions_of_one_value(graph: Graph) -> frozenset[int]:
    """The identities of nodes whose operands are one value, functions of it, and scalars.

    Relu and Clip are left out: they become bounds of other results.
    """
    sources: dict[str, str] = {}
    found = set()
    for node in graph.nodes:
        operands = {sources.get(name, name) for name in node.inputs if name and not _is_scalar(graph, name)}
        if not has_trait(node.op, Trait.FUNCTION) or len(operands) != 1:
            continue
        sources[node.outputs[0]] = operands.pop()
        if not has_trait(node.op, Trait.BOUND):
            found.add(id(node))
    return frozenset(found)


def _is_scalar(graph: Graph, name: str) -> bool:
    value = graph.constant(name)
    return value is not None and value.size == 1
