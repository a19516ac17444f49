# SPDX-License-Identifier: Apache-2.0
"""The forms of a CPU kernel: the function of a group of nodes, for each way to compute it.

A way is an algorithm, a layout inside of the kernel and a block of the packed weight. The first
form is the one that is compiled without tuning. All forms read and write the same layouts: a form
that computes in another layout repacks inside the kernel, and its time includes that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from vdla.compiler import ir
from vdla.compiler.graph import Array, Graph, Node
from vdla.compiler.graph.operators.graph_function import GraphFunction, graph_function
from vdla.compiler.graph.operators.products import PACKED, PLAIN
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.graph.rules.algorithm import ALGORITHM, GIVEN, IN_BLOCKS, IN_PLAIN, LANES, LAYOUT
from vdla.compiler.operators.convolution_plan import ALGORITHMS
from vdla.compiler.target import Target
from vdla.compiler.tune.space import Point

DEFAULT = "default"
"""The algorithm of a kernel that has only one."""
_USUAL = 0  # lanes: those of the default
_ALGORITHMS = {"Conv": ALGORITHMS, "MatMul": (PLAIN, PACKED)}
_LAYOUTS = {"Conv": (IN_BLOCKS, IN_PLAIN)}
"""The layouts of plain nodes; those of a node on blocks are tried in the other order."""
_VECTORS = {"Conv": (0.5,), "MatMul": (2, 4), "Gemm": (2, 4)}
"""Blocks of the packed weight other than a vector, in vectors: shorter ones have less padding,
longer ones are contiguous for a tile of several vectors."""


class FormKey(NamedTuple):
    """A way to compute a kernel; the fields are the knobs of a space, where they have choices.

    `layout` is that of image and result in the kernel, `lanes` the output channels or columns of a
    block of the packed weight, 0 for those of the default.
    """

    algorithm: str = DEFAULT
    layout: str = GIVEN
    lanes: int = _USUAL

    @staticmethod
    def of(point: Point, first: FormKey) -> FormKey:
        """That of a point; knobs that it lacks, or that are younger, are those of `first`."""
        algorithm, layout, lanes = (point.get(name, usual) for name, usual in first._asdict().items())
        return FormKey(str(algorithm), str(layout), int(lanes))


@dataclass(frozen=True, eq=False)
class CpuForm:
    """An unscheduled function, and those of its inputs that never change, by parameter."""

    function: ir.Function
    constants: Mapping[str, Array] = field(default_factory=dict)


Forms = Mapping[FormKey, CpuForm]


def graph_forms(graph: Graph, target: Target) -> Forms:
    """The forms of a graph whose nodes one kernel computes.

    Raises:
        DeclinedError: a node without a tensor expression.
    """
    default = graph_function(graph, target)
    names = dict.fromkeys(name for node in graph.nodes for name in _ALGORITHMS.get(node.op, ()))
    made = {FormKey(name): _computed(graph, FormKey(name), target) for name in names}
    functions = {key: function for key, function in made.items() if function is not None}
    text = str(default.function)
    first = next((key for key, function in functions.items() if str(function.function) == text), None)
    if first is None or len(functions) == 1:
        functions, first = {FormKey(): default}, FormKey()
    ways = {first: default, **functions}
    ways |= {key: form for key in _ways(graph, list(ways), target) if (form := _computed(graph, key, target))}
    return _different(ways)


def _ways(graph: Graph, keys: list[FormKey], target: Target) -> Iterator[FormKey]:
    """Each algorithm in another layout, or with other lanes: both at once pay twice."""
    layouts = dict.fromkeys(layout for node in graph.nodes for layout in _layouts(graph, node))
    lanes = dict.fromkeys(count for node in graph.nodes for count in _lanes(graph, node, target))
    for key in keys:
        yield from (key._replace(layout=layout) for layout in layouts)
        yield from (key._replace(lanes=count) for count in lanes)


def _layouts(graph: Graph, node: Node) -> tuple[str, ...]:
    """The layouts inside of the kernel of a node."""
    known = _LAYOUTS.get(node.op, ())
    is_in_blocks = known and any(graph.tensor(name).lanes for name in (node.inputs[0], node.outputs[0]))
    return known[::-1] if is_in_blocks else known


def _lanes(graph: Graph, node: Node, target: Target) -> Iterator[int]:
    """The blocks of a node's weight other than a vector."""
    if node.op in _VECTORS:
        vector = target.lanes(ir.storage_dtype(graph.tensor(node.outputs[0]).dtype).itemsize)
        yield from (int(count * vector) for count in _VECTORS[node.op])


def _different(ways: Mapping[FormKey, GraphFunction]) -> Forms:
    """The first of all that have the same function."""
    texts: dict[str, FormKey] = {}
    for key, made in ways.items():
        texts.setdefault(str(made.function), key)
    return {key: CpuForm(ways[key].function, ways[key].constants) for key in texts.values()}


def _computed(graph: Graph, key: FormKey, target: Target) -> GraphFunction | None:
    """The function of a form; None if that does not compute a node."""
    try:
        return graph_function(_in_form(graph, key), target)
    except DeclinedError:
        return None


def chosen_form(graph: Graph, point: Point) -> Graph:
    """The graph with the algorithm, the layout and the lanes of a point."""
    return _in_form(graph, FormKey.of(point, FormKey()))


def _in_form(graph: Graph, key: FormKey) -> Graph:
    """The graph whose nodes are computed in a way, those that know it."""
    return replace(graph, nodes=tuple(replace(node, attributes=_attributes(node, key)) for node in graph.nodes))


def _attributes(node: Node, key: FormKey) -> Mapping[str, object]:
    """The attributes of a node of a form."""
    added: dict[str, object] = {}
    if key.algorithm in _ALGORITHMS.get(node.op, ()):
        added[ALGORITHM] = key.algorithm
    if key.layout in _LAYOUTS.get(node.op, ()):
        added[LAYOUT] = key.layout
    if key.lanes != _USUAL and node.op in _VECTORS:
        added[LANES] = key.lanes
    return {**node.attributes, **added}
