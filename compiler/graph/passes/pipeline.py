# SPDX-License-Identifier: Apache-2.0
"""Passes in a row: functions from graph to graph, with the rules of a graph checked in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vdla.compiler.graph.check import check_graph
from vdla.compiler.graph.graph import Graph, TensorType

Observer = Callable[[str, Graph, Graph], None]


@dataclass(frozen=True, slots=True)
class GraphPass:
    """A named function from graph to graph."""

    name: str
    run: Callable[[Graph], Graph]


def run_passes(graph: Graph, passes: Sequence[GraphPass], observe: Observer | None = None) -> Graph:
    """The graph after all passes; `observe` gets the name, the graph before and the graph after."""
    for graph_pass in passes:
        after = check_graph(graph_pass.run(graph), f"after {graph_pass.name}, graph")
        if observe is not None:
            observe(graph_pass.name, graph, after)
        graph = after
    return graph


def changes(before: Graph, after: Graph) -> str:
    """The changes of a pass: numbers of nodes by operator, of values in blocks of channels, and the
    bytes of constants.
    """
    counts = Counter(node.op for node in after.nodes)
    counts.subtract(Counter(node.op for node in before.nodes))
    parts = [f"{number:+d} {op}" for op, number in sorted(counts.items()) if number]
    in_blocks = len(_values_in_blocks(after)) - len(_values_in_blocks(before))
    if in_blocks:
        parts.append(f"{in_blocks:+d} values in blocks of channels")
    grown = _constant_bytes(after) - _constant_bytes(before)
    if grown:
        parts.append(f"{grown:+,d} bytes of constants")
    same = "nothing" if before is after else "no number of nodes"
    return ", ".join(parts) or same


def _values_in_blocks(graph: Graph) -> set[str]:
    """The values in blocks of channels, those within bodies included."""
    names = {name for name, kind in graph.types.items() if isinstance(kind, TensorType) and kind.lanes}
    return names.union(*(_values_in_blocks(body) for node in graph.nodes for body in node.bodies.values()))


def _constant_bytes(graph: Graph) -> int:
    return sum(value.nbytes for value in graph.constants.values())
