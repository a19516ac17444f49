# SPDX-License-Identifier: Apache-2.0
"""Functions of one quantised value as a table of its 256 results.

The table is computed at compile time by the float operators between DequantizeLinear and
QuantizeLinear, whatever they are, so that the results do not depend on the device.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node
from vdla.compiler.graph.integer.affine import QuantisedActivation, activation, decline, quantise
from vdla.compiler.graph.integer.result import QuantisedResult
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.passes.fold_constants import Evaluate
from vdla.compiler.graph.rewriting import Replacement

_MOST_NODES = 32


def fuse_table(result: QuantisedResult, evaluate: Evaluate) -> Replacement:
    """vdla.QTable: the result for each of the 256 values of one activation."""
    graph = result.graph
    region, source = _region(result)
    every = ((np.arange(-128, 128) - source.zero_point) * source.scale).astype(np.float32)
    values = _values(graph, region, source, every, evaluate)
    if np.isnan(values).any():
        decline("be defined for every value of its operand, got NaN")
    table = quantise(values, result.scale, result.zero_point).clip(*result.bounds)
    node = Node("vdla.QTable", (source.name,), (result.name,), {"table": table}, region[-1].name)
    return Replacement((node,), matched=(*region, *result.nodes[:-1]))


def _region(result: QuantisedResult) -> tuple[list[Node], QuantisedActivation]:
    """The element-wise nodes, in order, that compute a value from one activation."""
    graph = result.graph
    members: dict[int, Node] = {}
    sources: dict[str, QuantisedActivation] = {}
    pending = [result.value]
    while pending:
        name = pending.pop()
        node = graph.producers.get(name)
        if (value := graph.constant(name)) is not None:
            if value.size != 1:
                decline(f"have scalar constants, got {list(value.shape)} for {name}")
        elif node is not None and node.op == "DequantizeLinear":
            sources[name] = activation(graph, name)
        elif node is None or not has_trait(node.op, Trait.FUNCTION) or len(members) > _MOST_NODES:
            decline(f"be a function of one quantised value, got {node.label if node else name}")
        elif id(node) not in members:
            members[id(node)] = node
            pending.extend(filter(None, node.inputs))
    if len(set(sources.values())) != 1:
        decline(f"be a function of one quantised value, got {len(set(sources.values()))}")
    region = [node for node in graph.nodes if id(node) in members]
    _check_readers(graph, region, result)
    return region, next(iter(sources.values()))


def _check_readers(graph: Graph, region: list[Node], result: QuantisedResult) -> None:
    """Refuses values with other readers, and results of another shape."""
    inside = {id(node) for node in (*region, *result.nodes)}
    for node in region:
        name = node.outputs[0]
        if name in graph.outputs or any(id(reader) not in inside for reader in graph.consumers.get(name, ())):
            decline(f"have float results that only a QuantizeLinear reads, got others of {name}")


def _values(graph: Graph, region: list[Node], source: QuantisedActivation, every: Array, evaluate: Evaluate) -> Array:
    """The float results for all values of the source."""
    known: dict[str, Array] = {}
    for node in region:
        operands = [_operand(graph, name, known, source, every) if name else None for name in node.inputs]
        known[node.outputs[0]] = np.asarray(evaluate(node, operands)[0]).reshape(every.shape)
    return known[region[-1].outputs[0]]


def _operand(graph: Graph, name: str, known: Mapping[str, Array], source: QuantisedActivation, every: Array) -> Array:
    if name in known:
        return known[name]
    value = graph.constant(name)
    return every if value is None else value.reshape(())
