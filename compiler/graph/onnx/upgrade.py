# SPDX-License-Identifier: Apache-2.0
"""Walks a model and applies the table of upgrades; each upgrade leads to `OPSET` in one step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from onnx import (
    IR_VERSION,
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    checker,
    defs,
    helper,
    numpy_helper,
    shape_inference,
)

from vdla.compiler.graph.graph import OPSET, Array
from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.compiler.graph.onnx.infer import has_short_vectors
from vdla.compiler.graph.onnx.inline import inlined
from vdla.compiler.graph.onnx.load import LARGE, LoadedModel
from vdla.compiler.graph.onnx.old_node import OldNode
from vdla.compiler.graph.onnx.structure import check_nodes, node_label
from vdla.compiler.graph.onnx.upgrades import UPGRADES
from vdla.compiler.graph.onnx.values import array_of

OLDEST = 6
_ML_OPSET = 4  # opset 5 removes tree ensembles of older models; the other operators are the same
_NO_OPSET = 1 << 31
_DEPTH = 64  # of functions that call functions

_Functions = Mapping[tuple[str, str, str], FunctionProto]


def versions_of(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """The opset of each domain; the default domain is the empty name.

    Raises:
        OnnxError: a number that no opset has.
    """
    versions = {"" if entry.domain == "ai.onnx" else entry.domain: int(entry.version) for entry in imports}
    for domain, version in versions.items():
        if not 0 < version < _NO_OPSET:
            raise OnnxError(f"opset of {domain or 'ai.onnx'} must be a positive number, got {version}")
    return versions


def upgrade_model(loaded: LoadedModel) -> LoadedModel:
    """The model with operators of `OPSET` only, without functions of its own.

    Raises:
        OnnxError: the opset is too old or too new, or a node cannot be upgraded.
    """
    versions = versions_of(loaded.model.opset_import)
    _check_opset(loaded.name, versions.get("", 1), loaded.model.graph.node)
    check_nodes(loaded.model.graph.node, versions, loaded.name)
    for function in loaded.model.functions:
        check_nodes(function.node, versions_of(function.opset_import), f"{loaded.name}, function {function.name}")
    functions = {(f.domain, f.name, f.overload): f for f in loaded.model.functions}
    model = ModelProto()
    model.ir_version = IR_VERSION
    model.graph.CopyFrom(loaded.model.graph)
    upgrader = _Upgrader(functions, _types(loaded), loaded.weights)
    upgrader.graph(model.graph, versions)
    used = {domain for domain in versions if domain and not any(key[0] == domain for key in functions)}
    used |= upgrader.domains
    model.opset_import.append(helper.make_opsetid("", OPSET))
    model.opset_import.extend(helper.make_opsetid(domain, _newest(domain, versions)) for domain in sorted(used - {""}))
    return loaded.with_model(model)


def upgraded_nodes(nodes: Iterable[NodeProto], versions: Mapping[str, int]) -> list[NodeProto]:
    """Nodes of the opsets `versions` as nodes of `OPSET`."""
    return _Upgrader({}, {}).nodes(nodes, versions, 0)


def _check_opset(place: str, version: int, nodes: Iterable[NodeProto]) -> None:
    """Refuses opsets outside the range, except older ones with operators that did not change."""
    ops = {node.op_type for node in nodes if node.domain in ("", "ai.onnx")}
    if version < OLDEST and all(_since(op, "", version) == _since(op, "", OLDEST) > 0 for op in ops):
        return
    if not OLDEST <= version <= OPSET:
        raise OnnxError(f"{place}: opset must be {OLDEST} to {OPSET}, got {version}")


def _newest(domain: str, versions: Mapping[str, int]) -> int:
    version = versions.get(domain, 1)
    return max(version, _ML_OPSET) if domain == "ai.onnx.ml" else version


def _types(loaded: LoadedModel) -> dict[str, TypeProto]:
    """Types of the values of a model, as far as they are easily known."""
    model = loaded.model
    try:
        typed = shape_inference.infer_shapes(model, data_prop=has_short_vectors(model.graph))
    except (shape_inference.InferenceError, checker.ValidationError, RuntimeError, ValueError, MemoryError):
        return dict(loaded.declared)
    graph = typed.graph
    types = {value.name: value.type for value in (*graph.value_info, *graph.input, *graph.output)}
    known = {name: kind for name, kind in types.items() if kind.tensor_type.HasField("shape")}
    return {**types, **loaded.declared, **known, **_tensor_types(graph.initializer)}


def _tensor_types(tensors: Iterable[TensorProto]) -> dict[str, TypeProto]:
    return {t.name: helper.make_tensor_type_proto(t.data_type, tuple(t.dims)) for t in tensors}


def _constant_types(nodes: Iterable[NodeProto]) -> dict[str, TypeProto]:
    """The types of Constant nodes; bodies and functions have no other types."""
    types: dict[str, TypeProto] = {}
    for node in nodes:
        if node.op_type == "Constant" and len(node.attribute) == 1 and node.attribute[0].HasField("t"):
            tensor = node.attribute[0].t
            kind = helper.make_tensor_type_proto(tensor.data_type, tuple(tensor.dims))
            types |= dict.fromkeys(node.output, kind)
    return types


def _constant_values(nodes: Iterable[NodeProto]) -> dict[str, Array]:
    constants = (node for node in nodes if node.op_type == "Constant" and len(node.attribute) == 1)
    return {node.output[0]: array_of(node.attribute[0].t) for node in constants if node.attribute[0].HasField("t")}


def _result_types(
    node: NodeProto, types: Mapping[str, TypeProto], constants: Mapping[str, Array]
) -> dict[str, TypeProto]:
    """The types of the results of a node of `OPSET`; none where they do not follow."""
    if not types.keys() >= set(filter(None, node.input)):
        return {}
    inputs = {name: types[name] for name in node.input if name}
    small = {name: constants[name] for name in node.input if name in constants and constants[name].size <= LARGE}
    data = {name: numpy_helper.from_array(value, name) for name, value in small.items()}
    opsets = [helper.make_opsetid("", OPSET)]
    try:
        schema = defs.get_schema(node.op_type, OPSET, node.domain)
        made = shape_inference.infer_node_outputs(schema, node, inputs, data, opset_imports=opsets)
    except (defs.SchemaError, shape_inference.InferenceError, checker.ValidationError, RuntimeError, ValueError):
        return {}
    return {name: kind for name, kind in made.items() if name}


class _Upgrader:
    def __init__(
        self, functions: _Functions, types: Mapping[str, TypeProto], constants: Mapping[str, Array] | None = None
    ) -> None:
        self.functions, self.types, self.constants = functions, dict(types), dict(constants or {})
        self.domains: set[str] = set()

    def graph(self, graph: GraphProto, versions: Mapping[str, int], depth: int = 0) -> None:
        """Upgrades the nodes of a graph in place."""
        self.types |= _tensor_types(graph.initializer)
        self.constants |= {tensor.name: array_of(tensor) for tensor in graph.initializer}
        made = self.nodes(graph.node, versions, depth)
        copies = [NodeProto.FromString(node.SerializeToString()) for node in made]
        del graph.node[:]
        graph.node.extend(copies)

    def nodes(self, nodes: Iterable[NodeProto], versions: Mapping[str, int], depth: int) -> list[NodeProto]:
        """The nodes, each upgraded or replaced by the body of its function."""
        nodes = list(nodes)
        self.types |= _constant_types(nodes)
        self.constants |= _constant_values(nodes)
        if depth > _DEPTH:
            raise OnnxError(f"functions of the model must not call themselves, got more than {_DEPTH} nested calls")
        return [made for node in nodes for made in self._node(node, versions, depth)]

    def _node(self, node: NodeProto, versions: Mapping[str, int], depth: int) -> list[NodeProto]:
        function = self.functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            _check_call(node, function)
            body = inlined(node, function)
            return self.nodes(body, versions_of(function.opset_import), depth + 1)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                self.graph(attribute.g, versions, depth)
        domain = "" if node.domain == "ai.onnx" else node.domain
        self.domains.add(domain)
        name = f"{domain}.{node.op_type}" if domain else node.op_type
        node = without_empty_options(node, self.types)
        upgrade = UPGRADES.get(name, {}).get(_since(node.op_type, domain, versions.get(domain, 1)))
        made = [node] if upgrade is None else upgrade(OldNode(node, self.types, self.constants))
        if not self.types.keys() >= set(filter(None, node.output)):  # those behind an operator without a schema
            self._learn(made)
        return made

    def _learn(self, nodes: Iterable[NodeProto]) -> None:
        """The types of the results of new nodes, as far as they follow from known ones."""
        for node in nodes:
            self.types |= _constant_types([node]) or _result_types(node, self.types, self.constants)
            self.constants |= _constant_values([node])


def _check_call(node: NodeProto, function: FunctionProto) -> None:
    """Refuses more operands or results than a function of the model has."""
    for what, given, known in (("inputs", node.input, function.input), ("outputs", node.output, function.output)):
        if len(given) > len(known):
            rule = f"the number of {what} must be at most {len(known)}, as of its function"
            raise OnnxError(f"{node_label(node)}: {rule}, got {len(given)}")


@cache
def _since(op: str, domain: str, version: int) -> int:
    """The opset that introduced the operator's meaning at `version`."""
    try:
        return int(defs.get_schema(op, version, domain).since_version)
    except defs.SchemaError:
        return 0


# --- optional inputs without elements -------------------------------------------------------------


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_OPTIONS: Mapping[str, tuple[int, ...]] = {
    "Resize": (1, 2, 3),  # roi, scales, sizes
    "Squeeze": (1,),  # axes
    **{f"Reduce{name}": (1,) for name in _REDUCTIONS},  # axes
}


def without_empty_options(node: NodeProto, types: Mapping[str, TypeProto]) -> NodeProto:
    """The node without the optional inputs whose types say that they have no elements."""
    places = () if node.domain not in ("", "ai.onnx") else _OPTIONS.get(node.op_type, ())
    empty = [place for place in places if place < len(node.input) and _is_empty(types.get(node.input[place]))]
    if not empty or (node.op_type == "Resize" and len(node.input) == 2):  # the scales of opset 10
        return node
    made = NodeProto()
    made.CopyFrom(node)
    for place in empty:
        made.input[place] = ""
    while not made.input[-1]:
        del made.input[-1]
    return made


def _is_empty(kind: TypeProto | None) -> bool:
    if kind is None or not kind.tensor_type.HasField("shape"):
        return False
    dims = kind.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].HasField("dim_value") and dims[0].dim_value == 0
