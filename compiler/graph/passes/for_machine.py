# SPDX-License-Identifier: Apache-2.0
"""Integer graphs for a machine whose activations stay in blocks of channels.

A Split of channels becomes products with parts of the weight, whose results are the parts. What
another device makes for a Concat, or another Concat reads too, is copied, so that the machine has
every operand in its place. Functions behind one another become one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.passes.fold_constants import Evaluate
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite, without_dead_code

_CHANNELS = 1
_FUNCTIONS = ("vdla.QTable", "vdla.QRescale", "vdla.QLeakyRelu")
_EXACT_ONE = {"multiplier": np.array([1 << 23]), "shift": np.array([23])}
_COPY = {"x_zero_point": 0, **_EXACT_ONE, "y_zero_point": 0, "low": -128, "high": 127}


def for_machine(graph: Graph, evaluate: Evaluate) -> Graph:
    """The graph, as a machine runs more of it."""

    def composed(graph: Graph, node: Node) -> Replacement | None:
        return _composed(graph, node, evaluate)

    return without_dead_code(_with_copies(rewrite(rewrite(graph, (_split,)), (composed,))))


# --- splits ---------------------------------------------------------------------------------------


def _split(graph: Graph, node: Node) -> Replacement | None:
    """Split(f(product)) = f(product of a part of the weight) for each part."""
    if node.op != "Split" or not all(node.outputs):
        return None
    kind = graph.tensor(node.inputs[0])
    if kind.dtype != "int8" or len(kind.shape or ()) < 2 or node.attributes.get("axis", 0) % len(kind.extents) != _CHANNELS:
        return None
    functions, product = _before(graph, node.inputs[0])
    if product is None:
        return None
    ends = accumulate((graph.tensor(name).extents[_CHANNELS] for name in node.outputs), initial=0)
    nodes: list[Node] = []
    constants: dict[str, Array] = {}
    types: dict[str, TensorType] = {}
    for result, (begin, end) in zip(node.outputs, pairwise(ends), strict=True):
        made = _part(graph, product, functions, result, slice(begin, end))
        nodes += made.nodes
        constants |= made.constants
        types |= made.types  # type: ignore[arg-type]  # all are tensors
    return Replacement(tuple(nodes), constants, types, matched=(product, *functions))


def _before(graph: Graph, name: str) -> tuple[list[Node], Node | None]:
    """The functions that make a value, and the convolution of one group before them, if each is read
    once.
    """
    functions: list[Node] = []
    while graph.readers(name) == 1 and (node := graph.producers.get(name)) is not None:
        if node.op not in _FUNCTIONS:
            is_product = node.op == "vdla.QConv" and node.attributes["group"] == 1
            return functions, node if is_product and all(each in graph.constants for each in node.inputs[1:]) else None
        functions.insert(0, node)
        name = node.inputs[0]
    return functions, None


def _part(graph: Graph, product: Node, functions: list[Node], result: str, channels: slice) -> Replacement:
    """Some channels of functions of a product."""
    *inner, _ = names = [fresh_name(graph, f"{result}_part{i}") for i in range(len(functions))] + [result]
    parts = {fresh_name(graph, f"{result}_{index}"): graph.constants[product.inputs[index]][channels] for index in (1, 2)}
    attributes = {
        key: value[channels] if key in ("multiplier", "shift") and np.size(value) > 1 else value
        for key, value in product.attributes.items()
    }
    nodes = [replace(product, inputs=(product.inputs[0], *parts), outputs=(names[0],), attributes=attributes)]
    nodes += [
        replace(node, inputs=(source,), outputs=(made,))
        for node, (source, made) in zip(functions, pairwise(names), strict=True)
    ]
    types = {name: TensorType(value.dtype.name, value.shape) for name, value in parts.items()}
    return Replacement(tuple(nodes), parts, {**types, **dict.fromkeys(inner, graph.tensor(result))})


# --- functions ------------------------------------------------------------------------------------


def _composed(graph: Graph, node: Node, evaluate: Evaluate) -> Replacement | None:
    """f(table) as one table."""
    before = graph.producers.get(node.inputs[0]) if node.op in _FUNCTIONS else None
    if before is None or before.op != "vdla.QTable" or graph.readers(node.inputs[0]) != 1:
        return None
    (table,) = evaluate(node, [before.attributes["table"]])
    made = replace(before, outputs=node.outputs, attributes={"table": np.asarray(table)}, name=node.name or before.name)
    return Replacement((made,), matched=(before,))


# --- copies ---------------------------------------------------------------------------------------


def _with_copies(graph: Graph) -> Graph:
    """The graph in which each operand of a Concat of channels is made for it by an operator of
    integers.
    """
    nodes, types, known = list[Node](), dict(graph.types), set(graph.types)
    for node in graph.nodes:
        copied = dict(_copies(graph, node, known)) if _joins_channels(graph, node) else {}
        for name, copy in copied.items():
            types[copy] = types[name]
            nodes.append(Node("vdla.QRescale", (name,), (copy,), _COPY, copy))
        nodes.append(replace(node, inputs=tuple(copied.get(name, name) for name in node.inputs)))
    return graph.replace(nodes=tuple(nodes), types=types)


def _joins_channels(graph: Graph, node: Node) -> bool:
    kind = graph.types.get(node.outputs[0])
    if node.op != "Concat" or not isinstance(kind, TensorType) or kind.dtype != "int8" or not kind.static:
        return False
    return len(kind.extents) > 2 and node.attributes["axis"] % len(kind.extents) == _CHANNELS


def _copies(graph: Graph, join: Node, known: set[str]) -> Iterator[tuple[str, str]]:
    for name in join.inputs:
        maker = graph.producers.get(name)
        readers = graph.consumers.get(name, ())
        others = any(not reader.op.startswith("vdla.Q") for reader in readers if reader is not join)
        if maker is None or not maker.op.startswith("vdla.Q") or others or name in graph.outputs:
            copy = next(each for i in range(len(known) + 1) if (each := f"{name}_copy{i}") not in known)
            known.add(copy)
            yield name, copy


def without_copies(graph: Graph, on_machine: Iterable[str]) -> Graph:
    """The graph without the copies that another device than the machine would make."""
    kept = set(on_machine)

    def dropped(_: Graph, node: Node) -> Replacement | None:
        if node.op != "vdla.QRescale" or not _is_copy(node) or node.outputs[0] in kept:
            return None
        return Replacement(renamed={node.outputs[0]: node.inputs[0]})

    return rewrite(graph, (dropped,))


def _is_copy(node: Node) -> bool:
    return all(np.array_equal(node.attributes[key], value) for key, value in _COPY.items())
