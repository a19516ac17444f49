# SPDX-License-Identifier: Apache-2.0
"""A call of a function as the nodes of its body, with names of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, defs, helper


def inlined(call: NodeProto, body: FunctionProto) -> list[NodeProto]:
    """The body's nodes with the call's values and attributes; names begin with its result's."""
    return list(_Inlined(call, body).nodes())


class _Inlined:
    def __init__(self, call: NodeProto, body: FunctionProto) -> None:
        self.body = body
        self.prefix = f"{next(filter(None, call.output), call.name)}/"
        given = dict(zip(body.input, call.input, strict=False))
        self.names = {name: given.get(name, "") for name in body.input}
        self.results = {name: outer for name, outer in zip(body.output, call.output, strict=False) if outer}
        self.names |= {name: outer for name, outer in self.results.items() if name not in self.names}
        self.attributes = {attribute.name: attribute for attribute in body.attribute_proto}
        self.attributes |= _schema_defaults(call.op_type, "" if call.domain == "ai.onnx" else call.domain)
        self.attributes |= {attribute.name: attribute for attribute in call.attribute}

    def nodes(self) -> Iterator[NodeProto]:
        for index, node in enumerate(self.body.node):
            yield self._node(node, index, self.names)
        for name in self.body.input:  # a result that is an input of the function
            if name in self.results:
                yield helper.make_node("Identity", [self.names[name]], [self.results[name]])

    def _node(self, node: NodeProto, index: int, names: dict[str, str]) -> NodeProto:
        made = NodeProto()
        made.op_type, made.domain, made.overload = node.op_type, node.domain, node.overload
        made.name = f"{self.prefix}{node.name or index}"
        made.input.extend(self._use(name, names) for name in node.input)
        resolved = (self._attribute(attribute, names) for attribute in node.attribute)
        made.attribute.extend(attribute for attribute in resolved if attribute is not None)
        made.output.extend(self._define(name, names) for name in node.output)
        return made

    def _use(self, name: str, names: Mapping[str, str]) -> str:
        return names.get(name, f"{self.prefix}{name}" if name else "")

    def _define(self, name: str, names: dict[str, str]) -> str:
        return names.setdefault(name, f"{self.prefix}{name}") if name else ""

    def _attribute(self, attribute: AttributeProto, names: Mapping[str, str]) -> AttributeProto | None:
        made = AttributeProto()
        if attribute.ref_attr_name:
            given = self.attributes.get(attribute.ref_attr_name)
            if given is None:
                return None
            made.CopyFrom(given)
            made.name = attribute.name
            return made
        made.CopyFrom(attribute)
        if attribute.type == AttributeProto.GRAPH:
            made.g.CopyFrom(self._graph(attribute.g, dict(names)))
        return made

    def _graph(self, graph: GraphProto, names: dict[str, str]) -> GraphProto:
        made = GraphProto()
        made.CopyFrom(graph)
        del made.node[:]
        del made.value_info[:]
        for value in (*made.input, *made.initializer):
            names[value.name] = f"{self.prefix}{value.name}"
            value.name = names[value.name]
        for node in graph.node:
            names |= {name: f"{self.prefix}{name}" for name in node.output if name}
        made.node.extend(self._node(node, index, names) for index, node in enumerate(graph.node))
        for value in made.output:
            value.name = self._use(value.name, names)
        return made


@cache
def _schema_defaults(op: str, domain: str) -> Mapping[str, AttributeProto]:
    """The defaults of an operator's attributes; none for functions of a model."""
    try:
        schema = defs.get_schema(op, domain=domain)
    except defs.SchemaError:
        return {}
    return {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name}
