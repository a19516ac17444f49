# SPDX-License-Identifier: Apache-2.0
"""Images in blocks between operators, with the fewest repacks (pass `layouts`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.layouts.elementwise import follow_inputs
from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall, LayoutRule
from vdla.compiler.graph.minimum_cut import Vertex, source_side
from vdla.compiler.graph.operators import RECORDS, Trait
from vdla.compiler.target import Target

_CONVERSIONS = {"int8": "vdla.ToInt8", "uint8": "vdla.ToUint8"}

REPACK = "vdla.Repack"
"""The operator that only changes the layout of a value, from and to the layouts of its types."""


def choose_layouts(graph: Graph, target: Target) -> Graph:
    """The graph with images in blocks of channels where that is cheapest on a CPU.

    Inputs and outputs of the graph stay plain. A value in blocks keeps its name; the plain value
    beside it is `<name>_plain`, but for outputs of the graph, which are beside `<name>_blocked`.
    """
    forms = blocked_forms(graph, target)
    chosen = in_blocks(graph, forms)
    if not chosen:
        return graph
    writing = _Writing(graph, target)
    for node in graph.nodes:
        if id(node) in chosen:
            writing.add_blocked(node, forms[id(node)])
        else:
            writing.add_plain(node, forms.get(id(node)))
    return writing.result()


class _Writing:
    """The nodes so far; `plain` and `blocked` are the names of values that exist in a layout."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = dict(graph.constants)
        self.types: dict[str, ValueType] = dict(graph.types)
        self.plain: dict[str, str] = {name: name for name in (*graph.inputs, *graph.constants)}
        self.blocked: dict[str, str] = {}

    def add_plain(self, node: Node, form: BlockedForm | None) -> None:
        """Add a node with plain results, after the repacks of inputs that no earlier node needs."""
        either = form.reads_either if form is not None and form.is_plain_reader else frozenset()
        inputs = [
            self.blocked[name] if at in either and self._is_only_in_blocks(name) else self._in_plain(name)
            for at, name in enumerate(node.inputs)
        ]
        self.nodes.append(replace(node, inputs=tuple(inputs)))
        self.plain.update((name, name) for name in node.outputs)

    def add_blocked(self, node: Node, form: BlockedForm) -> None:
        """Add a node in blocks, after the repacks of inputs that no earlier node needs."""
        y = node.outputs[0]
        inputs = tuple(self._read(node, form, at) for at in range(len(node.inputs)))
        made = self._blocked_result(node, y) if form.writes_blocks else y
        self.nodes.append(replace(node, inputs=inputs, outputs=(made,), name=node.name or y))
        if not form.writes_blocks:
            self.plain[y] = y
        elif y in self.graph.outputs:
            self._in_plain(y)

    def _read(self, node: Node, form: BlockedForm, at: int) -> str:
        """An input of a node in blocks."""
        name = node.inputs[at]
        if at in form.constants:
            return self._constant(name, form.constants[at])
        if at in form.reads or (at in form.reads_either and name in self.blocked):
            return self._in_blocks(node, name)
        return self._in_plain(name)

    def _blocked_result(self, node: Node, name: str) -> str:
        kind = LayoutCall(self.graph, node, self.target).in_blocks(name)
        made = self._value(f"{name}_blocked", kind) if name in self.graph.outputs else name
        self.types[made], self.blocked[name] = kind, made
        return made

    def _is_only_in_blocks(self, name: str) -> bool:
        return name in self.blocked and name not in self.plain

    def _in_plain(self, name: str) -> str:
        """The name of a value as it is in the plain graph."""
        if not name:
            return ""
        if name not in self.plain:
            kind = self.graph.tensor(name)
            made = name if name in self.graph.outputs else self._value(f"{name}_plain", kind)
            blocks = self._converted(self.blocked[name], kind.dtype)
            self.nodes.append(Node(REPACK, (blocks,), (made,), {}, made))
            self.plain[name] = made
        return self.plain[name]

    def _in_blocks(self, node: Node, name: str) -> str:
        """The name of a value in blocks."""
        if name not in self.blocked:
            kind = LayoutCall(self.graph, node, self.target).in_blocks(name)
            made, image = self._value(f"{name}_blocked", kind), self._converted(self.plain[name], kind.dtype)
            self.nodes.append(Node(REPACK, (image,), (made,), {}, made))
            self.blocked[name] = made
        return self.blocked[name]

    def _converted(self, name: str, dtype: str) -> str:
        """A value as the 8-bit integers that a repack moves."""
        kind = self.types[name]
        if not isinstance(kind, TensorType) or kind.dtype == dtype:
            return name
        made = self._value(f"{name}_{dtype}", replace(kind, dtype=dtype))
        self.nodes.append(Node(_CONVERSIONS[dtype], (name,), (made,), {}, made))
        return made

    def _constant(self, name: str, value: Array) -> str:
        """A constant in blocks, of so many channels as the plain one."""
        plain, (batch, _, *plane, lanes) = self.graph.tensor(name).extents, value.shape
        channels = plain[-3] if len(plain) > len(plane) else 1
        made = self._value(f"{name}_blocked", TensorType(value.dtype.name, (batch, channels, *plane), lanes))
        self.constants[made] = value
        return made

    def _value(self, base: str, kind: TensorType) -> str:
        """A name that no value has."""
        name = base
        while name in self.types:
            name += "_"
        self.types[name] = kind
        return name

    def result(self) -> Graph:
        """The graph of all nodes."""
        return self.graph.replace(nodes=tuple(self.nodes), constants=self.constants, types=self.types)


# --- the choice -----------------------------------------------------------------------------------


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
    """The flow network of a graph: one vertex for a node with a form, two for a value that may be
    repacked.
    """

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
        cost = _PASSES * self.graph.tensor(name).nbytes
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
        """Whether a node, in its blocked form if any, reads a value in blocks or plain."""
        form = self.forms.get(id(node))
        places = {index for index, given in enumerate(node.inputs) if given == name}
        if form is None:
            return not in_blocks
        return bool(places & form.reads if in_blocks else places - form.reads - form.reads_either)
