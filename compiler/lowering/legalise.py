# SPDX-License-Identifier: Apache-2.0
"""Small floats and integers of less than a byte in terms of the types that processors compute with.

    c[i] = a[i] * b[i]    ->    c[i] = float16(float32(a[i]) * float32(b[i]))

The last pass in front of each code generator, which then knows these types in memory and in casts
alone. Casts round to small floats from float32 only, and wrap to int2 and int4. What target
processors have of their own stays: integers of whole bytes wrap, division is total, casts from
floats saturate.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.ir import COMPARE_OPS, SMALL_FLOATS, map_exprs, map_operands

_WIDE = {**dict.fromkeys(SMALL_FLOATS, "float32"), "int2": "int8", "int4": "int8"}
_CLOSED = ("and", "or", "xor", "min", "max", *COMPARE_OPS)  # on integers of any width alike


def legalise(stmt: ir.Stmt, buffers: Mapping[str, ir.Buffer]) -> ir.Stmt:
    """The statement without arithmetic on such types; shared expressions stay shared."""
    known: dict[int, tuple[ir.Expr, ir.Expr]] = {}  # with the expression, which keeps its id valid

    def visit(expr: ir.Expr) -> ir.Expr:
        if id(expr) not in known:
            known[id(expr)] = expr, _legal(map_operands(expr, visit), buffers)
        return known[id(expr)][1]

    return map_exprs(stmt, visit)


def _legal(expr: ir.Expr, buffers: Mapping[str, ir.Buffer]) -> ir.Expr:
    """An expression, whose operands are legal."""
    result: ir.Expr
    match expr:
        case ir.Binary(op=op, a=a, b=b):
            dtype = ir.dtype_of(a, buffers)
            wide = _WIDE.get(dtype)
            if wide is None or (dtype not in SMALL_FLOATS and (op in _CLOSED or _divides_by_constant(expr))):
                return expr
            result = ir.Binary(op, ir.Cast(wide, a), ir.Cast(wide, b))
            return result if op in COMPARE_OPS else ir.Cast(dtype, result)
        case ir.Call(name=name, args=args, dtype=dtype):
            wide = _WIDE.get(ir.dtype_of(args[0], buffers))
            if wide is None:
                return expr
            result_type = "bool" if dtype == "bool" else wide
            result = ir.Call(name, tuple(ir.Cast(wide, arg) for arg in args), result_type)
            return result if dtype == "bool" else ir.Cast(dtype, result)
        case ir.Cast(dtype=dtype, value=value):
            source = ir.dtype_of(value, buffers)
            if dtype != source and {dtype, source} & {*SMALL_FLOATS} and "float32" not in (dtype, source):
                return ir.Cast(dtype, ir.Cast("float32", value))
    return expr


def _divides_by_constant(expr: ir.Binary) -> bool:
    """Whether a quotient or a rest cannot overflow."""
    return expr.op in ("floordiv", "mod") and isinstance(expr.b, ir.Const) and expr.b.value > 0
