"""Activations in the accelerator's layout, and the nodes that convert from and to plain tensors.

The machine reads images [N / batch, C / block, H, W, batch, block]. A tensor is an image in one of
two ways: its channels are dimension 1 (`IMAGE`: [N, C], [N, C, W], [N, C, H, W]), or its last
dimension (`ROWS`: every row of [..., C] is a pixel).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from math import prod

import numpy as np

from vdla.compiler.graph.graph import Array, Node, TensorType, ValueType
from vdla.compiler.graph.rewriting import Replacement

_IMAGE_ORDER, _IMAGE_BACK = (0, 2, 4, 5, 1, 3), (0, 4, 1, 5, 2, 3)


class Channels(Enum):
    """Where the channels of a tensor are."""

    IMAGE = "image"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class PatchWindow:
    """Windows of an image that the host lays out as channels; `padding` is their value outside."""

    kernel_shape: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    padding: int


@dataclass(frozen=True, slots=True)
class PackedLayout:
    """The packed layout of a tensor of `shape`: blocks of `batch` images and `block` channels.

    With `patches`, the tensor is that of the windows of another one.
    """

    channels: Channels
    shape: tuple[int, ...]
    batch: int
    block: int
    patches: PatchWindow | None = None

    @property
    def image(self) -> tuple[int, int, int, int]:
        """The tensor as [N, C, H, W]; rows fill the batch of the machine first."""
        if self.channels is Channels.ROWS:
            rows = prod(self.shape[:-1])
            return self.batch, self.shape[-1], 1, -(-rows // self.batch)
        count, channels, *spatial = self.shape
        height, width = (1, 1, *spatial)[-2:]
        return count, channels, height, width

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The shape of the program's tensor."""
        count, channels, height, width = self.image
        return -(-count // self.batch), -(-channels // self.block), height, width, self.batch, self.block

    def same_bytes(self, other: PackedLayout) -> bool:
        """Whether both layouts of one tensor have every element at the same place."""
        if self.patches or other.patches:
            return False
        if self.channels is other.channels:
            return _without_ones(self.packed_shape) == _without_ones(other.packed_shape)
        if any(extent != 1 for layout in (self, other) for extent in layout.shape[2:]):
            return False
        same = (self.shape[:2], self.batch, self.block) == (other.shape[:2], other.batch, other.block)
        images, groups = -(-self.shape[0] // self.batch), -(-self.shape[1] // self.block)
        return same and 1 in (images, groups)  # images before groups of channels, or behind

    # --- conversion

    @property
    def tag(self) -> str:
        """What tells the layouts of one tensor apart, for names."""
        return f"{'patches' if self.patches else self.channels.value}{self.block}"

    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """The nodes that pack `source` into the value `packed`."""
        if self.channels is Channels.ROWS:
            return self._pack_rows(source, packed, dtype)
        making = _Making(packed, dtype)
        if self.patches is not None:
            return making.pack_patches(source, self, self.patches)
        count, channels, height, width = self.image
        blocks, groups, *_ = self.packed_shape
        value = making.reshape(source, (count, channels, height, width))
        value = making.pad(value, (count, channels, height, width), (blocks * self.batch, groups * self.block))
        value = making.reshape(value, (blocks, self.batch, groups, self.block, height, width))
        return making.transpose(value, _IMAGE_ORDER, self.packed_shape, packed)

    def _pack_rows(self, source: str, packed: str, dtype: str) -> Replacement:
        making = _Making(packed, dtype)
        rows, channels = prod(self.shape[:-1]), self.shape[-1]
        _, groups, _, width, *_ = self.packed_shape
        value = making.reshape(source, (rows, channels))
        value = making.pad(value, (rows, channels), (width * self.batch, groups * self.block))
        value = making.reshape(value, (1, width, self.batch, groups, self.block, 1))
        return making.transpose(value, (0, 3, 5, 1, 2, 4), self.packed_shape, packed)

    def unpack(self, packed: str, result: str, dtype: str) -> Replacement:
        """The nodes that convert the value `packed` to `result`."""
        making = _Making(result, dtype)
        blocks, groups, height, width, batch, block = self.packed_shape
        value = making.reshape(packed, self.packed_shape)
        if self.channels is Channels.ROWS:
            value = making.transposed(value, (0, 3, 4, 1, 5, 2), (1, width, batch, groups, block, 1))
            value = making.reshape(value, (width * batch, groups * block))
            value = making.cut(value, (prod(self.shape[:-1]), self.shape[-1]), (width * batch, groups * block))
        else:
            value = making.transposed(value, _IMAGE_BACK, (blocks, batch, groups, block, height, width))
            full = (blocks * batch, groups * block, height, width)
            value = making.reshape(value, full)
            value = making.cut(value, self.image, full)
        return making.final_reshape(value, self.shape, result)


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if extent != 1)


class _Making:
    """Nodes that are made one after another, each with a result of known shape."""

    def __init__(self, base: str, dtype: str) -> None:
        self.base, self.dtype = base, dtype
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.types: dict[str, ValueType] = {}

    def _add(self, op: str, inputs: Sequence[str], shape: Sequence[int], name: str = "", **attributes: object) -> str:
        name = name or f"{self.base}.{len(self.types)}"
        self.types[name] = TensorType(self.dtype, tuple(shape))
        self.nodes.append(Node(op, tuple(inputs), (name,), attributes))
        return name

    def _integers(self, values: Sequence[int]) -> str:
        name = f"{self.base}.{len(self.types)}"
        self.constants[name] = np.array(values, np.int64)
        self.types[name] = TensorType("int64", (len(values),))
        return name

    def pack_patches(self, source: str, layout: PackedLayout, window: PatchWindow) -> Replacement:
        """The only node, with the result `base`."""
        blocks = {"block": layout.block, "batch": layout.batch}
        self._add("vdla.PackPatches", (source,), layout.packed_shape, self.base, **asdict(window), **blocks)
        return self._made()

    def reshape(self, source: str, shape: Sequence[int]) -> str:
        return self._add("Reshape", (source, self._integers(shape)), shape)

    def pad(self, source: str, shape: Sequence[int], leading: Sequence[int]) -> str:
        """The first dimensions padded with zeros up to the extents `leading`."""
        wanted = (*leading, *shape[len(leading) :])
        if tuple(shape) == wanted:
            return source
        ends = [b - a for a, b in zip(shape, wanted, strict=True)]
        return self._add("Pad", (source, self._integers([0] * len(shape) + ends)), wanted)

    def cut(self, source: str, shape: Sequence[int], full: Sequence[int]) -> str:
        """The first elements of each dimension."""
        if tuple(shape) == tuple(full):
            return source
        axes = [axis for axis, (a, b) in enumerate(zip(shape, full, strict=True)) if a != b]
        numbers = ([0] * len(axes), [shape[axis] for axis in axes], axes)
        return self._add("Slice", (source, *map(self._integers, numbers)), shape)

    def transposed(self, source: str, order: Sequence[int], shape: Sequence[int]) -> str:
        return self._add("Transpose", (source,), shape, perm=tuple(order))

    def transpose(self, source: str, order: Sequence[int], shape: Sequence[int], name: str) -> Replacement:
        """The last node, with the result `name`."""
        self._add("Transpose", (source,), shape, name, perm=tuple(order))
        return self._made()

    def final_reshape(self, source: str, shape: Sequence[int], name: str) -> Replacement:
        """The last node, with the result `name`."""
        self._add("Reshape", (source, self._integers(shape)), shape, name)
        return self._made()

    def _made(self) -> Replacement:
        return Replacement(tuple(self.nodes), self.constants, self.types)
