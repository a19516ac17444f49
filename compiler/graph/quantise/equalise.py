# SPDX-License-Identifier: Apache-2.0
"""Cross-layer equalisation: consecutive layers share the work of a channel evenly.

Relu and similar functions commute with a positive factor: channel i of a layer can be divided by s
if the next layer's weights for it are multiplied by s. s = sqrt(r1 / r2) makes the channel's ranges
r1 and r2 in both weights equal (Nagel et al., Data-free quantization, 2019, section 4.1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.rewriting import fresh_name

_SWEEPS = 20


def equalise(graph: Graph) -> Graph:
    """The graph with equalised weights of consecutive convolutions; it computes the same."""
    pairs = [pair for node in graph.nodes if (pair := _pair(graph, node)) is not None]
    if not pairs:
        return graph
    graph = _with_unshared_constants(graph, pairs)
    pairs = [pair for node in graph.nodes if (pair := _pair(graph, node)) is not None]
    constants = dict(graph.constants)
    for _ in range(_SWEEPS):
        if not any([_balance(constants, *pair) for pair in pairs]):
            break
    return graph.replace(constants=constants)


def _pair(graph: Graph, node: Node) -> tuple[Node, Node] | None:
    """A convolution and the only one that reads its result, through operators that commute with
    factors.
    """
    if not _is_convolution(graph, node):
        return None
    value = node.outputs[0]
    while True:
        readers = graph.consumers.get(value, ())
        if len(readers) != 1 or graph.readers(value) != 1:
            return None
        [reader] = readers
        if not has_trait(reader.op, Trait.HOMOGENEOUS) or reader.inputs[0] != value:
            return (node, reader) if _is_convolution(graph, reader) and reader.inputs[0] == value else None
        value = reader.outputs[0]


def _is_convolution(graph: Graph, node: Node) -> bool:
    """Whether a node is a convolution of constants, of one group or depthwise."""
    if node.op != "Conv" or any(graph.constant(name) is None for name in node.inputs[1:] if name):
        return False
    group = int(node.attribute("group"))
    return group == 1 or (
        group == len(graph.constants[node.inputs[1]]) and graph.constants[node.inputs[1]].shape[1] == 1
    )


def _with_unshared_constants(graph: Graph, pairs: list[tuple[Node, Node]]) -> Graph:
    """The graph with separate copies of the pairs' constants where other nodes read them."""
    members = {id(node) for pair in pairs for node in pair}
    nodes, constants, types = [], dict(graph.constants), dict(graph.types)
    for node in graph.nodes:
        if id(node) in members:
            names = list(node.inputs)
            for i, name in enumerate(names[1:], 1):
                if name and (graph.readers(name) > 1 or names.count(name) > 1):
                    names[i] = fresh_name(graph, f"{node.outputs[0]}_{i}")
                    constants[names[i]], types[names[i]] = constants[name], types[name]
            node = replace(node, inputs=tuple(names))
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes), constants=constants, types=types)


def _balance(constants: dict[str, Array], first: Node, second: Node) -> bool:
    """Balances a pair; whether a factor was far from 1."""
    before, after = constants[first.inputs[1]], constants[second.inputs[1]]
    depthwise = int(second.attribute("group")) > 1
    ranges = np.abs(before).reshape(len(before), -1).max(axis=1).astype(np.float64)
    along = after if depthwise else after.swapaxes(0, 1)
    next_ranges = np.abs(along).reshape(len(along), -1).max(axis=1).astype(np.float64)
    used = (ranges > 0) & (next_ranges > 0)
    factor = np.where(used, np.sqrt(ranges / np.where(used, next_ranges, 1)), 1).astype(np.float32)
    constants[first.inputs[1]] = before / factor.reshape(-1, *(1,) * (before.ndim - 1))
    if len(first.inputs) > 2 and first.inputs[2]:
        constants[first.inputs[2]] = constants[first.inputs[2]] / factor
    sides = (-1, *(1,) * (after.ndim - 1)) if depthwise else (1, -1, *(1,) * (after.ndim - 2))
    constants[second.inputs[1]] = after * factor.reshape(sides)
    return bool((np.abs(factor - 1) > 1e-3).any())
