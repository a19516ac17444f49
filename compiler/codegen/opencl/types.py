# SPDX-License-Identifier: Apache-2.0
"""Element types in OpenCL C.

int2 and int4 are a `char` within their own range; float16 and bfloat16 are the bits of a number in
a `ushort`, since a device need not compute with them; bool is a `uchar` in memory.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from vdla.compiler import ir
from vdla.compiler.codegen.opencl.source_text import UNARY, SourceText
from vdla.compiler.ir import INTEGER_BITS, SMALL_FLOATS, is_float

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


# --- constants ------------------------------------------------------------------------------------

_SUFFIX = {"int32": "", "int64": "L", "uint32": "u", "uint64": "ul"}
_LOWEST = {"int32": (-(1 << 31), "INT_MIN"), "int64": (-(1 << 63), "LONG_MIN")}


def literal(const: ir.Const) -> SourceText:
    """A constant."""
    dtype = const.dtype
    if dtype == "bool":
        return SourceText("true" if const.value else "false")
    if dtype in SMALL_FLOATS:
        return _small_float(float(const.value), dtype)
    return _float(float(const.value), dtype) if is_float(dtype) else _integer(int(const.value), dtype)


def _integer(value: int, dtype: str) -> SourceText:
    lowest, name = _LOWEST.get(dtype, (None, ""))
    if value == lowest:
        return SourceText(name)
    if dtype not in _SUFFIX:
        return SourceText(f"({c_type(dtype)}){value}", UNARY)
    return SourceText(f"{value}{_SUFFIX[dtype]}", UNARY) if value < 0 else SourceText(f"{value}{_SUFFIX[dtype]}")


def _float(value: float, dtype: str) -> SourceText:
    if math.isnan(value):
        return SourceText("NAN" if dtype == "float32" else "(double)NAN", UNARY)
    if math.isinf(value):
        name = "INFINITY" if dtype == "float32" else "(double)INFINITY"
        return SourceText(f"-{name}" if value < 0 else name, UNARY)
    text = str(np.float32(value)) if dtype == "float32" else repr(value)
    end = "f" if dtype == "float32" else ""
    return SourceText(text + end, UNARY) if text.startswith("-") else SourceText(text + end)


def _small_float(value: float, dtype: str) -> SourceText:
    """The bits of the number, with the number as a comment."""
    kind = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    stored = np.asarray(value, np.float32).astype(kind)
    return SourceText(f"(ushort){int(stored.view(np.uint16)):#06x} /* {float(stored)!r} */", UNARY)
