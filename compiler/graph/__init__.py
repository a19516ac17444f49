# SPDX-License-Identifier: Apache-2.0
"""Networks as graphs: immutable nodes, their text, the rules that hold between passes."""

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.check import check_graph
from vdla.compiler.graph.graph import (
    OPSET,
    Array,
    Attribute,
    Extent,
    Graph,
    Node,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
)

__all__ = [
    "OPSET",
    "Array",
    "Attribute",
    "Extent",
    "Graph",
    "GraphError",
    "Node",
    "OptionalType",
    "SequenceType",
    "TensorType",
    "ValueType",
    "check_graph",
]
