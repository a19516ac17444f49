# SPDX-License-Identifier: Apache-2.0
"""The operators, conversions and scalar functions of the IR in OpenCL C.

Small floats and integers of less than a byte are only converted (`lowering/legalise.py`). Integers
wrap, floats round to nearest even, and floats to integers truncate and saturate, with NaN as 0. Of
the functions, what IEEE 754 defines is exact; the others have the accuracy of the device's library,
which the OpenCL specification bounds.
"""

from __future__ import annotations

from typing import Protocol

from vdla.compiler import ir
from vdla.compiler.arith import Range, bounds
from vdla.compiler.codegen.opencl.indices import is_index
from vdla.compiler.codegen.opencl.source_text import OpenClError, SourceText, call, converted, infix
from vdla.compiler.codegen.opencl.types import bits, c_type, is_signed, unsigned
from vdla.compiler.ir import INTEGER_BITS, SMALL_FLOATS, is_float

SYMBOLS = {
    op: entry.symbol for op, entry in ir.OPERATORS.items() if entry.symbol and entry.kind != ir.OperatorKind.INTEGER
}
"""The operators that C has, of numbers and of bits."""
_OF_BOOLS = {**SYMBOLS, "and": "&&", "or": "||", "xor": "!="}
_SUMS = ("add", "sub", "mul")
_PROMOTED = 32  # narrower integers are computed in `int`


class ValueWriter(Protocol):
    """What operators ask of the writer of expressions; `ranges` has the bounds of the variables."""

    ranges: dict[str, Range]

    def dtype(self, expr: ir.Expr) -> str:
        """The dtype of an expression."""

    def value(self, expr: ir.Expr) -> SourceText:
        """A value."""

    def index(self, expr: ir.Expr) -> SourceText:
        """Arithmetic on loop variables, which cannot overflow."""

    def known(self, expr: ir.Expr) -> SourceText | None:
        """The variable that holds a value, if one does."""

    def helper(self, name: str) -> str:
        """The name of a device function, which the source then holds."""


def binary(writer: ValueWriter, expr: ir.Binary) -> SourceText:
    """`a op b`."""
    op, dtype = expr.op, writer.dtype(expr.a)
    if not is_float(dtype) and dtype != "bool":
        return _of_integers(writer, expr, dtype)
    a, b = writer.value(expr.a), writer.value(expr.b)
    if op in ("min", "max"):
        return call(writer.helper(f"{op}imum_{c_type(dtype)}"), a, b)
    return infix((SYMBOLS if is_float(dtype) else _OF_BOOLS)[op], a, b)


def narrowed(value: SourceText, dtype: str) -> SourceText:
    """What C computed in `int`, converted back to a narrower type."""
    if dtype in SMALL_FLOATS or (dtype in INTEGER_BITS and bits(dtype) < _PROMOTED):
        return converted(c_type(dtype), value)
    return value


def _of_integers(writer: ValueWriter, expr: ir.Binary, dtype: str) -> SourceText:
    op = expr.op
    if op in _SUMS:
        return _wrapping(writer, expr, dtype)
    a, b = writer.value(expr.a), writer.value(expr.b)
    if op in ("floordiv", "mod"):
        return _division(writer, expr, dtype, a, b)
    if op in ("shl", "shr"):
        return _shift(writer, expr, dtype, a, b)
    if op in ("min", "max"):
        return call(op, a, b)
    result = infix(SYMBOLS[op], a, b)
    return result if op in ir.COMPARE_OPS else narrowed(result, dtype)


def _wrapping(writer: ValueWriter, expr: ir.Binary, dtype: str) -> SourceText:
    """Sums and products, in the type in which they wrap."""
    if dtype == "int32" and is_index(expr) and _is_small(writer, expr):
        return writer.index(expr)
    if is_signed(dtype) and bits(dtype) >= _PROMOTED:
        return converted(c_type(dtype), _unsigned(writer, expr, dtype))
    a = writer.value(expr.a)
    if dtype == "uint16" and expr.op == "mul":  # the product may exceed an `int`
        a = converted("uint", a)
    return narrowed(infix(SYMBOLS[expr.op], a, writer.value(expr.b)), dtype)


def _unsigned(writer: ValueWriter, expr: ir.Expr, dtype: str) -> SourceText:
    """A value of a signed type as an unsigned one, sums and products inside in that type too."""
    if isinstance(expr, ir.Binary) and expr.op in _SUMS and writer.known(expr) is None:
        return infix(SYMBOLS[expr.op], *(_unsigned(writer, side, dtype) for side in (expr.a, expr.b)))
    if isinstance(expr, ir.Const) and expr.value >= 0:
        return SourceText(f"{expr.value}{'ul' if dtype == 'int64' else 'u'}")
    if isinstance(expr, ir.Cast):
        inner = writer.dtype(expr.value)
        if inner in INTEGER_BITS and bits(inner) < bits(dtype):  # C extends the sign
            expr = expr.value
    return converted(c_type(unsigned(dtype)), writer.value(expr))


def _is_small(writer: ValueWriter, expr: ir.Expr) -> bool:
    """Whether arithmetic on loop variables stays within int32."""
    parts = list(ir.find(expr, ir.Binary))
    return all(low >= -(1 << 31) and high < 1 << 31 for low, high in (bounds(e, writer.ranges) for e in parts))


def _division(writer: ValueWriter, expr: ir.Binary, dtype: str, a: SourceText, b: SourceText) -> SourceText:
    """Towards minus infinity; an operator of C where that is the same."""
    is_quotient = expr.op == "floordiv"
    if isinstance(expr.b, ir.Const) and expr.b.value > 0:
        number = int(expr.b.value)
        if not is_signed(dtype) or (is_index(expr.a) and bounds(expr.a, writer.ranges)[0] >= 0):
            return narrowed(infix("/" if is_quotient else "%", a, b), dtype)
        if number & (number - 1) == 0 and dtype == "int32":
            operand = SourceText(str(number.bit_length() - 1 if is_quotient else number - 1))
            return infix(">>" if is_quotient else "&", a, operand)
    return call(writer.helper(f"{expr.op}_{c_type(dtype)}"), a, b)


def _shift(writer: ValueWriter, expr: ir.Binary, dtype: str, a: SourceText, b: SourceText) -> SourceText:
    amount = expr.b
    if not isinstance(amount, ir.Const) or not 0 <= amount.value < bits(dtype):
        return call(writer.helper(f"{expr.op}_{c_type(dtype)}"), a, b)
    number = SourceText(str(int(amount.value)))
    if expr.op == "shr":
        return narrowed(infix(">>", a, number), dtype)
    if is_signed(dtype):
        return converted(c_type(dtype), infix("<<", converted(c_type(unsigned(dtype)), a), number))
    return narrowed(infix("<<", a, number), dtype)


# --- conversions ----------------------------------------------------------------------------------


def cast(writer: ValueWriter, value: SourceText, source: str, dtype: str) -> SourceText:
    """`value`, of dtype `source`, as `dtype`."""
    if source == dtype or (source in ("int2", "int4") and dtype == "int8"):
        return value
    if dtype == "bool":
        return infix("!=", value, SourceText("0"))
    narrow = INTEGER_BITS.get(dtype, 8) < 8
    if source in SMALL_FLOATS or dtype in SMALL_FLOATS or (is_float(source) and dtype in INTEGER_BITS):
        to, of = (name if name in SMALL_FLOATS else c_type(name) for name in (dtype, source))
        return call(writer.helper(f"{dtype if narrow else to}_of_{of}"), value)
    if narrow:
        wide = source in ("int64", "uint64", "uint32")  # else C promotes it to `int`
        number = converted("int", value) if wide else value.converts or value  # only the low bits matter
        return call(writer.helper(f"wrap_{dtype}"), number)
    return converted(c_type(dtype), value)


# --- functions ------------------------------------------------------------------------------------

BUILT_IN = {
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
    if name == "divide":
        return infix("/", *args)
    if name == "rsqrt":
        return infix("/", SourceText("1.0f" if dtype == "float32" else "1.0"), call("sqrt", *args))
    if name == "abs" and not is_float(dtype):  # the built-in gives an unsigned result, which wraps
        return converted(c_type(dtype), call("abs", *args)) if is_signed(dtype) else args[0]
    if name in _OF_DEVICE:
        return call(writer.helper(f"{name}_{c_type(dtype)}"), *args)
    if name not in BUILT_IN:
        raise OpenClError(f"call: function must be one of {', '.join((*BUILT_IN, *_OF_DEVICE))}, got {name}")
    return call(BUILT_IN[name], *args)
