# SPDX-License-Identifier: Apache-2.0
"""A node of an older opset, as upgrades read and replace it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from ml_dtypes import finfo
from onnx import NodeProto, TensorProto, TypeProto, helper, numpy_helper

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.onnx.errors import OnnxError


class OldNode:
    """A node to upgrade; `made` collects the new nodes."""

    def __init__(
        self, node: NodeProto, types: Mapping[str, TypeProto], constants: Mapping[str, Array] | None = None
    ) -> None:
        self.node = node
        self.types = types
        self.constants = constants or {}
        self.made: list[NodeProto] = []
        self.attributes = {attribute.name: attribute for attribute in node.attribute}

    def refuse(self, rule: str) -> OnnxError:
        """The error for a node without an equivalent in the newest opset."""
        label = self.node.name or next(filter(None, self.node.output), "")
        return OnnxError(f"{self.node.op_type} {label}: the node must {rule}")

    def input(self, index: int) -> str:
        """An input, the empty name where it is absent."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def take(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  of any type of attributes
        """An attribute's value, removed from the new node."""
        value = self.peek(name, default)
        self.attributes.pop(name, None)
        return value

    def peek(self, name: str, default: Any) -> Any:  # noqa: ANN401  of any type of attributes
        """An attribute's value, kept by the new node; it has the type of a scalar default."""
        if name not in self.attributes:
            return default
        value = helper.get_attribute_value(self.attributes[name])
        kinds = {int: (int,), float: (int, float), bytes: (bytes,)}.get(type(default))
        if kinds is not None and not isinstance(value, kinds):
            what = {int: "an integer", float: "a number", bytes: "a string"}[type(default)]
            raise self.refuse(f"have {what} as {name}, got {value!r}")
        return value

    def set(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Give the new node an attribute."""
        self.attributes[name] = helper.make_attribute(name, value)

    def rank(self, name: str) -> int | None:
        """The rank of a value, None if it is unknown."""
        kind = self.types.get(name)
        return len(kind.tensor_type.shape.dim) if kind is not None and kind.tensor_type.HasField("shape") else None

    def extents(self, name: str) -> list[Any] | None:
        """The extents of a value, each None if it is unknown; None if its rank is."""
        if self.rank(name) is None:
            return None
        dims = self.types[name].tensor_type.shape.dim
        return [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in dims]

    def dimension(self, name: str, axis: int) -> int | str | None:
        """An extent of a value, its symbol where it has one; None if it is unknown."""
        kind = self.types.get(name)
        if self.rank(name) is None or kind is None or axis >= len(kind.tensor_type.shape.dim):
            return None
        dim = kind.tensor_type.shape.dim[axis]
        return int(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or None

    def dtype(self, name: str) -> np.dtype[Any]:
        """The element type of a value."""
        kind = self.types.get(name)
        if kind is None or not kind.tensor_type.elem_type:
            raise self.refuse(f"have an input of a known element type, got none for {name}")
        return np.dtype(helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type))

    def float_code(self, name: str) -> int:
        """ONNX's number of the element type of a value of floats, float32's where it is unknown."""
        kind = self.types.get(name)
        return (kind.tensor_type.elem_type if kind is not None else 0) or TensorProto.FLOAT

    def scalar_like(self, value: float, name: str) -> str:
        """A new constant of the element type of a value of floats, within its finite range."""
        dtype = helper.tensor_dtype_to_np_dtype(self.float_code(name))
        limit = float(finfo(dtype).max)  # type: ignore[no-untyped-call]
        return self.constant(np.array(min(max(value, -limit), limit), dtype), "scalar")

    def fresh(self, what: str) -> str:
        """A name for a new value."""
        return f"{next(filter(None, self.node.output), self.node.name)}/{what}{len(self.made)}"

    def constant(self, value: Array, what: str) -> str:
        """A new constant."""
        name = self.fresh(what)
        self.made.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)))
        return name

    def integers(self, values: Iterable[int], what: str) -> str:
        """A new constant of 64-bit integers."""
        return self.constant(np.array(list(values), np.int64), what)

    def index(self, value: int) -> str:
        """A new constant of one 64-bit integer without dimensions."""
        return self.constant(np.array(value, np.int64), "index")

    def extent(self, name: str, axis: int) -> str:
        """A vector of one element, an extent of a value."""
        return self.value("Shape", [name], start=axis, end=axis + 1)

    def value(self, op: str, inputs: Iterable[str], **attributes: Any) -> str:  # noqa: ANN401
        """The result of a new node."""
        name = self.fresh(op)
        self.made.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def final(self, op: str, inputs: Iterable[str], outputs: Iterable[str] | None = None) -> list[NodeProto]:
        """All new nodes, the last one with the remaining attributes."""
        results = list(self.node.output) if outputs is None else list(outputs)
        node = helper.make_node(op, list(inputs), results, name=self.node.name)
        node.attribute.extend(self.attributes.values())
        return [*self.made, node]


Upgrade = Callable[[OldNode], list[NodeProto]]
