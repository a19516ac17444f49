# SPDX-License-Identifier: Apache-2.0
"""The graph of a model while it is built.

TensorFlow Lite has the channels of images last, the operators of a graph have them first. A tensor
of four dimensions may be in the graph in both orders: `plain` as in the file, and as an image. The
one is made of the other at its first use, so that a chain of operators on images has no transposes
within.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.onnx import infer_node_types
from vdla.compiler.graph.tflite.errors import TfliteError, decline
from vdla.compiler.graph.tflite.model import TfliteModel, TfliteTensor

IMAGE = 4  # dimensions
TO_IMAGE, FROM_IMAGE = (0, 3, 1, 2), (0, 2, 3, 1)
_NATIVE = {"int4": "int8"}  # elements that are widened at once


@dataclass
class GraphBuilder:
    """Nodes, constants, types so far; `plain` and `images` have the values of tensors by index."""

    model: TfliteModel
    place: str
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    types: dict[str, ValueType] = field(default_factory=dict)
    plain: dict[int, str] = field(default_factory=dict)
    images: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    label: str = ""

    def __post_init__(self) -> None:
        """Every tensor gets a name of its own."""
        used: set[str] = set()
        for index, tensor in enumerate(self.model.tensors):
            name = tensor.name if tensor.name not in used else f"{tensor.name}_{index}"
            while name in used:
                name += "_"
            used.add(name)
            self.names[index] = name

    def tensor(self, index: int) -> TfliteTensor:
        """A tensor of the file."""
        return self.model.tensors[index]

    # --- values -----------------------------------------------------------------------------------

    def fresh(self, base: str) -> str:
        """A name that no value and no tensor has."""
        names, name, number = self.types.keys() | set(self.names.values()), base, 1
        while name in names:
            number += 1
            name = f"{base}_{number}"
        return name

    def constant(self, value: Array, base: str) -> str:
        """A new constant."""
        name = self.fresh(base)
        self.constants[name] = np.array(value, order="C")
        self.types[name] = TensorType(value.dtype.name, value.shape)
        return name

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        kind: TensorType | None = None,
        name: str = "",
    ) -> str:
        """A node of one result; operators of ONNX say the type of theirs."""
        made = name or self.fresh(f"{self.label}_{op.rpartition('.')[2].lower()}")
        node = Node(op, tuple(inputs), (made,), attributes or {}, self.label)
        self.types[made] = kind or self._inferred(node, made)
        self.nodes.append(node)
        return made

    def _inferred(self, node: Node, made: str) -> TensorType:
        types = {**{n: self.types[n] for n in node.inputs if n}, made: TensorType("float32", None)}
        kind = infer_node_types(node, types, self.constants).get(made)
        if not isinstance(kind, TensorType) or not kind.static:
            decline(f"have inputs that fit each other, got {', '.join(str(types[n]) for n in node.inputs if n)}")
        return kind

    def type_of(self, name: str) -> TensorType:
        """The type of a value, which is a static tensor."""
        kind = self.types[name]
        assert isinstance(kind, TensorType)
        return kind

    # --- tensors ----------------------------------------------------------------------------------

    def has_image(self, index: int) -> bool:
        """Whether a tensor is in the graph as an image."""
        return index in self.images

    def read(self, index: int) -> str:
        """A tensor in the order of the file."""
        if index not in self.plain:
            tensor = self.tensor(index)
            if tensor.data is not None:
                value = tensor.data.astype(np.int8) if tensor.dtype in _NATIVE else tensor.data
                self.plain[index] = self._named(index, value)
            elif index in self.images:
                self.plain[index] = self.moved(self.images[index], FROM_IMAGE, self.names[index])
            else:
                raise TfliteError(f"{self.place}: every tensor must be computed before it is read, got {tensor.name}")
        return self.plain[index]

    def _named(self, index: int, value: Array) -> str:
        name = self.names[index]
        self.constants[name], self.types[name] = value, TensorType(value.dtype.name, value.shape)
        return name

    def read_image(self, index: int) -> str:
        """A tensor of four dimensions with its channels first."""
        if index not in self.images:
            name = self.read(index)
            if len(self.type_of(name).extents) != IMAGE:
                decline(f"read an image of four dimensions, got {self.type_of(name)}")
            self.images[index] = self.moved(name, TO_IMAGE)
        return self.images[index]

    def moved(self, name: str, order: Sequence[int], result: str = "") -> str:
        """A value in another order of dimensions; a reshape where elements keep their order."""
        kind = self.type_of(name)
        shape = tuple(kind.extents[d] for d in order)
        value = self.constants.get(name)
        if value is not None and not result:
            return self.constant(value.transpose(order), f"{name}_nchw")
        long = [d for d in order if kind.extents[d] != 1]
        if long == sorted(long):
            return self.reshape(name, shape, result)
        return self.add("Transpose", [name], {"perm": tuple(order)}, TensorType(kind.dtype, shape), result)

    def reshape(self, name: str, shape: Sequence[int], result: str = "") -> str:
        """A value under another shape of as many elements."""
        kind = self.type_of(name)
        if tuple(shape) == kind.extents and not result:
            return name
        if prod(shape) != prod(kind.extents):
            decline(f"keep the number of elements, got {list(kind.extents)} to {list(shape)}")
        target = self.constant(np.array(shape, np.int64), f"{self.label}_shape")
        # 0 in a shape stands for the extent of the input, unless it is allowed to be none
        return self.add("Reshape", [name, target], {"allowzero": 1}, TensorType(kind.dtype, tuple(shape)), result)

    def define(self, index: int, name: str, *, is_image: bool = False) -> None:
        """The result of an operator, which must be of the type that the file says."""
        tensor, kind = self.tensor(index), self.type_of(name)
        shape = tuple(kind.extents[d] for d in FROM_IMAGE) if is_image else kind.extents
        if index in self.plain or index in self.images or tensor.data is not None:
            raise TfliteError(f"{self.place}: every tensor must be computed once, got {tensor.name} twice")
        if (kind.dtype, shape) != (tensor.dtype, tensor.shape):
            made, said = f"{kind.dtype}{list(shape)}", f"{tensor.dtype}{list(tensor.shape)}"
            raise TfliteError(f"{self.place}: {tensor.name} must be {made}, as its operator computes it, got {said}")
        (self.images if is_image else self.plain)[index] = name

    # --- the graph --------------------------------------------------------------------------------

    def graph(self, name: str) -> Graph:
        """The graph of all that was added; results are named as in the file."""
        inputs = tuple(self.names[index] for index in self.model.inputs)
        outputs = tuple(self._output(index) for index in dict.fromkeys(self.model.outputs))
        return Graph(
            name=name,
            inputs=inputs,
            outputs=outputs,
            nodes=tuple(self.nodes),
            constants=self.constants,
            types=self.types,
        ).pruned

    def _output(self, index: int) -> str:
        name, self.label = self.read(index), self.names[index]
        if name == self.names[index]:
            return name
        return self.add("Identity", [name], {}, self.type_of(name), self.names[index])
