# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear on symbols: what is dequantised is the integer again, and it commutes with maxima.

Both are lemmas on rounding: a step is rounded to itself, and rounding is monotone. Integers of
uint8 are those of int8 that are 128 less, with a zero point that is 128 less, plus 128.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.symbols import Symbols, chosen, elements_of, numbers
from vdla.compiler.graph import Graph, Node, TensorType

Evaluate = Callable[[Graph, Node, Mapping[str, Symbols]], Symbols]
"""The result of a node of a graph with other values of its first input."""
_Parameters = tuple[float, int, str]
_Pair = tuple[Symbols, Symbols]  # of the same length
UNSIGNED = 128
"""How much greater integers of uint8 are than those of int8 that they stand for."""


def quantisation_of(graph: Graph, node: Node) -> _Parameters | None:
    """The scale, the zero point and the type of a node with one constant scale."""
    scale = graph.constant(node.inputs[1])
    given = node.inputs[2] if len(node.inputs) > 2 else ""
    zero = graph.constant(given) if given else np.zeros(1, np.int64)
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    kind = graph.tensor(node.inputs[0] if node.op == "DequantizeLinear" else node.outputs[0])
    return float(scale.reshape(())), int(zero.reshape(())), kind.dtype


def _of_integers(graph: Graph, name: str) -> Node | None:
    """The DequantizeLinear of one constant scale that makes a float of unknown integers."""
    node = graph.producers.get(name)
    if node is None or node.op != "DequantizeLinear" or node.inputs[0] in graph.constants:
        return None
    return None if quantisation_of(graph, node) is None else node


def _parameters_of(graph: Graph, node: Node) -> _Parameters:
    made = quantisation_of(graph, node)
    assert made is not None
    return made


def _looked_up(pairs: list[_Pair], x: Symbols, made: Symbols) -> Symbols:
    """For elements that are known, what they are paired with; `made` for others."""
    if not pairs:
        return made
    names, others = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    order = np.argsort(names["value"], kind="stable")
    flat = elements_of(x)["value"].reshape(-1)
    nearest = order[np.searchsorted(names["value"][order], flat).clip(0, len(order) - 1)]
    return chosen(names["value"][nearest] == flat, others[nearest], made.reshape(-1)).reshape(x.shape)


def _to_int8(graph: Graph, node: Node) -> tuple[Graph, Node]:
    """A QuantizeLinear or DequantizeLinear of uint8 as one of int8."""
    zero = np.array(_parameters_of(graph, node)[1] - UNSIGNED, np.int8)
    name = f"{node.outputs[0]} zero point"
    integers = node.outputs[0] if node.op == "QuantizeLinear" else node.inputs[0]
    types = {**graph.types, name: TensorType("int8", ()), integers: replace(graph.tensor(integers), dtype="int8")}
    attributes = {key: value for key, value in node.attributes.items() if key != "output_dtype"}
    made = replace(node, inputs=(*node.inputs[:2], name), attributes=attributes)
    nodes = tuple(made if one.outputs == node.outputs else one for one in graph.nodes)
    return graph.replace(nodes=nodes, constants={**graph.constants, name: zero}, types=types), made


@dataclass
class QuantisedValues:
    """The floats that were made of integers, by the parameters of their quantisation."""

    _known: dict[_Parameters, list[_Pair]] = field(default_factory=dict)
    _unsigned: list[_Pair] = field(default_factory=list)

    def signed(self, x: Symbols) -> Symbols:
        """Integers of uint8 less 128."""
        return _looked_up(self._unsigned, x, binary("sub", x, numbers(UNSIGNED), "int32"))

    def unsigned(self, x: Symbols) -> Symbols:
        """Integers of int8 plus 128."""
        made = binary("add", x, numbers(UNSIGNED), "int32")
        self._unsigned.append((made.reshape(-1), np.ascontiguousarray(x).reshape(-1)))
        return made

    def result(self, graph: Graph, node: Node, values: Mapping[str, Symbols], evaluate: Evaluate) -> Symbols | None:
        """The result of a QuantizeLinear or DequantizeLinear with one constant scale, of a maximum
        or a conversion of integers of 8 bits; else None.
        """
        if node.op in ("vdla.ToInt8", "vdla.ToUint8"):
            return (self.signed if node.op == "vdla.ToInt8" else self.unsigned)(values[node.inputs[0]])
        if _is_pool(node) and graph.tensor(node.inputs[0]).dtype == "uint8":
            return self.unsigned(_pooled(graph, node, self.signed(values[node.inputs[0]]), "int8", evaluate))
        if _is_pool(node) and _of_integers(graph, node.inputs[0]) is not None:
            return self._maxima(graph, node, values, evaluate)
        if node.op not in ("QuantizeLinear", "DequantizeLinear") or node.inputs[0] not in values:
            return None
        parameters, x = quantisation_of(graph, node), values[node.inputs[0]]
        if parameters is None or node.inputs[0] in graph.constants:
            return None
        if node.op == "QuantizeLinear":
            return self._quantised(graph, node, values, evaluate)
        return self._dequantised(graph, node, x, evaluate)

    def _dequantised(self, graph: Graph, node: Node, x: Symbols, evaluate: Evaluate) -> Symbols:
        if _parameters_of(graph, node)[2] == "uint8":
            return self._dequantised(*_to_int8(graph, node), self.signed(x), evaluate)
        made = evaluate(_reshaped(graph, node, x.shape), node, {node.inputs[0]: x})
        pair = made.reshape(-1), np.ascontiguousarray(x).reshape(-1)
        self._known.setdefault(_parameters_of(graph, node), []).append(pair)
        return made

    def _rounded(self, graph: Graph, node: Node, x: Symbols, evaluate: Evaluate) -> Symbols:
        """Rounded floats, without those that were made of integers."""
        if _parameters_of(graph, node)[2] == "uint8":
            return self.unsigned(self._rounded(*_to_int8(graph, node), x, evaluate))
        made = evaluate(_reshaped(graph, node, x.shape), node, {node.inputs[0]: x})
        return _looked_up(self._known.get(_parameters_of(graph, node), []), x, made)

    def _quantised(self, graph: Graph, node: Node, values: Mapping[str, Symbols], evaluate: Evaluate) -> Symbols:
        """The result of a QuantizeLinear; before the maxima that it reads, of either type."""
        maker = graph.producers.get(node.inputs[0])
        if _is_pool(maker):
            assert maker is not None
            inner = self._quantised(graph, replace(node, inputs=(maker.inputs[0], *node.inputs[1:])), values, evaluate)
            return self._pooled(graph, maker, inner, graph.tensor(node.outputs[0]).dtype, evaluate)
        pool = graph.producers.get(maker.inputs[0]) if maker is not None and maker.op == "DequantizeLinear" else None
        if maker is None or not _is_pool(pool) or quantisation_of(graph, maker) is None:
            return self._rounded(graph, node, values[node.inputs[0]], evaluate)
        assert pool is not None
        before = replace(maker, inputs=(pool.inputs[0], *maker.inputs[1:]))
        kind = replace(graph.tensor(pool.inputs[0]), dtype=graph.tensor(maker.outputs[0]).dtype)
        nodes = tuple(before if one is maker else one for one in graph.nodes)
        moved = graph.replace(nodes=nodes, types={**graph.types, maker.outputs[0]: kind})
        floats = self._dequantised(moved, before, values[pool.inputs[0]], evaluate)
        inner = self._quantised(moved, node, {**values, maker.outputs[0]: floats}, evaluate)
        return self._pooled(graph, pool, inner, graph.tensor(node.outputs[0]).dtype, evaluate)

    def _maxima(self, graph: Graph, pool: Node, values: Mapping[str, Symbols], evaluate: Evaluate) -> Symbols:
        """Maxima of floats that are made of integers: the floats of the maxima."""
        maker = _of_integers(graph, pool.inputs[0])
        assert maker is not None
        x = values[maker.inputs[0]]
        made = self._pooled(graph, pool, x, graph.tensor(maker.inputs[0]).dtype, evaluate)
        return self._dequantised(graph, maker, made, evaluate)

    def _pooled(self, graph: Graph, pool: Node, x: Symbols, dtype: str, evaluate: Evaluate) -> Symbols:
        """Maxima of integers of a type."""
        if dtype == "uint8":
            return self.unsigned(_pooled(graph, pool, self.signed(x), "int8", evaluate))
        return _pooled(graph, pool, x, dtype, evaluate)


def _is_pool(node: Node | None) -> bool:
    return node is not None and node.op == "MaxPool" and not any(node.outputs[1:])


def _pooled(graph: Graph, pool: Node, x: Symbols, dtype: str, evaluate: Evaluate) -> Symbols:
    """Maxima of integers of a type."""
    kinds = {name: replace(graph.tensor(name), dtype=dtype) for name in (pool.inputs[0], pool.outputs[0])}
    return evaluate(graph.replace(types={**graph.types, **kinds}), pool, {pool.inputs[0]: x})


def _reshaped(graph: Graph, node: Node, shape: tuple[int, ...]) -> Graph:
    """The graph in which a node has values of a shape."""
    kinds = {name: TensorType(graph.tensor(name).dtype, shape) for name in (node.inputs[0], node.outputs[0])}
    return graph.replace(types={**graph.types, **kinds})
