"""The numbers of the C ABI: status codes and element types.

The entry of a kernel, its C header and the Python boundary are all made from these tables. Numbers
never change: objects built earlier keep theirs.
"""

from __future__ import annotations

from enum import IntEnum

ARGUMENT_SHIFT = 8
"""The bit from which on a return value holds the position of the offending argument."""

MAX_EXTENT = 2**31 - 1
"""The largest extent of a dimension: indices are int32."""

MAX_THREADS = 256
"""The most threads of a parallel loop, as in the pool, `codegen/llvm/pool.ll`."""


class KernelStatus(IntEnum):
    """The low ARGUMENT_SHIFT bits of a kernel's return value."""

    OK = 0
    COUNT = 1
    NULL = 2
    RANK = 3
    DTYPE = 4
    SHAPE = 5
    SYMBOL = 6
    ALIGNMENT = 7
    OVERLAP = 8
    MEMORY = 9


STATUS_TEXTS = {
    KernelStatus.OK: "no error",
    KernelStatus.COUNT: "the number of arguments must match the kernel",
    KernelStatus.NULL: "arguments, data and shapes must not be null",
    KernelStatus.RANK: "the rank must match the kernel",
    KernelStatus.DTYPE: "the element type must match the kernel",
    KernelStatus.SHAPE: "the shape must match the kernel, every extent at least 1",
    KernelStatus.SYMBOL: "a symbolic extent must be the same in every argument",
    KernelStatus.ALIGNMENT: "the data must be aligned to the element size",
    KernelStatus.OVERLAP: "an output must not overlap another argument",
    KernelStatus.MEMORY: "cannot allocate memory for the intermediate results",
}
"""The rule that was broken, or the resource that ran out."""

DTYPE_CODES = {
    "bool": 1,
    "int2": 2,
    "int4": 3,
    "int8": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "uint8": 8,
    "uint16": 9,
    "uint32": 10,
    "uint64": 11,
    "float16": 12,
    "bfloat16": 13,
    "float32": 14,
    "float64": 15,
}
"""The number of each element type."""

_BYTES = {"16": 2, "32": 4, "64": 8}


def element_bytes(dtype: str) -> int:
    """The bytes of one element in memory; int2 and int4 take a whole byte."""
    return _BYTES.get(dtype[-2:], 1)


def decode_status(status: int) -> tuple[KernelStatus, int]:
    """A kernel's return value as a status and the position of the argument it is about, or 0."""
    return KernelStatus(status & ((1 << ARGUMENT_SHIFT) - 1)), status >> ARGUMENT_SHIFT
