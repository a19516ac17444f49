# SPDX-License-Identifier: Apache-2.0
"""Integer operators of TensorFlow Lite with the rounding of the machine.

The accelerator requantises with multipliers of 24 bits and rounds half to even. So that results do
not depend on which operators it runs, the CPU beside it does the same.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.operators import RECORDS

_OF_TFLITE = ("fixed_point", "half_away")


def round_as_machine(graph: Graph) -> Graph:
    """The graph whose operators all round as the machine does."""
    nodes = tuple(map(_rounded, graph.nodes))
    return graph if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)) else replace(graph, nodes=nodes)


def _rounded(node: Node) -> Node:
    record = RECORDS.get(node.op)
    has_both = record is not None and "fixed_point" in (record.attributes or {}) and "fixed_point" in node.attributes
    if not has_both:
        return node
    kept = {name: value for name, value in node.attributes.items() if name not in _OF_TFLITE}
    return replace(node, attributes=kept)
