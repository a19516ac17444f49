# SPDX-License-Identifier: Apache-2.0
"""The expansion of a node: names, constants and types of its replacements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Array, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.passes.fold_constants import InferNode
from vdla.compiler.graph.rewriting import Replacement, fresh_name


class UnsuitableError(GraphError):
    """A node that stays as it is."""


@dataclass(eq=False)
class Expansion:
    """The nodes that replace one; `infer` infers the types of their results."""

    graph: Graph
    node: Node
    infer: InferNode
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    types: dict[str, ValueType] = field(default_factory=dict)

    def attribute(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  an attribute of any type
        """An attribute of the old node."""
        return self.node.attributes.get(name, default)

    def type_of(self, name: str) -> TensorType:
        """The type of a value of known rank."""
        kind = self.types.get(name) or self.graph.types.get(name)
        if not isinstance(kind, TensorType) or kind.shape is None:
            raise UnsuitableError
        return kind

    def constant(self, value: Array) -> str:
        """A new constant."""
        name = fresh_name(self.graph, f"{self.node.outputs[0] or self.node.outputs[1]}_c{len(self.constants)}")
        self.constants[name] = value
        self.types[name] = TensorType("str" if value.dtype == object else value.dtype.name, value.shape)
        return name

    def floats(self, *values: float) -> str:
        """A constant of one float32, or a row of several."""
        return self.constant(np.array(values if len(values) != 1 else values[0], np.float32))

    def integers(self, *values: int) -> str:
        """A constant of a row of int64."""
        return self.constant(np.array(values, np.int64))

    def add(self, op: str, *inputs: str, kind: TensorType | None = None, **attributes: Any) -> str:  # noqa: ANN401
        """The result of a new node; its type is inferred where it is not stated."""
        name = fresh_name(
            self.graph, f"{self.node.outputs[0] or self.node.outputs[1]}_{op.rpartition('.')[2]}{len(self.nodes)}"
        )
        node = Node(op, inputs, (name,), attributes, self.node.name)
        self.nodes.append(node)
        known = {**self.graph.types, **self.types, name: TensorType("float32", None)}
        self.types |= {name: kind} if kind else self.infer(node, known, {**self.graph.constants, **self.constants})
        self.type_of(name)
        return name

    def cast(self, name: str, dtype: str) -> str:
        """A value as a dtype."""
        return name if self.type_of(name).dtype == dtype else self.add("Cast", name, to=dtype)

    def replacement(self, results: Sequence[str]) -> Replacement:
        """The new nodes; the last ones have the outputs of the old node."""
        made = {name for node in self.nodes for name in node.outputs}
        pairs = [(old, new) for old, new in zip(self.node.outputs, results, strict=True) if old]
        names = {new: old for old, new in pairs if new in made}
        types = {names.get(name, name): kind for name, kind in self.types.items()}
        renamed = {old: new for old, new in pairs if names.get(new) != old}
        nodes = tuple(
            replace(
                node,
                inputs=tuple(names.get(name, name) for name in node.inputs),
                outputs=tuple(names.get(name, name) for name in node.outputs),
            )
            for node in self.nodes
        )
        return Replacement(nodes, self.constants, types, renamed)
