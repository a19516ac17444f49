"""float16 and bfloat16 are computed in float32 and rounded where a result is stored."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.ir import SMALL_FLOATS


def wide_dtype(dtype: str) -> str:
    """The dtype in which elements of `dtype` are computed."""
    return "float32" if dtype in SMALL_FLOATS else dtype


def wide(value: te.Value) -> te.Value:
    """A narrow float in float32; others as they are."""
    return te.cast(wide_dtype(value.dtype), value)
