"""The forms of a CPU kernel: the function of a group of nodes, for each algorithm that computes it.

The first form is the one that is compiled without tuning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vdla.compiler import ir
from vdla.compiler.graph import Array, Graph
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.graph.rules.algorithm import ALGORITHM
from vdla.compiler.graph.rules.graph_function import GraphFunction, graph_function
from vdla.compiler.graph.rules.products import PACKED, PLAIN
from vdla.compiler.operators.convolution_plan import ALGORITHMS
from vdla.compiler.target import Target
from vdla.compiler.tune.space import Point

DEFAULT = "default"
"""The label of the only form of a kernel."""
ALGORITHM_KNOB = "algorithm"
"""The knob of the form, where there are several."""
_ALGORITHMS = {"Conv": ALGORITHMS, "vdla.BlockedConv": ALGORITHMS, "MatMul": (PLAIN, PACKED)}


@dataclass(frozen=True, eq=False)
class CpuForm:
    """An unscheduled function, and those of its inputs that never change, by parameter."""

    function: ir.Function
    constants: Mapping[str, Array] = field(default_factory=dict)


def graph_forms(graph: Graph, target: Target) -> Mapping[str, CpuForm]:
    """The forms of a graph whose nodes one kernel computes, by algorithm.

    Raises:
        DeclinedError: a node without a tensor expression.
    """
    default = graph_function(graph, target)
    names = dict.fromkeys(name for node in graph.nodes for name in _ALGORITHMS.get(node.op, ()))
    found = {name: made for name in names if (made := _computed_by(graph, name, target)) is not None}
    text = str(default.function)
    first = next((name for name, made in found.items() if str(made.function) == text), None)
    if first is None or len(found) == 1:
        return {DEFAULT: _form(default)}
    return {name: _form(found[name]) for name in dict.fromkeys((first, *found))}


def _form(made: GraphFunction) -> CpuForm:
    return CpuForm(made.function, made.constants)


def _computed_by(graph: Graph, algorithm: str, target: Target) -> GraphFunction | None:
    """The function with an algorithm; None if it does not compute a node."""
    try:
        return graph_function(with_algorithm(graph, algorithm), target)
    except DeclinedError:
        return None


def chosen_form(graph: Graph, point: Point) -> Graph:
    """The graph with the algorithm of a point."""
    return with_algorithm(graph, str(point.get(ALGORITHM_KNOB, DEFAULT)))


def with_algorithm(graph: Graph, algorithm: str) -> Graph:
    """The graph whose nodes are computed by an algorithm, those that know it; it may be DEFAULT."""
    if algorithm == DEFAULT:
        return graph
    nodes = (
        replace(node, attributes={**node.attributes, ALGORITHM: algorithm})
        if algorithm in _ALGORITHMS.get(node.op, ())
        else node
        for node in graph.nodes
    )
    return replace(graph, nodes=tuple(nodes))
