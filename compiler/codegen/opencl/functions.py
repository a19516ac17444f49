"""The scalar functions of `ir/functions.py` in OpenCL C: built-in functions and device functions.

What IEEE 754 defines is exact; the others have the accuracy of the device's library, which the
OpenCL specification bounds. float16 and bfloat16 are computed in float.
"""

from __future__ import annotations

from vdla.compiler.codegen.opencl.casts import from_float, to_float
from vdla.compiler.codegen.opencl.errors import OpenClError
from vdla.compiler.codegen.opencl.source_text import PRODUCT, SourceText, call, converted, infix
from vdla.compiler.codegen.opencl.types import c_type, is_signed
from vdla.compiler.codegen.opencl.value_writer import ValueWriter
from vdla.compiler.ir import SMALL_FLOATS, is_float

_BUILT_IN = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "erf": "erf", "sin": "sin", "cos": "cos", "pow": "pow",
    "floor": "floor", "ceil": "ceil", "round": "rint", "trunc": "trunc", "abs": "fabs", "isnan": "isnan",
    "popcount": "popcount",
}  # fmt: skip
_OF_DEVICE = ("sigmoid", "round_product")


def call_function(writer: ValueWriter, name: str, dtype: str, args: list[SourceText]) -> SourceText:
    """The value of scalar function `name` for arguments of `dtype`.

    Raises:
        OpenClError: the function is unknown.
    """
    if dtype in SMALL_FLOATS:
        result = call_function(writer, name, "float32", [to_float(writer, arg, dtype) for arg in args])
        return result if name == "isnan" else from_float(writer, result, dtype)
    one = SourceText("1.0f" if dtype == "float32" else "1.0")
    if name == "divide":
        return infix("/", PRODUCT, *args)
    if name == "rsqrt":
        return infix("/", PRODUCT, one, call("sqrt", *args))
    if name == "abs" and not is_float(dtype):
        return _integer_abs(writer, args[0], dtype)
    if name in _OF_DEVICE:
        return call(writer.helper(f"{name}_{c_type(dtype)}"), *args)
    if name not in _BUILT_IN:
        raise OpenClError(f"call: function must be one of {', '.join((*_BUILT_IN, *_OF_DEVICE))}, got {name}")
    return call(_BUILT_IN[name], *args)


def _integer_abs(writer: ValueWriter, value: SourceText, dtype: str) -> SourceText:
    """The built-in gives an unsigned result, which wraps when it is converted back."""
    if not is_signed(dtype):
        return value
    if dtype in ("int2", "int4"):
        return call(writer.helper(f"wrap_{dtype}"), call("abs", value))
    return converted(c_type(dtype), call("abs", value))
