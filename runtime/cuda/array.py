"""Arrays in the memory of a CUDA device."""

from __future__ import annotations

from ctypes import c_uint64
from dataclasses import dataclass
from math import prod

from vdla.compiler.abi import element_bytes
from vdla.runtime.cuda.context import CudaContext, Owned
from vdla.runtime.cuda.errors import CudaDeviceError


@dataclass(frozen=True, slots=True, eq=False)
class CudaArray:
    """Elements in memory that is freed after its last array; `handle` is the address of the first.

    Freeing waits for the kernels and copies that may use the memory, so none outlives it.
    """

    memory: Owned
    handle: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * element_bytes(self.dtype)

    def view(self, offset: int, shape: tuple[int, ...], dtype: str) -> CudaArray:
        """An array in this one's memory, `offset` bytes from its start.

        Raises:
            CudaDeviceError: it does not lie within.
        """
        view = CudaArray(self.memory, self.handle + offset, shape, dtype)
        if offset < 0 or offset + view.nbytes > self.nbytes:
            end = offset + view.nbytes
            raise CudaDeviceError(f"cuda: a view must lie within {self.nbytes} bytes, got {offset} to {end}")
        return view


def allocate(context: CudaContext, shape: tuple[int, ...], dtype: str) -> CudaArray:
    """An array of arbitrary content; one without elements has an address too.

    Raises:
        CudaDeviceError: the device has too little memory.
    """
    nbytes = max(prod(shape) * element_bytes(dtype), 1)
    rule = f"cuda: {context.name} must have {nbytes} bytes"
    memory = Owned(context, rule, "cuMemAlloc_v2", c_uint64(), nbytes, release="cuMemFree_v2")
    return CudaArray(memory, memory.handle, tuple(shape), dtype)
