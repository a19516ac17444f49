# SPDX-License-Identifier: Apache-2.0
"""The records of all operators, including those registered by a program."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vdla.compiler.graph.attributes import GraphError, declare_attributes
from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.operators.attention import ATTENTION
from vdla.compiler.graph.operators.broadcast import BROADCAST
from vdla.compiler.graph.operators.elementwise import ELEMENTWISE
from vdla.compiler.graph.operators.host_only import HOST_ONLY
from vdla.compiler.graph.operators.inverse_functions import INVERSE_FUNCTIONS
from vdla.compiler.graph.operators.movement import GATHERS, MOVEMENT
from vdla.compiler.graph.operators.normalisations import NORMALISATIONS
from vdla.compiler.graph.operators.products import EINSUM, PRODUCTS
from vdla.compiler.graph.operators.quantised import PRODUCT_TERMS, QUANTISE_LINEAR, QUANTISED
from vdla.compiler.graph.operators.record import OperatorRecord, Trait
from vdla.compiler.graph.operators.recurrent import RECURRENT
from vdla.compiler.graph.operators.reductions import CUMULATIVE, REDUCTIONS
from vdla.compiler.graph.operators.resize import RESIZE
from vdla.compiler.graph.operators.sampling import SAMPLING
from vdla.compiler.graph.operators.sequences import SEQUENCES
from vdla.compiler.graph.operators.top_k import TOP_K
from vdla.compiler.graph.operators.trees import TREES
from vdla.compiler.graph.operators.windowed import WINDOWED

_FAMILIES = (
    ATTENTION,
    BROADCAST,
    CUMULATIVE,
    EINSUM,
    ELEMENTWISE,
    GATHERS,
    HOST_ONLY,
    INVERSE_FUNCTIONS,
    MOVEMENT,
    NORMALISATIONS,
    PRODUCTS,
    PRODUCT_TERMS,
    QUANTISE_LINEAR,
    QUANTISED,
    RECURRENT,
    REDUCTIONS,
    RESIZE,
    SAMPLING,
    SEQUENCES,
    TOP_K,
    TREES,
    WINDOWED,
)
_RECORDS: dict[str, OperatorRecord] = {}
RECORDS: Mapping[str, OperatorRecord] = MappingProxyType(_RECORDS)
"""The records by the operator's name."""


def register(*records: OperatorRecord) -> None:
    """Adds operators; call it before making a graph with nodes of them.

    Raises:
        GraphError: an operator of that name is known.
    """
    for record in records:
        if record.name in _RECORDS:
            raise GraphError(f"register: the operator must have a new name, got {record.name}")
        _RECORDS[record.name] = record
        if record.attributes is not None:
            declare_attributes(record.name, record.attributes)


for _family in _FAMILIES:
    register(*_family)


def has_expression(op: str) -> bool:
    """Whether an operator has a tensor expression."""
    return op in RECORDS and RECORDS[op].expression is not None


def has_trait(op: str, trait: Trait) -> bool:
    """Whether an operator is known and has one of these traits."""
    return op in RECORDS and RECORDS[op].has(trait)


# --- aliases --------------------------------------------------------------------------------------


def is_alias(graph: Graph, node: Node) -> bool:
    """Whether a node only gives a value another shape in the same memory."""
    if not has_trait(node.op, Trait.RESHAPE) or node.inputs[0] in graph.constants or node.outputs[0] in graph.outputs:
        return False
    kinds = [graph.types[name] for name in (node.inputs[0], node.outputs[0])]
    return all(isinstance(kind, TensorType) and kind.static and kind.dtype != "str" for kind in kinds)


def alias_sources(graph: Graph) -> dict[str, str]:
    """For each alias, the value that owns the memory."""
    sources: dict[str, str] = {}
    for node in graph.nodes:
        if is_alias(graph, node):
            sources[node.outputs[0]] = sources.get(node.inputs[0], node.inputs[0])
    return sources
