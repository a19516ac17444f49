# SPDX-License-Identifier: Apache-2.0
"""Scans whose steps do not depend on each other, as operators on all steps at once.

Exporters write distances of rows so: a Scan whose states stay as they are, and whose body has
element-wise operators and reductions. A value of a step gets the steps as its first dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.operators import RECORDS, Trait, has_trait
from vdla.compiler.graph.operators.broadcast import BROADCAST
from vdla.compiler.graph.passes.expansion import Expansion, UnsuitableError
from vdla.compiler.graph.passes.fold_constants import InferNode, refine_types
from vdla.compiler.graph.rewriting import Replacement, rewrite

_BROADCAST = frozenset(record.name for record in BROADCAST)


def map_scans(graph: Graph, infer: InferNode) -> Graph:
    """The graph with operators on all steps in place of Scans of independent steps."""

    def rule(graph: Graph, node: Node) -> Replacement | None:
        if node.op != "Scan":
            return None
        expansion = _Mapping(graph, node, infer)
        try:
            return expansion.replacement(expansion.results())
        except UnsuitableError:
            return None

    mapped = rewrite(graph, (rule,))
    return graph if mapped is graph else refine_types(mapped, infer)


@dataclass(eq=False)
class _Mapping(Expansion):
    """A Scan in the graph around it: `outer` has the values of its body, `stacked` those with the
    steps as first dimension.
    """

    outer: dict[str, str] = field(default_factory=dict)
    stacked: set[str] = field(default_factory=set)

    def results(self) -> Sequence[str]:
        """The values in place of the results of the Scan."""
        body, attributes = self.node.bodies["body"], self.node.attributes
        last = len(body.inputs) - attributes["captures"]
        first = last - attributes["num_scan_inputs"]
        places = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")
        if any(any(self.attribute(name, ())) for name in places):
            raise UnsuitableError
        self.outer = dict(zip(body.inputs, self.node.inputs, strict=True))
        self.outer |= {name: self.constant(value) for name, value in body.constants.items()}
        self.stacked = set(body.inputs[first:last])
        for node in body.nodes:
            self._map(body, node)
        states, rows = body.outputs[:first], body.outputs[first:]
        if [self.outer[name] for name in states] != list(self.node.inputs[:first]) or not self.stacked.issuperset(rows):
            raise UnsuitableError
        return [self.outer[name] for name in body.outputs]

    def _map(self, body: Graph, node: Node) -> None:
        """Add what computes the result of a node of the body for all steps."""
        if len(node.outputs) != 1 or not all(node.inputs):
            raise UnsuitableError
        (result,) = node.outputs
        if node.op == "Identity":
            self.outer[result] = self.outer[node.inputs[0]]
        else:
            self.outer[result] = self._mapped(body, node)
        if not self.stacked.isdisjoint(node.inputs):
            self.stacked.add(result)

    def _mapped(self, body: Graph, node: Node) -> str:
        if self.stacked.isdisjoint(node.inputs):
            return self.add(node.op, *(self.outer[name] for name in node.inputs), **node.attributes)
        if node.op.startswith("Reduce"):
            inputs = self._reduced(body, node)
        elif has_trait(node.op, Trait.ELEMENTWISE) and (len(node.inputs) == 1 or node.op in _BROADCAST):
            inputs = self._aligned(body, node)
        else:
            raise UnsuitableError
        made = self.add(node.op, *inputs, **node.attributes)
        if len(self.type_of(made).shape or ()) != len(_shape(body, node.outputs[0])) + 1:
            raise UnsuitableError
        return made

    def _reduced(self, body: Graph, node: Node) -> list[str]:
        """The operands of a reduction, its axes behind that of the steps."""
        x, *axes = node.inputs
        if (
            node.op not in RECORDS
            or len(axes) != 1
            or axes[0] not in body.constants
            or not body.constants[axes[0]].size
        ):
            raise UnsuitableError
        rank = len(_shape(body, x))
        return [self.outer[x], self.integers(*(axis % rank + 1 for axis in body.constants[axes[0]].tolist()))]

    def _aligned(self, body: Graph, node: Node) -> list[str]:
        """Operands that broadcast: those of steps have the rank of the result and one more."""
        rank = len(_shape(body, node.outputs[0]))
        aligned = []
        for name in node.inputs:
            value, missing = self.outer[name], rank - len(_shape(body, name))
            if name in self.stacked and missing:
                value = self.add("Unsqueeze", value, self.constant(np.arange(1, missing + 1)))
            aligned.append(value)
        return aligned


def _shape(body: Graph, name: str) -> Sequence[object]:
    """The shape of a value of a body, which has a rank."""
    kind = body.types.get(name)
    if not isinstance(kind, TensorType) or kind.shape is None:
        raise UnsuitableError
    return kind.shape
