"""Solving for the immediates of an intrinsic, given the constants of a block."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.tensorize.canonical import Canonical, constant

_Buffers = Mapping[str, ir.Buffer]


def solve(pattern: ir.Expr, value: ir.Const, buffers: _Buffers) -> tuple[str, ir.Const] | None:
    """The immediate in `pattern` and a candidate value that makes `pattern` equal `value`; None if
    not solvable.

    The candidate must be checked with `evaluate`.
    """
    number = int(value.value)
    match pattern:
        case ir.Load(buffer=name):
            return name, constant(number, buffers[name].dtype)
        case ir.Cast(value=inner) | ir.Binary("and", inner, ir.Const()):
            return solve(inner, value, buffers)
        case ir.Binary("sub", ir.Const(value=start), inner):
            return solve(inner, ir.Const(int(start) - number, value.dtype), buffers)
        case ir.Binary("add", inner, ir.Const(value=added)):
            return solve(inner, ir.Const(number - int(added), value.dtype), buffers)
    return None


def evaluate(expr: ir.Expr, immediates: Mapping[str, ir.Scalar], buffers: _Buffers) -> ir.Const | None:
    """The value of an expression of immediates; None if one of them is unknown."""

    def known(part: ir.Expr) -> ir.Expr:
        if isinstance(part, ir.Load) and part.buffer in immediates:
            return ir.Const(immediates[part.buffer], buffers[part.buffer].dtype)
        return ir.with_operands(part, tuple(known(operand) for operand in ir.operands(part)))

    result = Canonical(buffers)(known(expr))
    return result if isinstance(result, ir.Const) else None


def power_of_two(factor: ir.Const) -> ir.Const | None:
    """The left shift equivalent to multiplying by `factor`, modulo its dtype; None if `factor` is
    no power of two."""
    bits = ir.INTEGER_BITS.get(factor.dtype, 0)
    number = int(factor.value) % (1 << bits)
    return ir.Const(number.bit_length() - 1, factor.dtype) if number and number & (number - 1) == 0 else None
