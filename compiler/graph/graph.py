# SPDX-License-Identifier: Apache-2.0
"""The graph of a network: immutable nodes in an order in which every value precedes its uses.

A value has a name that is unique in its graph, and a type. The operators are ONNX's at the opset of
`OPSET`, by their names there ("Conv", "ai.onnx.ml.LabelEncoder"), and the toolkit's own, which
begin with "vdla.".

The bodies of If, Loop and Scan are closed: values of the graph around a body are appended to the
inputs of the node and, under the same names, to the inputs of each of its bodies; the attribute
`captures` counts them. Constants read by a body are constants of the body as well.

An attribute that holds an element type is its name, as in `TensorType` (Cast's `to`: "float32").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import ml_dtypes  # noqa: F401  gives NumPy the names of its types
import numpy as np
import numpy.typing as npt

from vdla.compiler.graph.attributes import GraphError, check_attributes, schema_of

Array = npt.NDArray[Any]
Extent = int | str | None  # a number, a symbol such as "batch", or unknown
OPSET = 28


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor: the name of its element type, and its extents; `shape` None is an unknown rank.

    Element types are those of `vdla.compiler.ir`, and ONNX's others by NumPy's names ("str",
    "complex64", "float8_e4m3fn", "uint4").

    An image [N, C, H, W] with `lanes` lies in memory as [N, C / lanes, H, W, lanes]: in blocks of
    that many channels, the last one padded with channels of arbitrary values. In this layout, uint8
    elements of the operators `vdla.Q...` stand for int8 numbers plus 128.
    """

    dtype: str
    shape: tuple[Extent, ...] | None
    lanes: int = 0

    @property
    def static(self) -> bool:
        """Whether every extent is a number."""
        return self.shape is not None and all(isinstance(extent, int) for extent in self.shape)

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of a static shape."""
        if self.shape is None or not self.static:
            raise GraphError(f"tensor type: every extent must be a number, got {self}")
        return tuple(int(extent) for extent in self.shape if extent is not None)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """The extents of the array that holds a static tensor."""
        if not self.lanes:
            return self.extents
        batch, channels, *plane = self.extents
        return (batch, -(-channels // self.lanes), *plane, self.lanes)

    @property
    def layout(self) -> str:
        """The layout of an image: NCHW, or NCHW16c in blocks of 16 channels."""
        return f"NCHW{self.lanes}c" if self.lanes else "NCHW"

    @property
    def nbytes(self) -> int:
        """The bytes of a static tensor as NumPy stores it; a string counts as a reference."""
        dtype = np.dtype(object if self.dtype == "str" else self.dtype)
        return prod(self.array_shape) * dtype.itemsize

    @property
    def symbols(self) -> tuple[str, ...]:
        """The extents that are symbols."""
        return tuple(extent for extent in self.shape or () if isinstance(extent, str))

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[...]"
        extents = ", ".join("?" if extent is None else str(extent) for extent in self.shape)
        return f"{self.dtype}[{extents}]{f' {self.layout}' if self.lanes else ''}"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence of tensors."""

    element: ValueType

    def __str__(self) -> str:
        return f"sequence<{self.element}>"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A tensor or sequence that may be absent."""

    element: ValueType

    def __str__(self) -> str:
        return f"optional<{self.element}>"


ValueType = TensorType | SequenceType | OptionalType
Attribute = Any  # int, float, str, bytes, Array, Graph, ValueType or a tuple of one of these


@dataclass(frozen=True, eq=False)
class Node:
    """An application of an operator.

    An absent optional input or output is the empty name. `name` is the node's name in the model,
    for reports; several nodes may share it.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        check_attributes(self.label, self.op, self.attributes)

    def attribute(self, name: str) -> Attribute:
        """An attribute, or the default that its operator has; None if there is neither."""
        if name in self.attributes:
            return self.attributes[name]
        known = (schema_of(self.op) or {}).get(name)
        return None if known is None else known.default

    @property
    def bodies(self) -> dict[str, Graph]:
        """The attributes that are graphs."""
        return {key: value for key, value in self.attributes.items() if isinstance(value, Graph)}

    @property
    def label(self) -> str:
        """The node in messages: its operator and its name, or that of its first result."""
        return f"{self.op} {self.name or next(filter(None, self.outputs), '')}".rstrip()

    def __str__(self) -> str:
        from vdla.compiler.graph.text import node_text

        return node_text(self)


@dataclass(frozen=True, eq=False)
class Graph:
    """A network, or the body of a node. `types` has the type of every value, constants included."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    types: Mapping[str, ValueType]

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that computes each value; inputs and constants have none."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value, in order, a node once."""
        readers: dict[str, dict[int, Node]] = {}
        for node in self.nodes:
            for name in node.inputs:
                if name:
                    readers.setdefault(name, {})[id(node)] = node
        return {name: tuple(nodes.values()) for name, nodes in readers.items()}

    def readers(self, name: str) -> int:
        """The number of nodes that read a value, one more if it is an output of the graph."""
        return len(self.consumers.get(name, ())) + (name in self.outputs)

    def tensor(self, name: str) -> TensorType:
        """The type of a value that is a tensor."""
        kind = self.types.get(name)
        if not isinstance(kind, TensorType):
            raise GraphError(f"graph {self.name}: {name} must be a tensor, got {kind or 'no such value'}")
        return kind

    def constant(self, name: str) -> Array | None:
        """The value of a constant; None for other values and for absent inputs."""
        return self.constants.get(name)

    @property
    def values(self) -> Iterator[str]:
        """The names of all values: inputs, constants, results of nodes."""
        yield from self.inputs
        yield from self.constants
        for node in self.nodes:
            yield from filter(None, node.outputs)

    def replace(self, **changes: Any) -> Graph:  # noqa: ANN401  the fields of the class
        """A graph with other fields, without unused constants and types."""
        return replace(self, **changes).pruned

    @property
    def pruned(self) -> Graph:
        """The graph without unused constants and types."""
        used = {*self.outputs, *(name for node in self.nodes for name in node.inputs)}
        constants = {name: value for name, value in self.constants.items() if name in used}
        kept = {*self.inputs, *constants, *self.outputs, *(name for node in self.nodes for name in node.outputs)}
        types = {name: kind for name, kind in self.types.items() if name in kept}
        return replace(self, constants=constants, types=types)

    def __str__(self) -> str:
        from vdla.compiler.graph.text import graph_text

        return graph_text(self)
