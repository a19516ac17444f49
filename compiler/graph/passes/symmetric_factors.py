# SPDX-License-Identifier: Apache-2.0
"""Factors of attention's products with the zero point 0, for machines that compute softmax.

A zero point of the second factor adds terms to rows of the first, and one of the first adds sums of
columns of the second, both of which the host computes. Where softmax is on the machine, these would
be all that interrupts its program. What makes a factor is requantised to the zero point 0 instead:
a step grows by as much as the range of the factor is not symmetric, for shares to twice its size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.integer.affine import multipliers
from vdla.compiler.graph.operators import Trait, has_trait

_LARGEST = 127
_MAKERS = ("vdla.QDense", "vdla.QRowSoftmax")


def symmetric_factors(graph: Graph) -> Graph:
    """The graph whose products before and behind a softmax have factors with the zero point 0."""
    changed: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "vdla.QMatMul" and _is_of_attention(graph, node):
            _make_symmetric(graph, node, changed)
    if not changed:
        return graph
    return graph.replace(nodes=tuple(changed.get(node.outputs[0], node) for node in graph.nodes))


def _is_of_attention(graph: Graph, node: Node) -> bool:
    maker = _maker(graph, node.inputs[0])
    readers = graph.consumers.get(node.outputs[0], ())
    behind = maker is not None and maker.op == "vdla.QRowSoftmax"
    return behind or any(reader.op == "vdla.QRowSoftmax" for reader in readers)


def _maker(graph: Graph, name: str) -> Node | None:
    """The node that makes a value which nothing else reads, before it is moved."""
    while graph.readers(name) == 1 and name not in graph.outputs:
        node = graph.producers.get(name)
        if node is None or not has_trait(node.op, Trait.MOVEMENT):
            return node
        name = node.inputs[0]
    return None


def _make_symmetric(graph: Graph, product: Node, changed: dict[str, Node]) -> None:
    """Both factors, each if one of `_MAKERS` makes it for this product alone."""
    factor, attributes = 1.0, dict(product.attributes)
    for name, key in zip(product.inputs, ("a_zero_point", "b_zero_point"), strict=False):
        maker = _maker(graph, name)
        if not attributes[key] or maker is None or maker.op not in _MAKERS:
            continue
        made, step = _symmetric(maker)
        changed[maker.outputs[0]] = made
        attributes[key] = 0
        factor *= step
    if factor != 1.0:
        attributes |= multipliers(_real(product) * factor)
        changed[product.outputs[0]] = replace(product, attributes=attributes)


def _symmetric(node: Node) -> tuple[Node, float]:
    """A node whose result has the zero point 0, and the size of its steps in those before."""
    attributes: dict[str, Any] = dict(node.attributes)
    zero = attributes["y_zero_point"]
    low, high = attributes["low"] - zero, attributes["high"] - zero
    step = max(-low, high) / _LARGEST
    attributes |= {"y_zero_point": 0, "low": round(low / step), "high": round(high / step)}
    attributes |= multipliers(_real(node) / step)
    return replace(node, attributes=attributes), step


def _real(node: Node) -> Any:  # noqa: ANN401  an array
    """The real multipliers of a node."""
    return np.ldexp(node.attributes["multiplier"].astype(np.float64), -node.attributes["shift"])
