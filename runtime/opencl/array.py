"""An array in the memory of an OpenCL device."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from vdla.compiler.abi import element_bytes


@dataclass(frozen=True, slots=True, eq=False)
class OpenClArray:
    """Elements in a buffer, which the driver keeps until the work that reads it is done."""

    handle: Any
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * element_bytes(self.dtype)

    def view(self, offset: int, shape: tuple[int, ...], dtype: str) -> OpenClArray:
        """An array in this one's memory, `offset` bytes from its start."""
        size = max(prod(shape) * element_bytes(dtype), 1)
        return OpenClArray(self.handle.get_sub_region(offset, size), shape, dtype)
