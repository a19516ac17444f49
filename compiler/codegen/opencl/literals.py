"""Constants of the IR as literals of OpenCL C, of exactly their type and value."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from vdla.compiler import ir
from vdla.compiler.codegen.opencl.source_text import UNARY, SourceText
from vdla.compiler.codegen.opencl.types import c_type
from vdla.compiler.ir import SMALL_FLOATS, is_float

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
