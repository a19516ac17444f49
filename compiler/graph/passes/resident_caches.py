# SPDX-License-Identifier: Apache-2.0
"""Caches that stay on the machine: attention of a token, or of a chunk of them, over keys and
values that are inputs and results of the network as `vdla.QCachedAttention`, which has neither.

    vdla.QAttention(query, key, value, mask, Q(past key), Q(past value))
    -> vdla.QCachedAttention(query, key, value, places of the cache's parts)

The first token's place is the number of places that the mask shows, less that of the tokens. So
runs must be those of the tokens of one sequence, in order, and chunks begin where `CachedAttention`
says. All attention is replaced or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.machine.attention_call import CACHED_ATTENTION, attention_of
from vdla.compiler.graph.machine.call import NotAcceleratedError, decline
from vdla.compiler.graph.rewriting import fresh_name, without_dead_code
from vdla.compiler.graph.topology import in_order
from vdla.compiler.layer_programs import CachedAttention
from vdla.hardware.config import Config

_ATTENTION = "vdla.QAttention"
_MASK, _PAST = 3, (4, 5)


@dataclass(frozen=True, eq=False, slots=True)
class _Cached:
    """An attention, what computes it, and the network's inputs and results that are its cache."""

    node: Node
    attention: CachedAttention
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def has_resident_caches(graph: Graph) -> bool:
    """Whether attention of a graph has its cache on the machine."""
    return any(node.op == CACHED_ATTENTION for node in graph.nodes)


def resident_caches(graph: Graph, config: Config) -> Graph:
    """The graph with caches on the machine, where all its attention can be there."""
    nodes = [node for node in graph.nodes if node.op == _ATTENTION]
    try:
        cached = [_cached(graph, node, config) for node in nodes]
    except NotAcceleratedError:
        return graph
    masks = {item.node.inputs[_MASK] for item in cached}
    if len(masks) != 1 or any(node.op == "Attention" for node in graph.nodes):
        return graph
    made = _Offsets(graph, masks.pop())
    replaced = {id(item.node): made.attention(item) for item in cached}
    inputs = {name for item in cached for name in item.inputs}
    outputs = {name for item in cached for name in item.outputs}
    types = {**graph.types, **made.types}
    kept = [replaced.get(id(node), node) for node in graph.nodes]
    return without_dead_code(
        graph.replace(
            inputs=tuple(name for name in graph.inputs if name not in inputs),
            outputs=tuple(name for name in graph.outputs if name not in outputs),
            nodes=in_order([*(node for node in kept if not _reads(node, inputs)), *made.nodes]),
            constants={**graph.constants, **made.constants},
            types=types,
        )
    )


def why_not_cached(graph: Graph, node: Node, config: Config) -> str:
    """What an attention must do to have its cache on the machine; empty if it can."""
    try:
        _cached(graph, node, config)
    except NotAcceleratedError as error:
        return str(error)
    return ""


def _reads(node: Node, names: set[str]) -> bool:
    return not names.isdisjoint(node.inputs)


def _cached(graph: Graph, node: Node, config: Config) -> _Cached:
    """The attention of tokens whose cache is an input and a result of the network."""
    query = graph.tensor(node.inputs[0])
    if not query.static or len(query.extents) != 3 or query.extents[0] != 1:
        decline(f"attend with the tokens of one sequence, got {query}")
    tokens = query.extents[1]
    if tokens > 1 and not node.attributes["causal"]:
        decline(f"be causal with several tokens, got {query}")
    past = [node.inputs[index] if len(node.inputs) > index else "" for index in _PAST]
    inputs, outputs = tuple(_past(graph, name) for name in past), tuple(_present(graph, node))
    places = graph.tensor(past[0]).extents[2] + tokens
    mask = node.inputs[_MASK]
    if not mask or graph.tensor(mask).shape is None or not graph.tensor(mask).static:
        decline("have a mask")
    if np.prod(graph.tensor(mask).extents) != places:
        decline(f"have a mask of {places} places, got {graph.tensor(mask)}")
    return _Cached(node, attention_of(config, graph, node, places), inputs, outputs)


def _past(graph: Graph, name: str) -> str:
    """The input of the network whose integers are keys or values of the past."""
    maker = graph.producers.get(name) if name else None
    source = maker.inputs[0] if maker is not None and maker.op == "QuantizeLinear" else name
    if source not in graph.inputs or graph.readers(source) != 1 or graph.readers(name) != 1:
        decline("have a cache that is an input of the network, which nothing else reads")
    return source


def _present(graph: Graph, node: Node) -> Iterator[str]:
    """The results of the network that are present keys and values."""
    for name in filter(None, node.outputs[1:]):
        readers = graph.consumers.get(name, ())
        shown = readers[0].outputs[0] if readers and readers[0].op == "DequantizeLinear" else name
        if shown not in graph.outputs or graph.readers(shown) != 1 or graph.readers(name) != 1:
            decline("have a cache that is a result of the network, which nothing else reads")
        yield shown


class _Offsets:
    """The nodes that compute where the parts of caches are, from the mask of a token."""

    def __init__(self, graph: Graph, mask: str) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.types: dict[str, Any] = {}
        self._known: dict[tuple[int, int], str] = {}
        self._mask = mask
        self._group = self._row = ""

    def attention(self, item: _Cached) -> Node:
        """The attention with its cache on the machine."""
        node, of = item.node, item.attention
        if not self._group:
            self._place(of.config.block_out, of.tokens)
        places = [self._offset(far, near) for far, near in of.part_strides.values()]
        attributes = {name: value for name, value in node.attributes.items() if name != "causal"}
        attributes |= {"places": of.places, "cache": node.name or node.outputs[0]}
        return Node(CACHED_ATTENTION, (*node.inputs[:3], *places), node.outputs[:1], attributes, node.name)

    def _place(self, lanes: int, tokens: int) -> None:
        """The group of places of the first token, and its row there."""
        shape = self.graph.tensor(self._mask).extents
        seen = self._add("Cast", (self._mask,), "attended", shape, to="int64")
        count = self._add("ReduceSum", (seen,), "count", (), keepdims=0)
        place = self._add("Sub", (count, self._number(tokens)), "place")
        self._group = self._add("Div", (place, self._number(lanes)), "group")
        self._row = self._add("Mod", (place, self._number(lanes)), "row")

    def _offset(self, far: int, near: int) -> str:
        if (far, near) not in self._known:
            made = self._add("Mul", (self._group, self._number(far)), "far")
            if near:
                made = self._add("Add", (made, self._add("Mul", (self._row, self._number(near)), "near")), "offset")
            self._known[far, near] = made
        return self._known[far, near]

    def _number(self, value: int) -> str:
        name = self._fresh(f"cache_{value}")
        self.constants[name], self.types[name] = np.array(value, np.int64), TensorType("int64", ())
        return name

    def _add(self, op: str, inputs: tuple[str, ...], base: str, shape: tuple[int, ...] = (), **attributes: Any) -> str:  # noqa: ANN401
        name = self._fresh(f"cache_{base}")
        self.nodes.append(Node(op, inputs, (name,), attributes, name))
        self.types[name] = TensorType("int64", shape)
        return name

    def _fresh(self, base: str) -> str:
        name = fresh_name(self.graph, base)
        while name in self.types:
            name += "_"
        return name
