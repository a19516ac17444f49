"""The records of all operators, those that a program adds included."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vdla.compiler.graph.errors import GraphError
from vdla.compiler.graph.operators.attention import ATTENTION
from vdla.compiler.graph.operators.broadcast import BROADCAST
from vdla.compiler.graph.operators.cumulative import CUMULATIVE
from vdla.compiler.graph.operators.einsum import EINSUM
from vdla.compiler.graph.operators.elementwise import ELEMENTWISE
from vdla.compiler.graph.operators.gathers import GATHERS
from vdla.compiler.graph.operators.host_only import HOST_ONLY
from vdla.compiler.graph.operators.inverse_functions import INVERSE_FUNCTIONS
from vdla.compiler.graph.operators.movement import MOVEMENT
from vdla.compiler.graph.operators.normalisations import NORMALISATIONS
from vdla.compiler.graph.operators.products import PRODUCTS
from vdla.compiler.graph.operators.quantise_linear import QUANTISE_LINEAR
from vdla.compiler.graph.operators.quantised import QUANTISED
from vdla.compiler.graph.operators.record import OperatorRecord, Trait
from vdla.compiler.graph.operators.recurrent import RECURRENT
from vdla.compiler.graph.operators.reductions import REDUCTIONS
from vdla.compiler.graph.operators.resize import RESIZE
from vdla.compiler.graph.operators.sampling import SAMPLING
from vdla.compiler.graph.operators.sequences import SEQUENCES
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
    QUANTISE_LINEAR,
    QUANTISED,
    RECURRENT,
    REDUCTIONS,
    RESIZE,
    SAMPLING,
    SEQUENCES,
    WINDOWED,
)
_RECORDS = {record.name: record for family in _FAMILIES for record in family}
RECORDS: Mapping[str, OperatorRecord] = MappingProxyType(_RECORDS)
"""The records by the operator's name."""


def register(*records: OperatorRecord) -> None:
    """Adds operators of a program of the user, before a graph with nodes of them is made.

    Raises:
        GraphError: an operator of that name is known.
    """
    for record in records:
        if record.name in _RECORDS:
            raise GraphError(f"register: the operator must have a new name, got {record.name}")
        _RECORDS[record.name] = record


def has_expression(op: str) -> bool:
    """Whether an operator has a tensor expression."""
    return op in RECORDS and RECORDS[op].expression is not None


def has_trait(op: str, trait: Trait) -> bool:
    """Whether an operator is known, and of one of these kinds."""
    return op in RECORDS and RECORDS[op].has(trait)
