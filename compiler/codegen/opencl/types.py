"""Element types in OpenCL C.

int2 and int4 are a `char` within their own range; float16 and bfloat16 are the bits of a number in
a `ushort`, since a device need not compute with them; bool is a `uchar` in memory.
"""

from __future__ import annotations

from vdla.compiler.ir import INTEGER_BITS

_C_TYPES = {
    "bool": "bool", "int2": "char", "int4": "char", "int8": "char", "int16": "short", "int32": "int", "int64": "long",
    "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
    "float16": "ushort", "bfloat16": "ushort", "float32": "float", "float64": "double",
}  # fmt: skip
_BITS_OF_BYTES = 8
VECTOR_LANES = (2, 3, 4, 8, 16)
"""The lengths of vectors in OpenCL C."""
VECTOR_DTYPES = frozenset({"float32", "float64", *(name for name, bits in INTEGER_BITS.items() if bits >= 8)})
"""The types that have vectors; the others are computed lane by lane."""


def c_type(dtype: str, lanes: int = 1) -> str:
    """The type of a value."""
    return _C_TYPES[dtype] + (str(lanes) if lanes > 1 else "")


def memory_type(dtype: str) -> str:
    """The type of an element in memory."""
    return "uchar" if dtype == "bool" else _C_TYPES[dtype]


def unsigned(dtype: str) -> str:
    """The unsigned dtype of the same width."""
    return f"uint{bits(dtype)}"


def bits(dtype: str) -> int:
    """The width of an integer in memory."""
    return max(INTEGER_BITS[dtype], _BITS_OF_BYTES)


def is_signed(dtype: str) -> bool:
    """Whether an integer type is signed."""
    return dtype.startswith("int")
