"""The rules that ONNX's schemas have for nodes: numbers of inputs and outputs, attributes.

ONNX's own inference takes them for granted, so they are checked before it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from onnx import AttributeProto, NodeProto, defs

from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.compiler.graph.onnx.structure import node_label

_SINGLE = "Single"


def check_nodes(nodes: Iterable[NodeProto], versions: Mapping[str, int], place: str) -> None:
    """Refuses nodes that break the rules of their operators; unknown operators pass.

    Raises:
        OnnxError: a wrong number of inputs or outputs, an attribute of a wrong type or missing.
    """
    for node in nodes:
        domain = "" if node.domain == "ai.onnx" else node.domain
        schema = _schema(node.op_type, domain, versions.get(domain, 1))
        if schema is not None:
            _check_node(node, schema, f"{place}: {node_label(node)}")
        for attribute in node.attribute:
            bodies = [*attribute.graphs, *([attribute.g] if attribute.type == AttributeProto.GRAPH else [])]
            for body in bodies:
                check_nodes(body.node, versions, f"{place}, {attribute.name} of {node_label(node)}")


@cache
def _schema(op: str, domain: str, version: int) -> Any:  # noqa: ANN401  a class of onnx without types
    try:
        return defs.get_schema(op, version, domain) if 0 < version < 1 << 31 else None
    except defs.SchemaError:
        return None


def _check_node(node: NodeProto, schema: Any, where: str) -> None:  # noqa: ANN401
    for what, names, least, most in (
        ("inputs", node.input, schema.min_input, schema.max_input),
        ("outputs", node.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}" if most < 1 << 30 else f"at least {least}"
            raise OnnxError(f"{where}: the number of {what} must be {wanted}, got {len(names)}")
    for formal, name in zip(schema.inputs, node.input, strict=False):
        if not name and formal.option.name == _SINGLE:
            raise OnnxError(f"{where}: input {formal.name} must be given, got none")
    _check_attributes(node, schema, where)


def _check_attributes(node: NodeProto, schema: Any, where: str) -> None:  # noqa: ANN401
    names = [attribute.name for attribute in node.attribute]
    if len(set(names)) != len(names):
        raise OnnxError(f"{where}: attributes must have different names, got {', '.join(names)}")
    for attribute in node.attribute:
        formal = schema.attributes.get(attribute.name)
        if formal is not None and attribute.type != formal.type.value and not attribute.ref_attr_name:
            got = AttributeProto.AttributeType.Name(attribute.type)
            raise OnnxError(f"{where}: attribute {attribute.name} must be of type {formal.type.name}, got {got}")
    missing = [name for name, formal in schema.attributes.items() if formal.required and name not in names]
    if missing:
        raise OnnxError(f"{where}: attribute {missing[0]} must be given, got none")
