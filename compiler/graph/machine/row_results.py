# SPDX-License-Identifier: Apache-2.0
"""Results of 32 bits, a number for each row, which the host takes from a program's output.

No operator of the accelerator reads them: its inputs have 8 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import ClassVar

import numpy as np

from vdla.compiler.graph.graph import Array, TensorType
from vdla.compiler.graph.machine.packing import InputLayout, PackingNodes
from vdla.compiler.graph.rewriting import Replacement

_DTYPE = "int32"
_PLACES = np.array(0xFFFF, np.int32)


class RowValue(Enum):
    """What a number of 32 bits stands for: itself, or the place in a key."""

    NUMBER = "number"
    PLACE = "place"


@dataclass(frozen=True, eq=False, slots=True)
class RowResults(InputLayout):
    """A tensor of `shape` and `dtype`; `index` has the place of each element in the program's
    output, [packed_shape] numbers in one row.
    """

    shape: tuple[int, ...]
    dtype: str
    stored_shape: tuple[int, ...]
    index: Array
    value: RowValue = RowValue.NUMBER

    element_bytes: ClassVar[int] = 4
    conversion: ClassVar[None] = None

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The shape of the program's tensor."""
        return self.stored_shape

    @property
    def tag(self) -> str:
        """What tells most layouts of one value apart, for names."""
        return "rows32"

    @staticmethod
    def stored(dtype: str) -> str:
        """The type of the program's tensor, whatever that of the value is."""
        del dtype
        return _DTYPE

    @staticmethod
    def same_bytes(layout: InputLayout) -> bool:
        """No operator reads the program's tensor."""
        del layout
        return False

    same_heads = same_bytes

    def unpacked(self, packed: Array) -> Array:
        """The tensor from the program's."""
        numbers = packed.ravel()[self.index].reshape(self.shape)
        return np.asarray(-numbers & _PLACES if self.value is RowValue.PLACE else numbers, self.dtype)

    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """No operator reads the program's tensor."""
        raise AssertionError(f"results of 32 bits are never packed, got {source} as {packed} {dtype}")

    def unpack(self, packed: str, result: str, dtype: str) -> Replacement:
        """The nodes that convert the value `packed` to `result`."""
        making = PackingNodes(result, _DTYPE)
        row = making.reshape(packed, (prod(self.stored_shape),))
        index = making.constant(self.index.ravel().astype(np.int64))
        value = making.add("Gather", (row, index), (self.index.size,), axis=0)
        if self.value is RowValue.PLACE:
            value = making.add("Neg", (value,), (self.index.size,))
            value = making.add("BitwiseAnd", (value, making.constant(_PLACES)), (self.index.size,))
        if dtype == _DTYPE:
            making.reshape(value, self.shape, result)
            return making.made
        value = making.reshape(value, self.shape)
        making.add("Cast", (value,), self.shape, result, to=dtype)
        made = making.made
        return Replacement(made.nodes, made.constants, {**made.types, result: TensorType(dtype, self.shape)})
