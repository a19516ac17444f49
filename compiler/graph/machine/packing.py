# SPDX-License-Identifier: Apache-2.0
"""Activations in the accelerator's layout, and the nodes that convert from and to plain tensors.

The machine reads images [N / batch, C / block, H, W, batch, block]. A tensor is an image in one of
three ways: its channels are dimension 1 (`IMAGE`: [N, C], [N, C, W], [N, C, H, W]); or its last
dimension, with all rows of [..., C] as the pixels of one image (`ROWS`) or with an image for each
matrix of [..., M, C] (`MATRICES`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any, ClassVar

import numpy as np

from vdla.compiler.extensions import packed_bits
from vdla.compiler.graph.graph import Array, Node, TensorType, ValueType
from vdla.compiler.graph.rewriting import Replacement
from vdla.support.window import Window


class Channels(Enum):
    """Where the channels of a tensor are."""

    IMAGE = "image"
    ROWS = "rows"
    MATRICES = "matrices"


class InputLayout(ABC):
    """How an operator reads a value: the tensor of the program into which the host packs it.

    `shape` has the extents of the value, after the conversion.
    """

    shape: tuple[int, ...]
    element_bytes: ClassVar[int] = 1

    @property
    @abstractmethod
    def packed_shape(self) -> tuple[int, ...]:
        """The shape of the program's tensor."""

    @property
    def nbytes(self) -> int:
        """The size of the program's tensor."""
        return prod(self.packed_shape) * self.element_bytes

    @property
    @abstractmethod
    def tag(self) -> str:
        """What tells most layouts of one value apart, for names."""

    @abstractmethod
    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """The nodes that make the program's tensor, `packed`, of the value `source`."""


@dataclass(frozen=True, slots=True)
class Patches:
    """Windows of an image that the host lays out as channels; `padding` is the padding value."""

    window: Window
    padding: int

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the node that lays out the windows."""
        window = self.window
        options = {"kernel_shape": window.taps, "strides": window.strides, "pads": window.pads}
        return {**options, "dilations": window.dilations, "padding": self.padding}


@dataclass(frozen=True, slots=True)
class RowTerms:
    """`factor` times the sum of each row, which the host appends to the row as `count` + 1
    elements.
    """

    factor: int
    count: int


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A smaller tensor broadcast to a larger one."""


@dataclass(frozen=True, slots=True)
class PackedLayout(InputLayout):
    """The packed layout of a tensor of `shape`: blocks of `batch` images and `block` channels.

    With a `conversion`, the host converts the value before it packs it.
    """

    channels: Channels
    shape: tuple[int, ...]
    batch: int
    block: int
    conversion: Broadcast | Patches | RowTerms | None = None

    @property
    def image(self) -> tuple[int, int, int, int]:
        """The tensor as [N, C, H, W]; rows fill the batch of the machine first."""
        if self.channels is not Channels.IMAGE:
            matrices, rows, channels = self._matrices
            return matrices * self.batch, channels, 1, -(-rows // self.batch)
        count, channels, *spatial = self.shape
        height, width = (1, 1, *spatial)[-2:]
        return count, channels, height, width

    @property
    def _matrices(self) -> tuple[int, int, int]:
        """The tensor as [matrices, rows, channels]."""
        matrices = prod(self.shape[:-2]) if self.channels is Channels.MATRICES else 1
        return matrices, prod(self.shape[:-1]) // matrices, self.shape[-1]

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The shape of the program's tensor."""
        count, channels, height, width = self.image
        return -(-count // self.batch), -(-channels // self.block), height, width, self.batch, self.block

    @property
    def tag(self) -> str:
        """What tells most layouts of one value apart, for names."""
        match self.conversion:
            case None:
                form = self.channels.value
            case Broadcast():
                form = "broadcast"
            case Patches():
                form = "patches"
            case RowTerms():
                form = "terms"
        return f"{form}{self.block}"

    @staticmethod
    def stored(dtype: str) -> str:
        """The type of the program's tensor of a value."""
        return dtype

    def same_bytes(self, layout: InputLayout) -> bool:
        """Whether both layouts of one tensor have every element at the same place."""
        if not isinstance(layout, PackedLayout) or self.conversion or layout.conversion:
            return False
        if self.channels is layout.channels:
            return _without_ones(self.packed_shape) == _without_ones(layout.packed_shape)
        if Channels.IMAGE not in (self.channels, layout.channels):
            return self.image == layout.image and self.block == layout.block
        if any(extent != 1 for packed in (self, layout) for extent in packed.shape[2:]):
            return False
        same = (self.shape[:2], self.batch, self.block) == (layout.shape[:2], layout.batch, layout.block)
        images, groups = -(-self.shape[0] // self.batch), -(-self.shape[1] // self.block)
        return same and 1 in (images, groups)  # images before groups of channels, or behind

    def same_heads(self, layout: InputLayout) -> bool:
        """Whether heads and the rows that contain them have the same bytes.

        Heads are [1, heads, rows, size], rows [1, rows, heads * size].
        """
        if not isinstance(layout, PackedLayout) or self.conversion or layout.conversion:
            return False
        if (self.batch, self.block) != (layout.batch, layout.block):
            return False
        heads, rows = (self, layout) if self.channels is Channels.MATRICES else (layout, self)
        known = (heads.channels, rows.channels) == (Channels.MATRICES, Channels.ROWS)
        return known and len(heads.shape) == 4 and heads.shape[-1] % heads.block == 0

    @property
    def places(self) -> Array:
        """The place of each element of the tensor among those of the packed one, in one row."""
        plain, full, _, order = self._steps
        places: Array = np.arange(prod(self.packed_shape)).reshape(self.packed_shape)
        places = places.transpose(np.argsort(order)).reshape(full)
        return places[tuple(slice(0, extent) for extent in plain)].reshape(self.shape)

    def unpacked(self, packed: Array) -> Array:
        """The value from the program's tensor."""
        return np.asarray(packed.ravel()[self.places])

    def packed(self, array: Array) -> Array:
        """The program's tensor of a value without a conversion."""
        packed = np.zeros(prod(self.packed_shape), array.dtype)
        packed[self.places.ravel()] = array.ravel()
        return packed.reshape(self.packed_shape)

    # --- conversion

    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """The nodes that pack `source` into the value `packed`."""
        making = PackingNodes(packed, dtype)
        if isinstance(self.conversion, Patches):
            attributes = {**self.conversion.attributes, "block": self.block, "batch": self.batch}
            making.add("vdla.PackPatches", (source,), self.packed_shape, packed, **attributes)
            return making.made
        plain, full, split, order = self._steps
        value = self._converted(making, source, self.conversion)
        value = making.pad(making.reshape(value, plain), plain, full)
        value = making.reshape(value, split)
        making.transpose(value, order, self.packed_shape, packed)
        return making.made

    @property
    def _steps(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """What packing makes of the tensor: its plain form, which it pads and cuts into blocks, and
        the order of the blocks.
        """
        blocks, groups, height, width, batch, block = self.packed_shape
        if self.channels is Channels.IMAGE:
            images = (blocks * batch, groups * block, height, width)
            return self.image, images, (blocks, batch, groups, block, height, width), (0, 2, 4, 5, 1, 3)
        matrices = (blocks, width * batch, groups * block)
        return self._matrices, matrices, (blocks, width, batch, groups, block, 1), (0, 3, 5, 1, 2, 4)

    def _converted(self, making: PackingNodes, source: str, how: Broadcast | RowTerms | None) -> str:
        """The tensor of `shape` from the value."""
        match how:
            case None:
                return source
            case Broadcast():
                return making.expand(source, self.shape)
            case RowTerms(factor=factor, count=count):
                return making.add("vdla.RowTerms", (source,), self.shape, factor=factor, count=count)

    def unpack(self, packed: str, result: str, dtype: str) -> Replacement:
        """The nodes that convert the value `packed` to `result`."""
        making = PackingNodes(result, dtype)
        plain, full, split, order = self._steps
        value = making.reshape(packed, self.packed_shape)
        value = making.transpose(value, np.argsort(order).tolist(), split)
        value = making.cut(making.reshape(value, full), plain, full)
        making.reshape(value, self.shape, result)
        return making.made


@dataclass(frozen=True, eq=False, slots=True)
class GatheredLayout(InputLayout):
    """Elements of a tensor of `shape` in any order: `index` has their places in one row, and -1 for
    `fill`. Layouts of the same elements are equal, so that the host packs a value once for them.
    """

    shape: tuple[int, ...]
    index: Array
    fill: int

    def __eq__(self, layout: object) -> bool:
        if not isinstance(layout, GatheredLayout):
            return NotImplemented
        alike = (self.shape, self.fill) == (layout.shape, layout.fill)
        return self is layout or (alike and np.array_equal(self.index, layout.index))

    def __hash__(self) -> int:
        return hash((self.shape, self.index.shape, self.fill))

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The shape of the program's tensor."""
        return self.index.shape

    @property
    def tag(self) -> str:
        """What tells most layouts of one value apart, for names."""
        return "gathered"

    def packed(self, array: Array) -> Array:
        """The program's tensor of a value."""
        return np.asarray(np.append(array.ravel(), np.array(self.fill, array.dtype))[self.index])

    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """The nodes that make the program's tensor, `packed`, of the value `source`."""
        making, size = PackingNodes(packed, dtype), prod(self.shape)
        row = making.reshape(source, (size,))
        fill = making.constant(np.full(1, self.fill, dtype))
        row = making.add("Concat", (row, fill), (size + 1,), axis=0)
        index = making.constant(np.where(self.index < 0, size, self.index).astype(np.int64))
        making.add("Gather", (row, index), self.packed_shape, packed, axis=0)
        return making.made


_PLACES = np.array([[1, 2, 4, 8, 16, 32, 64, -128]], np.int8)  # of the bits of a byte
_HALF = {"multiplier": np.array([1 << 23]), "shift": np.array([24])}


@dataclass(frozen=True, eq=False, slots=True)
class BitsLayout(InputLayout):
    """Elements of a tensor of `shape`, each 1 or -1, as bits of bytes, which lie as `gathered`.

    The elements are laid out as `inner` before, if that is a layout.
    """

    shape: tuple[int, ...]
    inner: GatheredLayout | None
    gathered: GatheredLayout

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The shape of the program's tensor."""
        return self.gathered.packed_shape

    @property
    def tag(self) -> str:
        """What tells most layouts of one value apart, for names."""
        return "bits"

    def packed(self, array: Array) -> Array:
        """The program's tensor of a value."""
        return self.gathered.packed(packed_bits(array if self.inner is None else self.inner.packed(array)))

    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """The nodes that make the program's tensor, `packed`, of the value `source`.

        A byte is half of the sum of its elements times their places, less a half.
        """
        making, count, parts = PackingNodes(f"{packed}.bytes", dtype), prod(self.shape) // 8, list[Replacement]()
        if self.inner is not None:
            count, ordered = prod(self.inner.packed_shape) // 8, f"{packed}.ordered"
            parts.append(self.inner.pack(source, ordered, dtype))
            source = ordered
        rows = making.reshape(source, (count, 8))
        operands = rows, making.constant(_PLACES), making.constant(np.array([-1], np.int32))
        more = {"x_zero_point": 0, "y_zero_point": 0, "low": -128, "high": 127, **_HALF}
        making.add("vdla.QDense", operands, (count, 1), making.base, **more)
        return _joined([*parts, making.made, self.gathered.pack(making.base, packed, dtype)])


def _joined(parts: Sequence[Replacement]) -> Replacement:
    """All nodes of replacements, one after the other."""
    return Replacement(
        tuple(node for part in parts for node in part.nodes),
        {name: value for part in parts for name, value in part.constants.items()},
        {name: kind for part in parts for name, kind in part.types.items()},
    )


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if extent != 1)


# --- nodes ----------------------------------------------------------------------------------------


class PackingNodes:
    """Nodes from a source to the value `base`, whose name is the prefix of theirs.

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

    def pad(self, source: str, shape: Sequence[int], full: Sequence[int]) -> str:
        """Each dimension padded with zeros at its end."""
        if tuple(shape) == tuple(full):
            return source
        ends = [b - a for a, b in zip(shape, full, strict=True)]
        return self.add("Pad", (source, self._integers([0] * len(shape) + ends)), full)

    def cut(self, source: str, shape: Sequence[int], full: Sequence[int]) -> str:
        """The first elements of each dimension."""
        if tuple(shape) == tuple(full):
            return source
        axes = [axis for axis, (a, b) in enumerate(zip(shape, full, strict=True)) if a != b]
        numbers = ([0] * len(axes), [shape[axis] for axis in axes], axes)
        return self.add("Slice", (source, *map(self._integers, numbers)), shape)
