# SPDX-License-Identifier: Apache-2.0
"""The scores of attention while a network is calibrated: a result of each node that shall run on
integers, then a scale that the node has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import NotIntegerError
from vdla.compiler.graph.integer.attention import SCORE_SCALE, heads_of, problem_of
from vdla.compiler.graph.rewriting import unused_name, without_dead_code

_MODE = "qk_matmul_output_mode"
_ATTENDED = 2  # minus infinity where a query does not attend
_SCORES = 3


def scores_of(node: Node) -> str:
    """The result of an Attention that has its scores; empty if there is none."""
    shown = node.op == "Attention" and len(node.outputs) > _SCORES and node.attributes.get(_MODE) == _ATTENDED
    return node.outputs[_SCORES] if shown else ""


def with_scores(graph: Graph) -> Graph:
    """The graph with the scores of attention as results, of the nodes that can run on integers."""
    nodes, types = list[Node](), dict(graph.types)
    for node in graph.nodes:
        if node.op != "Attention" or _problem(graph, node):
            nodes.append(node)
            continue
        name = unused_name(types, f"{node.outputs[0]}_scores")
        types[name] = TensorType(graph.tensor(node.outputs[0]).dtype, (None,) * 4)
        outputs = (*node.outputs, *("",) * (_SCORES - len(node.outputs)), name)
        nodes.append(replace(node, outputs=outputs, attributes={**node.attributes, _MODE: _ATTENDED}))
    return graph.replace(nodes=tuple(nodes), types=types)


def why_no_scores(graph: Graph, keep_float: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Attention that cannot run on integers, but for nodes that `keep_float` names: its label, and
    what it must do; the rule reads after "must".
    """
    for node in graph.nodes:
        names = {node.name, *node.outputs}
        if node.op == "Attention" and names.isdisjoint(keep_float) and (problem := _problem(graph, node)):
            yield node.label, problem


def _problem(graph: Graph, node: Node) -> str:
    """What an Attention must do to run on integers; empty if it does."""
    if any(node.outputs[_SCORES:]):
        return "not show its scores"
    try:
        heads_of(graph, node)
    except NotIntegerError as error:
        return str(error)
    return problem_of(graph, node)


def with_score_scales(graph: Graph) -> Graph:
    """The graph without scores as results; a node whose scores were quantised has their scale."""
    return without_dead_code(graph.replace(nodes=tuple(_without_scores(graph, node) for node in graph.nodes)))


def _without_scores(graph: Graph, node: Node) -> Node:
    scores = scores_of(node)
    if not scores:
        return node
    attributes = {name: value for name, value in node.attributes.items() if name != _MODE}
    for reader in graph.consumers.get(scores, ()):
        attributes[SCORE_SCALE] = float(graph.constants[reader.inputs[1]].reshape(()))
    outputs = node.outputs[:_SCORES]
    while not outputs[-1]:
        outputs = outputs[:-1]
    return replace(node, outputs=outputs, attributes=attributes)
