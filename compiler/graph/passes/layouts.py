"""Images in blocks between operators, with the fewest repacks (pass `layouts`)."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall
from vdla.compiler.graph.passes.blocked_nodes import blocked_forms, in_blocks
from vdla.compiler.target import Target

_CONVERSIONS = {"int8": "vdla.ToInt8", "uint8": "vdla.ToUint8"}

REPACKS = ("vdla.FromBlocked", "vdla.ToBlocked")
"""Operators that only change the layout of a value."""


def choose_layouts(graph: Graph, target: Target) -> Graph:
    """The graph with images in blocks of channels where that costs least on a CPU.

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
        """A node with plain results, and before it the repacks of what it is the first to read."""
        either = {} if form is None or form.plain_node is None else {at: node.inputs[at] for at in form.reads_either}
        found = {at: self.blocked[name] for at, name in either.items() if self._only_in_blocks(name)}
        kept = form.plain_node if found and form is not None and form.plain_node is not None else node
        inputs = [found[at] if at in found else self._in_plain(name) for at, name in enumerate(node.inputs)]
        self.nodes.append(replace(kept, inputs=tuple(inputs)))
        self.plain.update((name, name) for name in node.outputs)

    def add_blocked(self, node: Node, form: BlockedForm) -> None:
        """A node in blocks, and before it the repacks of what it is the first to read."""
        (y,) = form.node.outputs
        inputs = tuple(self._read(node, form, at) for at in range(len(form.node.inputs)))
        made = self._blocked_result(node, y) if form.writes_blocks else y
        self.nodes.append(replace(form.node, inputs=inputs, outputs=(made,), name=node.name or y))
        if not form.writes_blocks:
            self.plain[y] = y
        elif y in self.graph.outputs:
            self._in_plain(y)

    def _read(self, node: Node, form: BlockedForm, at: int) -> str:
        """An input of a node in blocks."""
        name = form.node.inputs[at]
        if at in form.constants:
            return self._constant(f"{name}_blocked", form.constants[at])
        if at in form.reads or (at in form.reads_either and name in self.blocked):
            return self._in_blocks(node, name)
        return self._in_plain(name)

    def _blocked_result(self, node: Node, name: str) -> str:
        kind = LayoutCall(self.graph, node, self.target).in_blocks(name)
        made = self._value(f"{name}_blocked", kind) if name in self.graph.outputs else name
        self.types[made], self.blocked[name] = kind, made
        return made

    def _only_in_blocks(self, name: str) -> bool:
        return name in self.blocked and name not in self.plain

    def _in_plain(self, name: str) -> str:
        """The name of a value as it is in the plain graph."""
        if not name:
            return ""
        if name not in self.plain:
            kind = self.graph.tensor(name)
            made = name if name in self.graph.outputs else self._value(f"{name}_plain", kind)
            blocks, attributes = self._converted(self.blocked[name], kind.dtype), {"channels": kind.extents[1]}
            self.nodes.append(Node("vdla.FromBlocked", (blocks,), (made,), attributes, made))
            self.plain[name] = made
        return self.plain[name]

    def _in_blocks(self, node: Node, name: str) -> str:
        """The name of a value in blocks."""
        if name not in self.blocked:
            call = LayoutCall(self.graph, node, self.target)
            kind, attributes = call.in_blocks(name), {"lanes": call.lanes(name)}
            made, image = self._value(f"{name}_blocked", kind), self._converted(self.plain[name], kind.dtype)
            self.nodes.append(Node("vdla.ToBlocked", (image,), (made,), attributes, made))
            self.blocked[name] = made
        return self.blocked[name]

    def _converted(self, name: str, dtype: str) -> str:
        """A value as the numbers of 8 bits that a repack moves."""
        kind = self.types[name]
        if not isinstance(kind, TensorType) or kind.dtype == dtype:
            return name
        made = self._value(f"{name}_{dtype}", replace(kind, dtype=dtype))
        self.nodes.append(Node(_CONVERSIONS[dtype], (name,), (made,), {}, made))
        return made

    def _constant(self, base: str, value: Array) -> str:
        name = self._value(base, TensorType(value.dtype.name, value.shape))
        self.constants[name] = value
        return name

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
