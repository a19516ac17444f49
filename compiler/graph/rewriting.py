# SPDX-License-Identifier: Apache-2.0
"""Local rewrites of a graph: a rule replaces one node, looking at the nodes around it.

Rules are applied in sweeps until nothing changes. In one sweep, no node takes part in two
replacements, so that a rule always sees the graph as it was at the beginning of the sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vdla.compiler.graph.graph import Array, Graph, Node, ValueType


@dataclass(frozen=True, eq=False)
class Replacement:
    """What takes the place of a node.

    `renamed` maps results of the node to the values that take their place. `matched` are the other
    nodes of the pattern; unused ones are removed as dead code.
    """

    nodes: tuple[Node, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    types: Mapping[str, ValueType] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    matched: tuple[Node, ...] = ()


RewriteRule = Callable[[Graph, Node], Replacement | None]


def rewrite(graph: Graph, rules: Sequence[RewriteRule]) -> Graph:
    """The graph after all rules, and without dead code; bodies of nodes stay as they are."""
    while True:
        changed = _sweep(graph, rules)
        if changed is graph:
            return graph
        graph = without_dead_code(changed)


def without_dead_code(graph: Graph) -> Graph:
    """The graph without dead nodes; unused results of live nodes become absent."""
    used = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if used.isdisjoint(filter(None, node.outputs)):
            continue
        used.update(filter(None, node.inputs))
        kept.append(node)
    if len(kept) == len(graph.nodes):
        return graph
    return graph.replace(nodes=tuple(reversed(kept)))


def fresh_name(graph: Graph, base: str) -> str:
    """A name beginning with `base` that no value of the graph has."""
    return unused_name(graph.types, base)


def unused_name(names: Collection[str], base: str) -> str:
    """A name beginning with `base` that is none of `names`."""
    if base not in names:
        return base
    return next(name for i in range(1, len(names) + 2) if (name := f"{base}_{i}") not in names)


def _sweep(graph: Graph, rules: Sequence[RewriteRule]) -> Graph:
    """The graph after at most one replacement of each node; the same object if there is none."""
    nodes: list[Node] = []
    constants, types = dict(graph.constants), dict(graph.types)
    renamed: dict[str, str] = {}
    touched: set[int] = set()
    for node in graph.nodes:
        replacement = None if id(node) in touched else _first(graph, node, rules, touched)
        if replacement is None:
            nodes.append(node)
            continue
        touched.update(map(id, (node, *replacement.matched)))
        nodes.extend(replacement.nodes)
        constants.update(replacement.constants)
        types.update(replacement.types)
        renamed.update(replacement.renamed)
    if not touched:
        return graph
    return _rename(replace(graph, nodes=tuple(nodes), constants=constants, types=types), renamed).pruned


def _first(graph: Graph, node: Node, rules: Sequence[RewriteRule], touched: set[int]) -> Replacement | None:
    for rule in rules:
        replacement = rule(graph, node)
        if replacement is not None and touched.isdisjoint(map(id, replacement.matched)):
            return replacement
    return None


def _rename(graph: Graph, renamed: Mapping[str, str]) -> Graph:
    """The graph with values renamed where they are read; an output keeps its name by a copy.

    A replacing value may have had no reader before.
    """
    if not renamed:
        return graph

    def final(name: str) -> str:
        while name in renamed:
            name = renamed[name]
        return name

    nodes = [replace(node, inputs=tuple(map(final, node.inputs))) for node in graph.nodes]
    copied = dict.fromkeys(name for name in graph.outputs if name in renamed)
    copies = [Node("Identity", (final(name),), (name,)) for name in copied]
    return replace(graph, nodes=(*nodes, *copies))
