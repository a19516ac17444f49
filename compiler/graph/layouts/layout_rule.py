# SPDX-License-Identifier: Apache-2.0
"""Layout rules: whether a node can compute on images in blocks of channels, and how.

A rule is a function of a `LayoutCall`. It returns the node's blocked form, or None where the node
stays as it is. The lanes of a value in blocks follow from its element type, its channels and the
target, so that all nodes agree on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.ir import DTYPES, is_float
from vdla.compiler.operators.conv2d import lanes_of
from vdla.compiler.operators.quantised_weights import best_dot_layout
from vdla.compiler.target import Target

_RANK = 4  # of a plain image


@dataclass(frozen=True, eq=False)
class BlockedForm:
    """The layouts of the values of a node that computes in blocks.

    The node reads the inputs at positions `reads` in blocks, those at `reads_either` in the layout
    that they have, those of `constants` as these repacked arrays, and all others unchanged. Its
    result is in blocks if `writes_blocks`. `gain_bytes` is the extra cost of the plain node.
    `is_plain_reader` says that with a plain result, too, it reads `reads_either` in any layout.
    """

    reads: frozenset[int] = frozenset()
    reads_either: frozenset[int] = frozenset()
    writes_blocks: bool = True
    gain_bytes: int = 0
    constants: Mapping[int, Array] = field(default_factory=dict)
    is_plain_reader: bool = False


@dataclass(frozen=True, eq=False)
class LayoutCall:
    """A node, its graph and the CPU that it is compiled for."""

    graph: Graph
    node: Node
    target: Target

    def image(self, name: str) -> TensorType | None:
        """The type of a value that is an image [N, C, H, W] of known extents and has lanes."""
        kind = self.graph.types.get(name)
        is_image = isinstance(kind, TensorType) and kind.static and len(kind.extents) == _RANK
        return kind if is_image and self._lanes(kind) is not None else None  # type: ignore[arg-type, return-value]

    def are_images(self, *names: str) -> bool:
        """Whether all values are images."""
        return all(self.image(name) is not None for name in names)

    def lanes(self, name: str) -> int:
        """The lanes of an image in blocks."""
        lanes = self._lanes(self.graph.tensor(name))
        assert lanes is not None
        return lanes

    def _lanes(self, kind: TensorType) -> int | None:
        """The lanes of float convolutions and of dot products of bytes."""
        if kind.dtype not in DTYPES or not prod(kind.extents):
            return None
        if kind.dtype in ("int8", "uint8"):
            return best_dot_layout(self.target).lanes
        if not is_float(kind.dtype):
            return None
        return lanes_of(kind.extents[1], kind.dtype, self.target)

    def in_blocks(self, name: str) -> TensorType:
        """The type of an image in blocks; int8 numbers are what dot products read."""
        kind = self.graph.tensor(name)
        is_unsigned = kind.dtype == "int8" and best_dot_layout(self.target).data == "uint8"
        return replace(kind, dtype="uint8" if is_unsigned else kind.dtype, lanes=self.lanes(name))

    def nbytes(self, *names: str) -> int:
        """The bytes of tensors of known extents."""
        return sum(self.graph.tensor(name).nbytes for name in names)


LayoutRule = Callable[[LayoutCall], BlockedForm | None]
