# SPDX-License-Identifier: Apache-2.0
"""Groups of nodes as one node: `vdla.Fused`, whose body is the graph of the group.

The body is closed and has the constants of its nodes: the inputs of the node are only computed
values and inputs of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.graph.attributes import declare_attributes
from vdla.compiler.graph.graph import Graph, Node

FUSED = "vdla.Fused"
BODY = "body"
declare_attributes(FUSED, {BODY: Graph})


def fused_node(graph: Graph, nodes: Sequence[Node], name: str = "") -> Node:
    """The node that stands for `nodes` of the graph, in their order."""
    inside = {value for node in nodes for value in node.outputs if value}
    read = dict.fromkeys(value for node in nodes for value in node.inputs if value and value not in inside)
    constants = {value: graph.constants[value] for value in read if value in graph.constants}
    inputs = tuple(value for value in read if value not in constants)
    outputs = tuple(value for node in nodes for value in node.outputs if value and _is_read(graph, value, nodes))
    types = {value: graph.types[value] for value in (*read, *inside)}
    label = name or "+".join(node.op for node in nodes)
    return Node(FUSED, inputs, outputs, {BODY: Graph(label, inputs, outputs, tuple(nodes), constants, types)}, label)


def _is_read(graph: Graph, value: str, nodes: Sequence[Node]) -> bool:
    """Whether a value is read outside of the group."""
    members = set(map(id, nodes))
    return value in graph.outputs or any(id(node) not in members for node in graph.consumers.get(value, ()))


def body_of(graph: Graph, node: Node) -> Graph:
    """The graph of a group; of any other node, the graph of that node alone."""
    if node.op == FUSED:
        return node.attributes[BODY]  # type: ignore[no-any-return]
    body: Graph = fused_node(graph, [node]).attributes[BODY]
    return body


def replace_groups(graph: Graph, groups: Sequence[Sequence[Node]]) -> Graph:
    """The graph with each group of two or more nodes as one node, in the place of its last node.

    No path may leave a group and return to it.
    """
    last = {id(group[-1]): group for group in groups if len(group) > 1}
    inner = {id(node) for group in groups if len(group) > 1 for node in group}
    nodes = []
    for node in graph.nodes:
        if id(node) in last:
            nodes.append(fused_node(graph, last[id(node)]))
        elif id(node) not in inner:
            nodes.append(node)
    return graph.replace(nodes=tuple(nodes))
