"""A node's rule applied: its results as tensor expressions, checked against the node's types."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.graph.operators.table import RECORDS
from vdla.compiler.graph.rules.rule import DeclinedError, NodeCall
from vdla.support.errors import Error


def expressions(call: NodeCall) -> tuple[te.Tensor, ...]:
    """The results of a node, one tensor an output.

    Raises:
        DeclinedError: the operator has no rule, or its rule refuses the node; the message says why.
    """
    record = RECORDS.get(call.node.op)
    if record is None or record.expression is None:
        raise DeclinedError(f"{call.node.label}: the operator must have a tensor expression, got {call.node.op}")
    try:
        made = record.expression(call)
    except DeclinedError:
        raise
    except Error as error:
        raise DeclinedError(f"{call.node.label}: {error}") from error
    results = tuple(made) if isinstance(made, Sequence) else (made,)
    _check(call, results)
    return results


def _check(call: NodeCall, results: tuple[te.Tensor, ...]) -> None:
    """The results must have the element types of the node's outputs, and their shapes.

    A scalar has the shape [1], as tensor expressions have at least one dimension.
    """
    for name, kind, tensor in zip(call.node.outputs, call.types, results, strict=False):
        if not name or kind is None:
            continue
        if tensor.dtype != kind.dtype or (kind.static and tuple(tensor.shape) != (kind.extents or (1,))):
            got = f"{tensor.dtype}{list(tensor.shape)}"
            raise DeclinedError(f"{call.node.label}: {name} must be {kind} as the model says, got {got}")
