# SPDX-License-Identifier: Apache-2.0
"""Which nodes can run: those with a tensor expression, with a NumPy function, or with bodies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from onnx import AttributeProto, GraphProto, NodeProto, defs

from vdla.compiler.graph.onnx.errors import UnsupportedError
from vdla.compiler.graph.onnx.load import LoadedModel
from vdla.compiler.graph.onnx.qonnx import DOMAINS
from vdla.compiler.graph.onnx.structure import node_label
from vdla.compiler.graph.onnx.values import operator_name
from vdla.compiler.graph.operators import RECORDS

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
_CONSTANT = "Constant"
_REPLACED = frozenset({"Scatter", "Upsample"})  # by their successors, at import
_RUNTIME = "com.microsoft"  # the domain of ONNX Runtime's own operators, or its beginning
_QUANTISED = ("QLinear", "QGemm", "QAttention", "QEmbed", "QOrdered")  # of its format QOperator
_QCDQ = "export the network with these, or with QuantizeLinear and DequantizeLinear (QCDQ)"
_MAPS = "values are tensors, sequences and optionals, not maps"
_REASONS = {
    ("ai.onnx.preview.training", "Gradient"): "models are run, not trained: nothing differentiates a graph",
    ("ai.onnx.ml", "CastMap"): _MAPS,
    ("ai.onnx.ml", "DictVectorizer"): _MAPS,
    ("ai.onnx.ml", "ZipMap"): f"{_MAPS}; as an output of the model it is the tensor that it takes (zipmap=False)",
}


def is_implemented(op: str) -> bool:
    """Whether an operator runs as it is, without its definition by other operators."""
    return op in RECORDS or op in CONTROL_FLOW or op == _CONSTANT


def check_supported(loaded: LoadedModel) -> None:
    """Refuses a model of the newest opset with nodes that can neither run nor be expanded.

    Raises:
        UnsupportedError: lists every such node, those of bodies included, with its reason.
    """
    reasons = dict(_reasons(loaded.model.graph, ""))
    if reasons:
        raise UnsupportedError(loaded.name, reasons)


def why_unsupported(domain: str, op: str) -> str:
    """The reason why an operator can neither run nor be expanded; empty if it can."""
    if is_implemented(operator_name(domain, op)) or (domain in ("", "ai.onnx") and op in _REPLACED):
        return ""
    known = "" if domain == "ai.onnx" else domain
    if known not in {schema_domain for schema_domain, _ in _schema_names()}:
        return _why_unknown(domain, op)
    if (known, op) not in _schema_names():
        return "ONNX has no such operator"
    schema = defs.get_schema(op, domain=known)
    if _has_definition(schema):
        return ""
    return _REASONS.get((known, op), "the operator has neither a kernel nor a function on the host")


def _why_unknown(domain: str, op: str) -> str:
    """Why an operator of a foreign domain cannot run; of ONNX Runtime's own, what to do."""
    unknown = f"operators of the domain {domain} are unknown"
    if domain in DOMAINS:
        return f"of QONNX's operators BipolarQuant, IntQuant, Quant and Trunc run, not {op}; {_QCDQ}"
    if not domain.startswith(_RUNTIME):
        return unknown
    if domain == _RUNTIME:
        unknown = f"{op} of ONNX Runtime is not among its operators that run"
    if op.startswith(_QUANTISED):
        return f"{unknown}; quantise the float model with quant_format=QuantFormat.QDQ instead of QOperator"
    return f"{unknown}; save the model without the extended optimisations of ONNX Runtime (ORT_ENABLE_BASIC)"


def _has_definition(schema: object) -> bool:
    return bool(getattr(schema, "has_function", False) or getattr(schema, "has_context_dependent_function", False))


@cache
def _schema_names() -> frozenset[tuple[str, str]]:
    return frozenset((schema.domain, schema.name) for schema in defs.get_all_schemas())


def _reasons(graph: GraphProto, place: str) -> Iterator[tuple[str, str]]:
    for node in graph.node:
        label = f"{place}{node_label(node)}"
        reason = why_unsupported(node.domain, node.op_type)
        if reason:
            yield label, reason
        for key, body in _bodies(node):
            yield from _reasons(body, f"{label}, {key}: ")


def _bodies(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
