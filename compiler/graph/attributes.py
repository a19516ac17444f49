# SPDX-License-Identifier: Apache-2.0
"""The attributes of operators: types, defaults, which ones are required.

ONNX's operators have them in ONNX's schemas, others declare them. Attributes whose name begins with
"vdla." say how a node is computed, and are valid on any node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from vdla.support.errors import Error

CAPTURES = "captures"
HINT = "vdla."
# Attributes of ONNX that hold an element type, which is its name in a graph.
DTYPE_ATTRIBUTES = frozenset(
    {"to", "dtype", "output_dtype", "output_datatype", "softmax_precision", "stash_type", "precision"}
)
_KINDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "INT": ("an integer", (int, np.integer)),
    "FLOAT": ("a number", (int, float, np.floating)),
    "STRING": ("a string", (str, bytes)),
    "TENSOR": ("an array", (np.ndarray,)),
    "INTS": ("a tuple of integers", (tuple, list)),
    "FLOATS": ("a tuple of numbers", (tuple, list)),
    "STRINGS": ("a tuple of strings", (tuple, list)),
}
_OF_TYPE = {bool: "INT", int: "INT", float: "FLOAT", str: "STRING", tuple: "INTS", np.ndarray: "TENSOR"}


class GraphError(Error, ValueError):
    """A graph that breaks a rule; the message names graph, node or value."""


@dataclass(frozen=True, slots=True)
class AttributeType:
    """The kind of an attribute, as ONNX calls it, or its class; None means no default."""

    kind: str | type
    default: Any = None
    is_required: bool = False


Schema = Mapping[str, AttributeType]
_DECLARED: dict[str, Schema] = {}


def declare_attributes(op: str, attributes: Mapping[str, Any]) -> None:
    """Declares the attributes of an operator by their defaults, or required ones by a type."""
    _DECLARED[op] = {name: _declared(value) for name, value in attributes.items()}


def _declared(value: Any) -> AttributeType:  # noqa: ANN401  a default, or a type
    if isinstance(value, type):
        return AttributeType(_OF_TYPE.get(value, value), is_required=True)
    return AttributeType(_OF_TYPE[type(value)], value)


def schema_of(op: str) -> Schema | None:
    """The attributes of an operator; None if neither ONNX nor a record knows it."""
    return _DECLARED[op] if op in _DECLARED else None if op.startswith(HINT) else _onnx_schema(op)


@cache
def _onnx_schema(op: str) -> Schema | None:
    from onnx import defs, helper

    domain, _, name = op.rpartition(".")
    try:
        schema = defs.get_schema(name, domain=domain)
    except defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    attributes: dict[str, AttributeType] = {}
    formal: Any  # the stubs of onnx lack `type.name`
    for key, formal in schema.attributes.items():
        kind = "STRING" if key in DTYPE_ATTRIBUTES else formal.type.name
        known = None if key in DTYPE_ATTRIBUTES or not formal.default_value.name else formal.default_value
        attributes[key] = AttributeType(kind, _python(helper, known), formal.required)
    if any(attribute.kind == "GRAPH" for attribute in attributes.values()):
        attributes[CAPTURES] = AttributeType("INT")
    return MappingProxyType(attributes)


def _python(helper: Any, default: Any) -> Any:  # noqa: ANN401  of onnx, without types
    """A default as an attribute of a graph; floats are the shortest numbers of their float32."""
    match None if default is None else helper.get_attribute_value(default):
        case bytes() as text:
            return text.decode()
        case float() as number:
            return float(str(np.float32(number)))
        case list() as values:
            return tuple(values)
        case value:
            return value


def _rule(kind: str | type) -> tuple[str, tuple[type, ...]]:
    """The rule for attributes of a kind, in words, and its classes."""
    return (f"of the class {kind.__name__}", (kind,)) if isinstance(kind, type) else _KINDS.get(kind, ("", (object,)))


def check_attributes(label: str, op: str, attributes: Mapping[str, Any]) -> None:
    """Refuses attributes that an operator does not have, of another type, or missing.

    Raises:
        GraphError: the first of them, with the rule that it breaks.
    """
    schema = schema_of(op)
    if schema is None:
        return
    for name, value in attributes.items():
        if name.startswith(HINT):
            continue
        if name not in schema:
            known = ", ".join(schema) or "none"
            raise GraphError(f"{label}: attributes must be those of {op} ({known}), got {name}")
        what, types = _rule(schema[name].kind)
        if not isinstance(value, types):
            raise GraphError(f"{label}: attribute {name} must be {what}, got {value!r}")
    for name, attribute in schema.items():
        if attribute.is_required and name not in attributes:
            raise GraphError(f"{label}: attribute {name} must be given, got none")
