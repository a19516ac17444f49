"""The nodes of a conversion, made one after another, each with a result of known shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vdla.compiler.graph.graph import Array, Node, TensorType, ValueType
from vdla.compiler.graph.rewriting import Replacement


class PackingNodes:
    """Nodes from a source to the value `base`, with which their names begin.

    Each method adds a node for a source and returns the name of its result; the last one has the
    name `base`, and is followed by `made`.
    """

    def __init__(self, base: str, dtype: str) -> None:
        self.base, self.dtype = base, dtype
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.types: dict[str, ValueType] = {}

    @property
    def made(self) -> Replacement:
        """All nodes."""
        return Replacement(tuple(self.nodes), self.constants, self.types)

    def add(self, op: str, inputs: Sequence[str], shape: Sequence[int], name: str = "", **attributes: object) -> str:
        """A node whose result has `shape`."""
        name = name or self._fresh()
        self.types[name] = TensorType(self.dtype, tuple(shape))
        self.nodes.append(Node(op, tuple(inputs), (name,), attributes))
        return name

    def constant(self, value: Array) -> str:
        """A constant."""
        name = self._fresh()
        self.constants[name] = value
        self.types[name] = TensorType(value.dtype.name, value.shape)
        return name

    def _fresh(self) -> str:
        return f"{self.base}.{len(self.types)}"

    def _integers(self, values: Sequence[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def reshape(self, source: str, shape: Sequence[int], name: str = "") -> str:
        """The elements under another shape."""
        return self.add("Reshape", (source, self._integers(shape)), shape, name)

    def transpose(self, source: str, order: Sequence[int], shape: Sequence[int], name: str = "") -> str:
        """The dimensions in another order, which gives `shape`."""
        return self.add("Transpose", (source,), shape, name, perm=tuple(order))

    def expand(self, source: str, shape: Sequence[int]) -> str:
        """The source broadcast to `shape`."""
        return self.add("Expand", (source, self._integers(shape)), shape)

    def pad(self, source: str, shape: Sequence[int], leading: Sequence[int]) -> str:
        """The first dimensions padded with zeros up to the extents `leading`."""
        wanted = (*leading, *shape[len(leading) :])
        if tuple(shape) == wanted:
            return source
        ends = [b - a for a, b in zip(shape, wanted, strict=True)]
        return self.add("Pad", (source, self._integers([0] * len(shape) + ends)), wanted)

    def cut(self, source: str, shape: Sequence[int], full: Sequence[int]) -> str:
        """The first elements of each dimension."""
        if tuple(shape) == tuple(full):
            return source
        axes = [axis for axis, (a, b) in enumerate(zip(shape, full, strict=True)) if a != b]
        numbers = ([0] * len(axes), [shape[axis] for axis in axes], axes)
        return self.add("Slice", (source, *map(self._integers, numbers)), shape)
