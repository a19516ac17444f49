"""The numbers of the C ABI: what a kernel returns, and what it calls the element types.

The one table of each: the wrapper, the C header and the Python boundary are made from these. Numbers never change,
since objects that were built before keep them.
"""

from __future__ import annotations

from enum import IntEnum

ARGUMENT_SHIFT = 8
"""A code that is about one argument has its position from this bit on."""


MAX_EXTENT = 2**31 - 1
"""The largest extent of a dimension: indices are int32."""


class Code(IntEnum):
    """What a kernel returns, below ARGUMENT_SHIFT."""

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


TEXTS = {
    Code.OK: "all is well",
    Code.COUNT: "the number of arguments must be the kernel's",
    Code.NULL: "the arguments, their data and their shapes must not be null",
    Code.RANK: "the rank must be the kernel's",
    Code.DTYPE: "the element type must be the kernel's",
    Code.SHAPE: "the shape must be the kernel's, every extent at least 1",
    Code.SYMBOL: "an extent with a name must be the same in every argument",
    Code.ALIGNMENT: "the data must be aligned to the size of an element",
    Code.OVERLAP: "an output must not overlap another argument",
    Code.MEMORY: "there must be memory for the intermediate results",
}
"""The rule that each code says was broken."""

DTYPES = {
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


def dtype_bytes(dtype: str) -> int:
    """The bytes that one element takes in memory; int2 and int4 take a whole one."""
    return _BYTES.get(dtype[-2:], 1)


def split(code: int) -> tuple[Code, int]:
    """What a kernel's return value says: the rule, and the argument if it is about one."""
    return Code(code & ((1 << ARGUMENT_SHIFT) - 1)), code >> ARGUMENT_SHIFT
