"""The second factor of a product of activations in the accelerator's layout, and its scale.

Of (a - za) (b - zb), summed over the depth, the machine computes a b. The share of zb belongs to
the rows of a: `RowTerms` are more elements of them, and `FactorLayout` has what these are
multiplied by. The share of za belongs to the columns of b, and is the bias in `LanesLayout`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from vdla.compiler.graph.machine.packing import RowTerms
from vdla.compiler.graph.machine.packing_nodes import PackingNodes
from vdla.compiler.graph.rewriting import Replacement

_UNIT = 127  # what all but the last of the terms are multiplied by
_FAR = 128  # the greatest magnitude of an element
_LANE_BYTES = 8


def row_terms(zero_point: int, depth: int) -> RowTerms | None:
    """The terms of the first factor for a zero point of the second one; none for 0."""
    if not zero_point:
        return None
    return RowTerms(-zero_point, -(-abs(zero_point) * _FAR * depth // _UNIT**2))


@dataclass(frozen=True, slots=True)
class FactorLayout:
    """[..., depth, columns] in blocks of `block_in` terms and `block_out` columns."""

    shape: tuple[int, ...]
    block_in: int
    block_out: int
    terms: RowTerms | None = None

    @property
    def _depth(self) -> int:
        return self.shape[-2] + (self.terms.count + 1 if self.terms else 0)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """[matrices, depth / block_in, columns / block_out, block_out, block_in]."""
        blocks = (-(-self._depth // self.block_in), -(-self.shape[-1] // self.block_out))
        return prod(self.shape[:-2]), *blocks, self.block_out, self.block_in

    @property
    def nbytes(self) -> int:
        """The size of the program's tensor, with elements of 8 bits."""
        return prod(self.packed_shape)

    @property
    def tag(self) -> str:
        """What tells most layouts of one value apart, for names."""
        return f"factor{self.block_out}"

    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """The nodes that make the program's tensor, `packed`, of the value `source`."""
        making, value = PackingNodes(packed, dtype), source
        (*batch, _, columns), (matrices, deep, wide, *_) = self.shape, self.packed_shape
        if self.terms is not None:
            shares = np.full((*batch, self.terms.count + 1, columns), _UNIT, dtype)
            shares[..., -1, :] = 1
            inputs = (value, making.constant(shares))
            value = making.add("Concat", inputs, (*batch, self._depth, columns), axis=len(batch))
        shape = (matrices, self._depth, columns)
        value = making.reshape(value, shape)
        value = making.pad(value, shape, (matrices, deep * self.block_in, wide * self.block_out))
        value = making.reshape(value, (matrices, deep, self.block_in, wide, self.block_out))
        making.transpose(value, (0, 1, 3, 4, 2), self.packed_shape, packed)
        return making.made


@dataclass(frozen=True, slots=True)
class LanesLayout:
    """The scale lanes of the columns of [..., depth, columns].

    A bias is `factor` times the sum of the column plus `offset`; `lane` has multiplier and shift.
    """

    shape: tuple[int, ...]
    block_out: int
    factor: int
    offset: int
    lane: int

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """[matrices, columns / block_out, block_out]."""
        return prod(self.shape[:-2]), -(-self.shape[-1] // self.block_out), self.block_out

    @property
    def nbytes(self) -> int:
        """The size of the program's tensor."""
        return prod(self.packed_shape) * _LANE_BYTES

    @property
    def tag(self) -> str:
        """What tells most layouts of one value apart, for names."""
        return f"lanes{self.block_out}"

    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """The nodes that make the program's tensor, `packed`, of the value `source`."""
        making, (*batch, _, columns) = PackingNodes(packed, "int64"), self.shape
        matrices, wide, block = self.packed_shape
        shape, offset = (*batch, columns), self.offset
        value = making.add("vdla.ColumnLanes", (source,), shape, factor=self.factor, offset=offset, lane=self.lane)
        value = making.reshape(value, (matrices, columns))
        value = making.pad(value, (matrices, columns), (matrices, wide * block))
        making.reshape(value, self.packed_shape, packed)
        return making.made
