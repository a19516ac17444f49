# SPDX-License-Identifier: Apache-2.0
"""The second factor of a product of two activations, as entries of the weight buffer."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.machine.packing import InputLayout, PackingNodes, RowTerms
from vdla.compiler.graph.rewriting import Replacement

UNIT = 127
"""The multiplier of all terms of a zero point but the last."""


@dataclass(frozen=True, slots=True)
class FactorLayout(InputLayout):
    """[..., depth, columns] in blocks of `block_in` terms and `block_out` columns."""

    conversion: ClassVar[None] = None

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
    def tag(self) -> str:
        """What tells most layouts of one value apart, for names."""
        return f"factor{self.block_out}"

    @staticmethod
    def stored(dtype: str) -> str:
        """The type of the program's tensor of a value."""
        return dtype

    def same_bytes(self, layout: InputLayout) -> bool:
        """Whether both layouts of one tensor have every element at the same place."""
        return layout == self and self.terms is None

    @staticmethod
    def same_heads(layout: InputLayout) -> bool:
        """No rows have the bytes of a factor."""
        del layout
        return False

    @property
    def places(self) -> Array:
        """The place of each element of the tensor among those of the packed one, in one row."""
        matrices, deep, wide, block_out, block_in = self.packed_shape
        _, depth, columns = shape = matrices, *self.shape[-2:]
        places: Array = np.arange(prod(self.packed_shape)).reshape(matrices, deep, wide, block_out, block_in)
        places = places.transpose(0, 1, 4, 2, 3).reshape(matrices, deep * block_in, wide * block_out)
        return np.ascontiguousarray(places[:, :depth, :columns]).reshape(shape).reshape(self.shape)

    def unpacked(self, packed: Array) -> Array:
        """The value from the program's tensor."""
        return np.asarray(packed.ravel()[self.places])

    def unpack(self, packed: str, result: str, dtype: str) -> Replacement:
        """The nodes that convert the value `packed` to `result`."""
        making, (matrices, deep, wide, block_out, block_in) = PackingNodes(result, dtype), self.packed_shape
        blocks = (matrices, deep, block_in, wide, block_out)
        value = making.transpose(making.reshape(packed, self.packed_shape), (0, 1, 4, 2, 3), blocks)
        full = (matrices, deep * block_in, wide * block_out)
        value = making.cut(making.reshape(value, full), (matrices, *self.shape[-2:]), full)
        making.reshape(value, self.shape, result)
        return making.made

    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """The nodes that make the program's tensor, `packed`, of the value `source`."""
        making, value = PackingNodes(packed, dtype), source
        (*batch, _, columns), (matrices, deep, wide, *_) = self.shape, self.packed_shape
        if self.terms is not None:
            shares = np.full((*batch, self.terms.count + 1, columns), UNIT, dtype)
            shares[..., -1, :] = 1
            inputs = (value, making.constant(shares))
            value = making.add("Concat", inputs, (*batch, self._depth, columns), axis=len(batch))
        shape = (matrices, self._depth, columns)
        value = making.reshape(value, shape)
        value = making.pad(value, shape, (matrices, deep * self.block_in, wide * self.block_out))
        value = making.reshape(value, (matrices, deep, self.block_in, wide, self.block_out))
        making.transpose(value, (0, 1, 3, 4, 2), self.packed_shape, packed)
        return making.made
