# SPDX-License-Identifier: Apache-2.0
"""Fusion by the paper's four classes (OSDI'18, section 3): groups of nodes become one kernel.

- an injective operator joins the injective operators that only it reads;
- a reduction joins the injective operators before it;
- element-wise operators join the complex-out-fusable operator whose result they transform;
- an opaque operator stays alone.

A group has one result, and only its own nodes read its intermediate values: no value is computed
twice, and no path leaves a group and returns to it.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler.graph.graph import Graph, Node, TensorType, ValueType
from vdla.compiler.graph.groups import replace_groups
from vdla.compiler.graph.operators import RECORDS, Trait, has_trait
from vdla.compiler.graph.rules.rule import FusionClass
from vdla.compiler.ir import DTYPES

_MOST_NODES = 24  # of a group: what a kernel's compile time allows

Fusible = Callable[[Node], bool]


def fuse(graph: Graph, fusible: Fusible = lambda node: True) -> Graph:
    """The graph with groups of `fusible` nodes fused."""
    grouping = _Grouping(graph, fusible)
    for node in graph.nodes:
        grouping.add(node)
    return replace_groups(graph, grouping.groups)


def fusion_class(graph: Graph, node: Node) -> FusionClass:
    """The class of a node; opaque if it has no rule, several results or no kernel."""
    record = RECORDS.get(node.op)
    values = [name for name in (*node.inputs, *node.outputs) if name]
    if record is None or len(node.outputs) != 1 or node.bodies:
        return FusionClass.OPAQUE
    return record.fusion if all(_has_kernels(graph.types[name]) for name in values) else FusionClass.OPAQUE


def _has_kernels(kind: ValueType) -> bool:
    """Whether kernels take values of a type: of known extents, with elements, no strings."""
    return isinstance(kind, TensorType) and kind.static and all(kind.extents) and kind.dtype in DTYPES


class _Grouping:
    """Groups of the nodes visited so far, to which later readers may be added."""

    def __init__(self, graph: Graph, fusible: Fusible) -> None:
        self.graph = graph
        self.kinds = {
            id(node): fusion_class(graph, node) if fusible(node) else FusionClass.OPAQUE for node in graph.nodes
        }
        self.group_of: dict[int, list[Node]] = {}
        self.order = {id(node): index for index, node in enumerate(graph.nodes)}

    @property
    def groups(self) -> list[list[Node]]:
        """The groups, their nodes in the graph's order."""
        groups = {id(group): group for group in self.group_of.values()}
        return [sorted(group, key=lambda node: self.order[id(node)]) for group in groups.values()]

    def add(self, node: Node) -> None:
        """A group for the node, joined with the groups before it that the classes allow."""
        group = [node]
        for before in self._before(node):
            if self._joins(before, group, node):
                group = [*before, *group]
        for member in group:
            self.group_of[id(member)] = group

    def _before(self, node: Node) -> list[list[Node]]:
        """The groups that compute inputs of the node, the latest first."""
        groups: dict[int, list[Node]] = {}
        producers = [self.graph.producers[name] for name in node.inputs if name in self.graph.producers]
        for producer in sorted(producers, key=lambda node: -self.order[id(node)]):
            group = self.group_of[id(producer)]
            groups[id(group)] = group
        return list(groups.values())

    def _joins(self, before: list[Node], group: list[Node], node: Node) -> bool:
        """Whether a producer group and the group of the node merge."""
        kind, first = self.kinds[id(node)], self._class(before)
        if FusionClass.OPAQUE in (kind, first) or len(before) + len(group) > _MOST_NODES:
            return False
        if kind is FusionClass.COMPLEX or first is FusionClass.REDUCTION:
            return False
        if first is FusionClass.COMPLEX and not self._transforms(before, group):
            return False
        return self._read_within(before, group)

    def _class(self, group: list[Node]) -> FusionClass:
        """The class of a group: that of its one node that is not injective."""
        kinds = (self.kinds[id(node)] for node in group)
        return next((kind for kind in kinds if kind is not FusionClass.INJECTIVE), FusionClass.INJECTIVE)

    def _transforms(self, before: list[Node], group: list[Node]) -> bool:
        """Whether a group maps the result of a complex operator element by element."""
        if self._class(group) is not FusionClass.INJECTIVE:
            return False
        shape = self.graph.tensor(before[-1].outputs[0]).shape
        return all(
            self.graph.tensor(node.outputs[0]).shape == shape and has_trait(node.op, Trait.ELEMENTWISE)
            for node in group
        )

    def _read_within(self, before: list[Node], group: list[Node]) -> bool:
        """Whether only the two groups read the results of the producer group."""
        members = {id(node) for node in (*before, *group)}
        values = [name for node in before for name in node.outputs]
        if any(name in self.graph.outputs for name in values):
            return False
        return all(id(reader) in members for name in values for reader in self.graph.consumers.get(name, ()))
