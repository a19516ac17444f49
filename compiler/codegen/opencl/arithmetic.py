"""The operators of `ir/operators.py` in OpenCL C."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.arith import bounds
from vdla.compiler.codegen.opencl.casts import from_float, to_float
from vdla.compiler.codegen.opencl.indices import is_index
from vdla.compiler.codegen.opencl.source_text import (
    AND,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    EQUALITY,
    OR,
    PRODUCT,
    RELATION,
    SHIFT,
    SUM,
    SourceText,
    call,
    converted,
    infix,
)
from vdla.compiler.codegen.opencl.types import bits, c_type, is_signed, unsigned
from vdla.compiler.codegen.opencl.value_writer import ValueWriter
from vdla.compiler.ir import INTEGER_BITS, SMALL_FLOATS, is_float

_SUMS = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT)}
_BITWISE = {"and": ("&", BIT_AND), "or": ("|", BIT_OR), "xor": ("^", BIT_XOR)}
_OF_BOOLS = {"and": ("&&", AND), "or": ("||", OR), "xor": ("!=", EQUALITY)}
_COMPARISONS = {
    op: (ir.OPERATORS[op].symbol or "", EQUALITY if op in ("eq", "ne") else RELATION) for op in ir.COMPARE_OPS
}
_PROMOTED = 32  # narrower integers are computed in `int`


def binary(writer: ValueWriter, expr: ir.Binary) -> SourceText:
    """`a op b`."""
    op, dtype = expr.op, writer.dtype(expr.a)
    if dtype == "bool":
        return _of_bools(writer, expr)
    if dtype in SMALL_FLOATS:
        sides = [to_float(writer, writer.value(side), dtype) for side in (expr.a, expr.b)]
        result = _of_floats(writer, op, "float32", *sides)
        return result if op in _COMPARISONS else from_float(writer, result, dtype)
    if is_float(dtype):
        return _of_floats(writer, op, dtype, writer.value(expr.a), writer.value(expr.b))
    return _of_integers(writer, expr, dtype)


def narrowed(value: SourceText, dtype: str) -> SourceText:
    """What C computed in `int`, converted back to a narrower type."""
    if dtype in SMALL_FLOATS or (dtype in INTEGER_BITS and bits(dtype) < _PROMOTED):
        return converted(c_type(dtype), value)
    return value


def _of_bools(writer: ValueWriter, expr: ir.Binary) -> SourceText:
    symbol, level = {**_COMPARISONS, **_OF_BOOLS}[expr.op]
    return infix(symbol, level, writer.value(expr.a), writer.value(expr.b))


def _of_floats(writer: ValueWriter, op: str, dtype: str, a: SourceText, b: SourceText) -> SourceText:
    if op in ("min", "max"):
        return call(writer.helper(f"{op}imum_{c_type(dtype)}"), a, b)
    symbol, level = {**_SUMS, **_COMPARISONS}[op]
    return infix(symbol, level, a, b)


def _of_integers(writer: ValueWriter, expr: ir.Binary, dtype: str) -> SourceText:
    op = expr.op
    if op in _SUMS:
        return _wrapping(writer, expr, dtype)
    if op in ("floordiv", "mod"):
        return _division(writer, expr, dtype)
    if op in ("shl", "shr"):
        return _wrapped(writer, _shift(writer, expr, dtype), dtype)
    a, b = writer.value(expr.a), writer.value(expr.b)
    if op in _COMPARISONS:
        return infix(*_COMPARISONS[op], a, b)
    if op in _BITWISE:
        return narrowed(infix(*_BITWISE[op], a, b), dtype)
    return call(op, a, b)  # the built-in min and max


def _wrapping(writer: ValueWriter, expr: ir.Binary, dtype: str) -> SourceText:
    """Sums and products, in the type in which they wrap."""
    if dtype == "int32" and is_index(expr) and _is_small(writer, expr):
        return writer.index(expr)
    if not is_signed(dtype) and bits(dtype) >= _PROMOTED:
        return infix(*_SUMS[expr.op], writer.value(expr.a), writer.value(expr.b))
    if dtype == "uint16" and expr.op == "mul":  # the product may exceed an `int`
        return converted("ushort", infix("*", PRODUCT, converted("uint", writer.value(expr.a)), writer.value(expr.b)))
    if bits(dtype) < _PROMOTED:
        return _wrapped(writer, infix(*_SUMS[expr.op], writer.value(expr.a), writer.value(expr.b)), dtype, narrow=True)
    return converted(c_type(dtype), _unsigned(writer, expr, dtype))


def _unsigned(writer: ValueWriter, expr: ir.Expr, dtype: str) -> SourceText:
    """A value of a signed type as an unsigned one, sums and products inside in that type too."""
    if isinstance(expr, ir.Binary) and expr.op in _SUMS and writer.known(expr) is None:
        sides = (_unsigned(writer, side, dtype) for side in (expr.a, expr.b))
        return infix(*_SUMS[expr.op], *sides)
    if isinstance(expr, ir.Const) and expr.value >= 0:
        return SourceText(f"{expr.value}{'ul' if dtype == 'int64' else 'u'}")
    if isinstance(expr, ir.Cast) and writer.dtype(expr.value) in INTEGER_BITS:
        inner = writer.dtype(expr.value)
        if bits(inner) < bits(dtype):  # C extends the sign
            return converted(c_type(unsigned(dtype)), writer.value(expr.value))
    return converted(c_type(unsigned(dtype)), writer.value(expr))


def _is_small(writer: ValueWriter, expr: ir.Expr) -> bool:
    """Whether arithmetic on loop variables stays within int32."""
    parts = [e for e in ir.walk_expr(expr) if isinstance(e, ir.Binary)]
    return all(low >= -(1 << 31) and high < 1 << 31 for low, high in (bounds(e, writer.ranges) for e in parts))


def _wrapped(writer: ValueWriter, value: SourceText, dtype: str, *, narrow: bool = False) -> SourceText:
    """An `int`, or with int2 and int4 a `char`, in the range of its type."""
    if INTEGER_BITS[dtype] < 8:
        return call(writer.helper(f"wrap_{dtype}"), value)
    return converted(c_type(dtype), value) if narrow else value


def _division(writer: ValueWriter, expr: ir.Binary, dtype: str) -> SourceText:
    """Towards minus infinity; an operator of C where that is the same."""
    a, b, divisor = writer.value(expr.a), writer.value(expr.b), expr.b
    if isinstance(divisor, ir.Const) and divisor.value > 0:
        never_negative = not is_signed(dtype) or (is_index(expr.a) and bounds(expr.a, writer.ranges)[0] >= 0)
        number = int(divisor.value)
        if never_negative:
            return narrowed(infix("/" if expr.op == "floordiv" else "%", PRODUCT, a, b), dtype)
        if number & (number - 1) == 0 and dtype == "int32":
            if expr.op == "mod":
                return infix("&", BIT_AND, a, SourceText(str(number - 1)))
            return infix(">>", SHIFT, a, SourceText(str(number.bit_length() - 1)))
    return _wrapped(writer, call(writer.helper(f"{expr.op}_{c_type(dtype)}"), a, b), dtype)


def _shift(writer: ValueWriter, expr: ir.Binary, dtype: str) -> SourceText:
    a, b, amount = writer.value(expr.a), writer.value(expr.b), expr.b
    if isinstance(amount, ir.Const) and 0 <= amount.value < bits(dtype):
        number = SourceText(str(int(amount.value)))
        if expr.op == "shr":
            return narrowed(infix(">>", SHIFT, a, number), dtype)
        wide = a if not is_signed(dtype) else converted(c_type(unsigned(dtype)), a)
        shifted = infix("<<", SHIFT, wide, number)
        return shifted if not is_signed(dtype) and bits(dtype) >= _PROMOTED else converted(c_type(dtype), shifted)
    return call(writer.helper(f"{expr.op}_{c_type(dtype)}"), a, b)
