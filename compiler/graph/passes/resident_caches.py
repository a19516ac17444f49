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

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.machine.attention_call import CACHED_ATTENTION, attention_of
from vdla.compiler.graph.machine.call import NotAcceleratedError, decline
from vdla.compiler.graph.passes.fold_constants import Evaluate
from vdla.compiler.graph.rewriting import fresh_name, without_dead_code
from vdla.compiler.graph.topology import in_order
from vdla.compiler.layer_programs import CachedAttention
from vdla.hardware.config import Config

_ATTENTION = "vdla.QAttention"
_MASK, _PAST = 3, (4, 5)
_NO_NAME = re.compile(r"[^A-Za-z0-9_.:/-]")
_HEADS = (0, 2, 1, 3)  # [1, tokens, heads, size] to [1, heads, tokens, size], and back


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _Cached:
    """An attention, what computes it, and the network's inputs and results that are its cache.

    `new` has the keys and values of the tokens. `mask` shows how many places there are, the tokens'
    own included; without it, `first` is the place of the first token.
    """

    node: Node
    attention: CachedAttention
    new: tuple[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    mask: str = ""
    first: str = ""


def has_resident_caches(graph: Graph) -> bool:
    """Whether attention of a graph has its cache on the machine."""
    return any(node.op == CACHED_ATTENTION for node in graph.nodes)


def resident_caches(graph: Graph, config: Config, evaluate: Evaluate) -> Graph:
    """The graph with caches on the machine, where all its attention can be there."""
    nodes = [node for node in graph.nodes if node.op == _ATTENTION]
    try:
        cached = [_cached(graph, node, config, evaluate) for node in nodes]
    except NotAcceleratedError:
        return graph
    places = {(item.mask, item.first) for item in cached}
    if len(places) != 1 or any(node.op == "Attention" for node in graph.nodes):
        return graph
    made = _Attention(graph, *places.pop())
    replaced = {id(item.node): made.attention(item) for item in cached}
    inputs = {name for item in cached for name in item.inputs}
    outputs = {name for item in cached for name in item.outputs}
    types = {**graph.types, **made.types}
    kept = [replaced.get(id(node), node) for node in graph.nodes if id(node) not in made.replaced]
    gone = _downstream(graph, inputs, {name for item in cached for name in item.node.outputs})
    return without_dead_code(
        graph.replace(
            inputs=tuple(name for name in graph.inputs if name not in inputs),
            outputs=tuple(name for name in graph.outputs if name not in outputs),
            nodes=in_order([*(node for node in kept if gone.isdisjoint(node.outputs)), *made.nodes]),
            constants={**graph.constants, **made.constants},
            types=types,
        )
    )


def why_not_cached(graph: Graph, node: Node, config: Config, evaluate: Evaluate) -> str:
    """What an attention must do to have its cache on the machine; empty if it can."""
    try:
        _cached(graph, node, config, evaluate)
    except NotAcceleratedError as error:
        return str(error)
    return ""


def _downstream(graph: Graph, names: set[str], until: set[str]) -> set[str]:
    """The values that are made of others, but for those `until` which they go."""
    made = set(names)
    for node in graph.nodes:
        if not made.isdisjoint(node.inputs):
            made |= {name for name in node.outputs if name and name not in until}
    return made - names


def _cached(graph: Graph, node: Node, config: Config, evaluate: Evaluate) -> _Cached:
    """The attention of tokens whose cache is an input and a result of the network."""
    query = graph.tensor(node.inputs[0])
    if not query.static or len(query.extents) not in (3, 4) or query.extents[0] != 1:
        decline(f"attend with the tokens of one sequence, got {query}")
    tokens = query.extents[-2]
    past = [node.inputs[index] if len(node.inputs) > index else "" for index in _PAST]
    if not any(past):
        return _scattered(graph, node, config, evaluate)
    if tokens > 1 and not node.attributes["causal"]:
        decline(f"be causal with several tokens, got {query}")
    inputs, outputs = tuple(_past(graph, name) for name in past), tuple(_present(graph, node))
    places = graph.tensor(past[0]).extents[2] + tokens
    mask = node.inputs[_MASK]
    if not mask or graph.tensor(mask).shape is None or not graph.tensor(mask).static:
        decline("have a mask")
    if np.prod(graph.tensor(mask).extents) != places:
        decline(f"have a mask of {places} places, got {graph.tensor(mask)}")
    attention, (key, value) = attention_of(config, graph, node, places), node.inputs[1:3]
    return _Cached(node=node, attention=attention, new=(key, value), inputs=inputs, outputs=outputs, mask=mask)


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


# --- one buffer for past and present -------------------------------------------------------------


def _scattered(graph: Graph, node: Node, config: Config, evaluate: Evaluate) -> _Cached:
    """Attention over a buffer in which TensorScatter has put the keys and values of the tokens."""
    makers = [graph.producers.get(name) for name in node.inputs[1:3]]
    for maker in makers:
        if maker is None or maker.op != "TensorScatter" or len(maker.inputs) < 3:
            decline("have keys and values of the past, or a buffer that TensorScatter puts new ones into")
        if str(maker.attribute("mode")) != "linear" or int(maker.attribute("axis")) not in (2, -2):
            decline("have a buffer that is filled place by place")
    scatters = [maker for maker in makers if maker is not None]
    firsts = {maker.inputs[2] for maker in scatters}
    first = firsts.pop()
    places, tokens = graph.tensor(node.inputs[1]).extents[2], graph.tensor(node.inputs[0]).extents[-2]
    mask = node.inputs[_MASK] if len(node.inputs) > _MASK else ""
    if firsts or node.attributes["causal"] or not _is_causal(graph, mask, first, places, tokens, evaluate):
        decline("attend the places of its buffer up to that of each token")
    inputs = tuple(_past(graph, maker.inputs[0]) for maker in scatters)
    outputs = tuple(name for maker in scatters for name in _shown(graph, node, maker.outputs[0]))
    new = (scatters[0].inputs[1], scatters[1].inputs[1])
    attention = attention_of(config, graph, node, places)
    return _Cached(node=node, attention=attention, new=new, inputs=inputs, outputs=outputs, first=first)


def _shown(graph: Graph, attention: Node, buffer: str) -> Iterator[str]:
    """The results of the network that are a buffer."""
    readers = [reader for reader in graph.consumers.get(buffer, ()) if reader is not attention]
    shown = [reader.outputs[0] if reader.op == "DequantizeLinear" else "" for reader in readers]
    for name in [*shown, *([buffer] if buffer in graph.outputs else [])]:
        if name not in graph.outputs or (name != buffer and graph.readers(name) != 1):
            decline("have a cache that is a result of the network, which nothing else reads")
        yield name


def _is_causal(graph: Graph, mask: str, first: str, places: int, tokens: int, evaluate: Evaluate) -> bool:
    """Whether a mask of booleans that is computed of the place of the first token shows each token
    the places up to its own, for every place.
    """
    if not mask or graph.tensor(mask).dtype != "bool" or graph.tensor(first).shape != (1,):
        return False
    made = _downstream(graph, {first}, set())
    nodes = [node for node in graph.nodes if not made.isdisjoint(node.outputs)]
    rows = np.arange(tokens)[:, None]
    for place in range(places - tokens + 1):
        values: dict[str, Array] = {first: np.array([place], np.int64)}
        for node in nodes:
            operands = [values.get(name, graph.constant(name)) if name else None for name in node.inputs]
            if all(x is not None for x, name in zip(operands, node.inputs, strict=True) if name):
                values.update(zip(node.outputs, evaluate(node, operands), strict=False))
        if mask not in values:
            return False
        shown = np.broadcast_to(values[mask], np.broadcast_shapes(values[mask].shape, (1, 1, tokens, places)))
        if not np.array_equal(shown[0, 0], np.arange(places) <= place + rows) or shown.shape[:2] != (1, 1):
            return False
    return True


class _Attention:
    """The attention with its cache on the machine, and the nodes that compute where the parts of
    caches are, from the mask of the tokens or from the place of the first.
    """

    def __init__(self, graph: Graph, mask: str, first: str) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.types: dict[str, Any] = {}
        self.replaced: set[int] = set()
        """The nodes, by identity, whose results the attention computes itself."""
        self._caches: set[str] = set()
        self._known: dict[tuple[int, int], str] = {}
        self._mask, self._first = mask, first
        self._group = self._row = ""

    def attention(self, item: _Cached) -> Node:
        """The attention of rows; those of split heads are joined for it."""
        node, of = item.node, item.attention
        if not self._group:
            self._place(of.config.block_out, of.tokens)
        places = [self._offset(far, near) for far, near in of.part_strides.values()]
        attributes = {name: value for name, value in node.attributes.items() if name != "causal"}
        attributes |= {"places": of.places, "cache": self._cache(node.name or node.outputs[0])}
        rows = [self._rows(name) for name in (node.inputs[0], *item.new)]
        result = self._split(node.outputs[0])
        return Node(CACHED_ATTENTION, (*rows, *places), (result,), attributes, node.name)

    def _cache(self, name: str) -> str:
        """A name of tensors of programs, unlike those of other caches."""
        made = _NO_NAME.sub("_", name)
        made = made if made[0].isalpha() else f"cache{made}"
        while made in self._caches:
            made += "_"
        self._caches.add(made)
        return made

    def _rows(self, name: str) -> str:
        """Rows [1, tokens, heads * size] of heads [1, heads, tokens, size]."""
        kind = self.graph.tensor(name)
        if len(kind.extents) == 3:
            return name
        _, heads, tokens, size = kind.extents
        turned = self.graph.producers.get(name)
        split = self.graph.producers.get(turned.inputs[0]) if turned is not None and _swaps(turned) else None
        whole = (1, tokens, heads * size)
        if split is not None and split.op == "Reshape" and self.graph.tensor(split.inputs[0]).shape == whole:
            return split.inputs[0]
        apart = self._add("Transpose", (name,), "apart", (1, tokens, heads, size), kind.dtype, perm=_HEADS)
        return self._add("Reshape", (apart, self._shape(whole)), "rows", whole, kind.dtype)

    def _split(self, name: str) -> str:
        """The rows whose heads are a result: those that it is joined to, else rows to split."""
        kind = self.graph.tensor(name)
        if len(kind.extents) == 3:
            return name
        _, heads, tokens, size = kind.extents
        turned = self._only_reader(name)
        joined = self._only_reader(turned.outputs[0]) if turned is not None and _swaps(turned) else None
        shape = None if joined is None or joined.op != "Reshape" else self.graph.tensor(joined.outputs[0]).shape
        if joined is not None and shape == (1, tokens, heads * size):
            self.replaced |= {id(turned), id(joined)}
            return joined.outputs[0]
        rows, apart = self._fresh("cache_attended"), (1, tokens, heads, size)
        self.types[rows] = TensorType(kind.dtype, (1, tokens, heads * size))
        split = self._add("Reshape", (rows, self._shape(apart)), "apart", apart, kind.dtype)
        self.nodes.append(Node("Transpose", (split,), (name,), {"perm": _HEADS}, name))
        return rows

    def _only_reader(self, name: str) -> Node | None:
        readers = self.graph.consumers.get(name, ())
        return readers[0] if len(readers) == 1 and self.graph.readers(name) == 1 else None

    def _place(self, lanes: int, tokens: int) -> None:
        """The group of places of the first token, and its row there."""
        if self._first:
            place = self._add("Reshape", (self._first, self._shape(())), "place")
        else:
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
        return self._constant(np.array(value, np.int64))

    def _shape(self, extents: tuple[int, ...]) -> str:
        return self._constant(np.array(extents, np.int64))

    def _constant(self, value: Array) -> str:
        name = self._fresh("cache_constant")
        self.constants[name], self.types[name] = value, TensorType("int64", value.shape)
        return name

    def _add(
        self,
        op: str,
        inputs: tuple[str, ...],
        base: str,
        shape: tuple[int, ...] = (),
        dtype: str = "int64",
        **attributes: Any,  # noqa: ANN401
    ) -> str:
        name = self._fresh(f"cache_{base}")
        self.nodes.append(Node(op, inputs, (name,), attributes, name))
        self.types[name] = TensorType(dtype, shape)
        return name

    def _fresh(self, base: str) -> str:
        name = fresh_name(self.graph, base)
        while name in self.types:
            name += "_"
        return name


def _swaps(node: Node) -> bool:
    return node.op == "Transpose" and node.attributes.get("perm") == _HEADS
