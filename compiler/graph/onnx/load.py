# SPDX-License-Identifier: Apache-2.0
"""Reads a model: its file, its external data, its rules.

Large constants become inputs of the working copy at once, since type inference copies the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
    helper,
)

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.onnx.errors import OnnxError, OnnxWarning
from vdla.compiler.graph.onnx.structure import bodies_of, check_functions, check_structure, check_types, put_in_order
from vdla.compiler.graph.onnx.symbols import name_extents
from vdla.compiler.graph.onnx.torch_program import model_of_program
from vdla.compiler.graph.onnx.values import array_dtype, array_of, dense_of, dtype_code
from vdla.support.file_kind import TORCH_PROGRAM, described, file_kind, unreadable
from vdla.support.symbolic_shapes import Declared, Shape, numbers_of, with_names

LARGE = 1024  # elements; type inference reads the contents of smaller constants only


@dataclass(frozen=True)
class LoadedModel:
    """A model during import: in `model`, `weights` are inputs beside the user's `inputs`.

    `declared` are the declared types of results, which may be stale.
    """

    name: str
    model: ModelProto
    weights: Mapping[str, Array]
    inputs: tuple[str, ...]
    declared: Mapping[str, TypeProto] = field(default_factory=dict)

    def with_model(self, model: ModelProto) -> LoadedModel:
        """The same weights around another model."""
        return replace(self, model=model)


def load_model(
    source: ModelProto | bytes | str | Path,
    *,
    name: str | None,
    extents: Mapping[str, int],
    shapes: Mapping[str, Shape],
) -> LoadedModel:
    """The model of a file, of its content, or in memory, with its external data."""
    proto, folder, place = _parsed(source)
    if not proto.HasField("graph"):
        raise OnnxError(f"{place}: the model must have a graph, got none")
    label = name or _plain(proto.graph.name) or place
    model = ModelProto()
    model.ir_version = proto.ir_version
    model.opset_import.extend(proto.opset_import)
    model.functions.extend(proto.functions)
    for function in model.functions:
        put_in_order(function.node)
    check_structure(proto.graph, label)
    check_functions(proto.functions, label)
    weights = _split(proto.graph, model.graph, folder)
    inputs = _inputs(proto.graph)
    for name_, array in weights.items():
        model.graph.input.append(helper.make_tensor_value_info(name_, dtype_code(array_dtype(array)), array.shape))
    unwrap_maps(model.graph, label)
    check_types(model.graph)
    name_extents(model.graph, inputs)
    named = with_names(label, shapes, inputs, OnnxError)
    _check_extents(model.graph, extents, label)
    _specialise(model.graph, numbers_of(label, _declared(model.graph), named, OnnxError, extents), named)
    return LoadedModel(label, model, weights, inputs, _without_declarations(model.graph))


def _without_declarations(graph: GraphProto) -> dict[str, TypeProto]:
    """The declared types of results, which the graph does not have afterwards."""
    declared = {value.name: value.type for value in (*graph.value_info, *graph.output)}
    outputs = [value.name for value in graph.output]
    del graph.value_info[:], graph.output[:]
    graph.output.extend(ValueInfoProto(name=name) for name in outputs)
    return declared


def _parsed(source: ModelProto | bytes | str | Path) -> tuple[ModelProto, Path | None, str]:
    """The model, the folder of its external data, and its name in messages."""
    if isinstance(source, ModelProto):
        return source, None, "model"
    if isinstance(source, bytes):
        return _decoded(source, "model"), None, "model"
    path = Path(source)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OnnxError(unreadable(path, error)) from None
    kind = file_kind(path, content)
    if kind is TORCH_PROGRAM:
        return model_of_program(path), None, str(path)
    if not content or (kind is not None and kind.noun != "an ONNX model"):
        raise OnnxError(_none(content, str(path)))
    return _decoded(content, str(path)), path.resolve().parent, str(path)


def _none(content: bytes, place: str) -> str:
    """The message for a file that is not an ONNX model."""
    kind = file_kind(place, content)
    known = not content or (kind is not None and kind.suffixes != (".onnx",))
    got = described(place, content) if known else f"{len(content)} bytes of another format"
    return f"{place}: the file must be an ONNX model, got {got}"


def _decoded(content: bytes, place: str) -> ModelProto:
    try:
        return onnx.load_model_from_string(content)
    except DecodeError as error:
        raise OnnxError(_none(content, place)) from error


def _split(source: GraphProto, graph: GraphProto, folder: Path | None) -> dict[str, Array]:
    """Copies the graph without its large constants, which are returned."""
    weights: dict[str, Array] = {}
    graph.name = _plain(source.name) or "graph"
    for tensor in source.initializer:
        full = with_data(tensor, folder)
        array = array_of(full)
        if array.size > LARGE:
            weights[full.name] = array
        else:
            graph.initializer.append(full)
    for sparse in source.sparse_initializer:
        weights[sparse.values.name] = dense_of(sparse)
    for node in source.node:
        large = _large_constant(node, folder)
        if large is not None:
            weights[node.output[0]] = large
        else:
            graph.node.append(node)
            _resolve(graph.node[-1], folder)
    initial = {tensor.name for tensor in source.initializer} | set(weights)
    graph.input.extend(value for value in source.input if value.name not in initial)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    put_in_order(graph.node)
    return weights


def _plain(name: str | bytes) -> str:
    """A name for messages; names that are no UTF-8 come as bytes."""
    return name if isinstance(name, str) else name.decode(errors="replace")


def _inputs(graph: GraphProto) -> tuple[str, ...]:
    initial = {tensor.name for tensor in graph.initializer}
    initial |= {sparse.values.name for sparse in graph.sparse_initializer}
    return tuple(value.name for value in graph.input if value.name not in initial)


def _large_constant(node: NodeProto, folder: Path | None) -> Array | None:
    """The value of a Constant node that has a large tensor."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    tensor = node.attribute[0].t
    if node.attribute[0].name != "value" or _elements(tensor) <= LARGE:
        return None
    return array_of(with_data(tensor, folder))


def _elements(tensor: TensorProto) -> int:
    count = 1
    for extent in tensor.dims:
        count *= max(int(extent), 0)
    return count


def _resolve(node: NodeProto, folder: Path | None) -> None:
    """Reads the external data of a node's attributes, those of its bodies included."""
    for tensor in _tensors(node):
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(with_data(tensor, folder))


def _tensors(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
    for body in bodies_of(node):
        yield from body.initializer
        for inner in body.node:
            yield from _tensors(inner)


def _declared(graph: GraphProto) -> dict[str, Declared]:
    """The shapes of the inputs of a graph, their open extents named."""
    return {value.name: _extents(value.type.tensor_type) for value in graph.input}


def _extents(kind: TypeProto.Tensor) -> Declared:
    return [dim.dim_param or dim.dim_value for dim in kind.shape.dim] if kind.HasField("shape") else None


def _symbolic(graph: GraphProto) -> list[TensorShapeProto.Dimension]:
    """The extents of a graph's values that are symbols."""
    values = (*graph.input, *graph.output, *graph.value_info)
    return [dim for value in values for dim in value.type.tensor_type.shape.dim if dim.dim_param]


def _check_extents(graph: GraphProto, extents: Mapping[str, int], place: str) -> None:
    known = {dim.dim_param for dim in _symbolic(graph)}
    if missing := sorted(set(extents) - known):
        rule = f"extents must name symbols of the model's shapes ({', '.join(sorted(known)) or 'none'})"
        raise OnnxError(f"{place}: {rule}, got {', '.join(missing)}")


def _specialise(graph: GraphProto, extents: Mapping[str, int], shapes: Mapping[str, Shape]) -> None:
    """Replaces symbols in declared shapes by numbers; inputs of any rank get their shape."""
    for dim in _symbolic(graph):
        if dim.dim_param in extents:
            dim.dim_value = extents[dim.dim_param]
    for value in graph.input:
        kind = value.type.tensor_type
        if value.name in shapes and value.type.HasField("tensor_type") and not kind.HasField("shape"):
            kind.shape.SetInParent()
            kind.shape.dim.extend(TensorShapeProto.Dimension(dim_value=extent) for extent in shapes[value.name])


# --- external data --------------------------------------------------------------------------------


def with_data(tensor: TensorProto, folder: Path | None) -> TensorProto:
    """The tensor with its data in it, read from the folder of the model if they are external.

    Raises:
        OnnxError: the file is missing, too short, or outside of the folder.
    """
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    entries = {entry.key: entry.value for entry in tensor.external_data}
    content = _read(_path(tensor.name, entries.get("location", ""), folder), tensor.name, entries)
    full = TensorProto()
    full.name, full.data_type, full.raw_data = tensor.name, tensor.data_type, content
    full.dims.extend(tensor.dims)
    return full


def _path(name: str, location: str, folder: Path | None) -> Path:
    if folder is None:
        raise OnnxError(f"tensor {name}: a model with external data must be read from a file, got it in memory")
    path = (folder / location).resolve()
    if not location or Path(location).is_absolute() or not path.is_relative_to(folder):
        raise OnnxError(f"tensor {name}: external data must lie in the folder of the model, got {location!r}")
    if not path.is_file():
        raise OnnxError(f"tensor {name}: external data must be a file, got {location!r}, which does not exist")
    return path


def _read(path: Path, name: str, entries: dict[str, str]) -> bytes:
    size = path.stat().st_size
    offset = _number(name, "offset", entries.get("offset", "0"))
    length = _number(name, "length", entries.get("length", str(max(size - offset, 0))))
    if offset + length > size:
        where = f"bytes {offset} to {offset + length}"
        raise OnnxError(f"tensor {name}: external data must lie within {path.name} ({size} bytes), got {where}")
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _number(name: str, what: str, text: str) -> int:
    if not text.isdecimal():
        raise OnnxError(f"tensor {name}: {what} of its external data must be a number of bytes, got {text!r}")
    return int(text)


# --- maps -----------------------------------------------------------------------------------------


def unwrap_maps(graph: GraphProto, place: str) -> None:
    """Removes each ZipMap whose result is only an output of the graph, and warns."""
    read = {name for node in graph.node for name in node.input}
    outputs = {value.name: value for value in graph.output}
    for node in graph.node:
        name = next(iter(node.output), "")
        if (node.domain, node.op_type) != ("ai.onnx.ml", "ZipMap") or name in read or name not in outputs:
            continue
        node.op_type, node.domain = "Identity", ""
        del node.attribute[:]
        outputs[name].ClearField("type")
        for value in [value for value in graph.value_info if value.name == name]:
            graph.value_info.remove(value)
        made = "it is the tensor with one column a class, as after a conversion with zipmap=False"
        warnings.warn(f"{place}: output {name} must be a tensor, got the maps of a ZipMap; {made}", OnnxWarning, 2)
