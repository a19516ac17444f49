"""Conversions between element types in OpenCL C.

Integers wrap, floats round to nearest even, and floats to integers truncate and saturate, with NaN
as 0. Bool is true for everything but 0.
"""

from __future__ import annotations

from vdla.compiler.codegen.opencl.source_text import EQUALITY, SourceText, call, converted, infix
from vdla.compiler.codegen.opencl.types import c_type
from vdla.compiler.codegen.opencl.value_writer import ValueWriter
from vdla.compiler.ir import INTEGER_BITS, SMALL_FLOATS, is_float


def cast(writer: ValueWriter, value: SourceText, source: str, dtype: str) -> SourceText:
    """`value`, of dtype `source`, as `dtype`."""
    if source == dtype:
        return value
    if source in SMALL_FLOATS:
        return cast(writer, to_float(writer, value, source), "float32", dtype)
    if dtype in SMALL_FLOATS:
        return from_float(writer, cast(writer, value, source, "float32"), dtype)
    if dtype == "bool":
        return infix("!=", EQUALITY, value, SourceText("0"))
    if is_float(source) and dtype in INTEGER_BITS:
        name = dtype if INTEGER_BITS[dtype] < 8 else c_type(dtype)
        return call(writer.helper(f"{name}_of_{c_type(source)}"), value)
    if dtype in INTEGER_BITS and INTEGER_BITS[dtype] < 8:
        narrow = value if source not in ("int64", "uint64", "uint32") else converted("int", value)
        return call(writer.helper(f"wrap_{dtype}"), narrow)
    return converted(c_type(dtype), value)


def to_float(writer: ValueWriter, value: SourceText, dtype: str) -> SourceText:
    """The bits of a float16 or bfloat16 as a float."""
    return call(writer.helper(f"float_of_{dtype}"), value)


def from_float(writer: ValueWriter, value: SourceText, dtype: str) -> SourceText:
    """A float rounded to the bits of a float16 or bfloat16."""
    return call(writer.helper(f"{dtype}_of_float"), value)
