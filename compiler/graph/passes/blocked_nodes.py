"""Which nodes compute in blocks: those with the least cost of plain nodes and repacks.

A plain node costs the gain of its blocked form; a repack reads and writes its value once, and
serves all readers. Every node is in blocks or plain, so that the least cost is a minimum cut: nodes
in blocks lie on the side of the source. What lies there costs nothing by itself, so that nodes
without a gain, element-wise ones, follow their neighbours; of equal choices the one with the fewest
nodes in blocks is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.layouts.elementwise import follow_inputs
from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall, LayoutRule, nbytes
from vdla.compiler.graph.minimum_cut import Vertex, source_side
from vdla.compiler.graph.operators import RECORDS, Trait
from vdla.compiler.target import Target

_SOURCE, _SINK = "source", "sink"
_INFINITE = 1 << 62
_PASSES = 2  # over a value in a repack: it is read and written

Forms = Mapping[int, BlockedForm]  # by the id of the node


def blocked_forms(graph: Graph, target: Target) -> Forms:
    """The blocked form of every node that has one."""
    forms = {}
    for node in graph.nodes:
        rule = _layout_rule(node)
        form = None if rule is None else rule(LayoutCall(graph, node, target))
        if form is not None:
            forms[id(node)] = form
    return forms


def _layout_rule(node: Node) -> LayoutRule | None:
    """The rule of the operator's record; functions of floats follow their inputs."""
    record = RECORDS.get(node.op)
    if record is None or record.layout is not None:
        return None if record is None else record.layout
    return follow_inputs if record.has(Trait.FUNCTION) else None


def in_blocks(graph: Graph, forms: Forms) -> frozenset[int]:
    """The nodes with a form, by their ids, that compute in blocks."""
    return source_side(_Costs(graph, forms).capacities, _SOURCE, _SINK) & forms.keys()


class _Costs:
    """The network of a graph: a vertex a node that has a form, two a value that may be repacked."""

    def __init__(self, graph: Graph, forms: Forms) -> None:
        self.graph, self.forms = graph, forms
        self.capacities: dict[tuple[Vertex, Vertex], int] = {}
        for node in graph.nodes:
            if id(node) in forms:
                self._edge(_SOURCE, id(node), forms[id(node)].gain_bytes)
        for name in graph.values:
            if name not in graph.constants:
                self._value(name)

    def _edge(self, tail: Vertex, head: Vertex, cost: int) -> None:
        """A cost that is paid where `tail` is in blocks and `head` is not."""
        self.capacities[tail, head] = self.capacities.get((tail, head), 0) + cost

    def _value(self, name: str) -> None:
        """The repacks of a value, to blocks and from blocks."""
        maker, readers = self.graph.producers.get(name), self.graph.consumers.get(name, ())
        form = None if maker is None else self.forms.get(id(maker))
        made: Vertex = id(maker) if form is not None and form.writes_blocks else _SINK
        in_blocks = [id(node) for node in readers if self._reads(node, name, in_blocks=True)]
        is_plain = name in self.graph.outputs or any(self._reads(node, name, in_blocks=False) for node in readers)
        if not in_blocks and (made == _SINK or not is_plain):
            return
        cost = _PASSES * nbytes(self.graph.tensor(name))
        to_blocks, from_blocks = ("to blocks", name), ("from blocks", name)
        for reader in in_blocks:
            self._edge(reader, to_blocks, _INFINITE)
        self._edge(to_blocks, made, cost)
        if made == _SINK:
            return
        self._edge(made, from_blocks, cost)
        if is_plain:
            self._edge(from_blocks, _SINK, _INFINITE)
        for reader in in_blocks:
            self._edge(from_blocks, reader, _INFINITE)

    def _reads(self, node: Node, name: str, *, in_blocks: bool) -> bool:
        """Whether a node, in blocks if it has such a form, reads a value in blocks, or plain."""
        form = self.forms.get(id(node))
        places = {index for index, given in enumerate(node.inputs) if given == name}
        if form is None:
            return not in_blocks
        return bool(places & form.reads if in_blocks else places - form.reads - form.reads_either)
