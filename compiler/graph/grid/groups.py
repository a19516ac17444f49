"""The nodes on a GPU as kernels: `vdla.Grid` nodes, each with the graph of its group as body.

Groups follow the same rules of fusion as those of a CPU, among the nodes of the GPU only.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.groups import FUSED, fused_node
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.passes import fuse

GRID = "vdla.Grid"


def group_for_grid(graph: Graph, on_grid: Set[str]) -> Graph:
    """The graph with the nodes of these first results fused, each group a node of the GPU."""

    def here(node: Node) -> bool:
        return node.outputs[0] in on_grid

    fused = fuse(graph, lambda node: here(node) and not has_trait(node.op, Trait.RESHAPE))
    return fused.replace(nodes=tuple(_on_grid(fused, node) if here(node) else node for node in fused.nodes))


def _on_grid(graph: Graph, node: Node) -> Node:
    group = node if node.op == FUSED else replace(fused_node(graph, [node]), name=node.name)
    return replace(group, op=GRID)
