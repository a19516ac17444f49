# SPDX-License-Identifier: Apache-2.0
"""Canonical form of integer expressions, in which the matcher compares them.

    x - 5, -5 + x        ->  x + -5                x << 5, 32 * x       ->  x * 32
    x // 32              ->  x >> 5                x % 32               ->  x & 31
    (x + 1) + 2          ->  x + 3                 max(min(x, 9), 0)    ->  min(max(x, 0), 9)
    select(x > y, x, y)  ->  max(x, y)             int32(int16(x))      ->  int32(x)    (x: int8)

Integers wrap, so each rule holds for all values. Load indices and select conditions are left
unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler import ir

_ASSOCIATIVE = ("add", "mul", "min", "max", "and", "or", "xor")


class Canonical:
    """Rewrites expressions over `buffers`; `text` prints the source of a rewritten expression."""

    def __init__(self, buffers: Mapping[str, ir.Buffer]) -> None:
        self._buffers = buffers
        self._sources: dict[int, tuple[ir.Expr, ir.Expr]] = {}  # by id: the rewritten expression and its source

    def __call__(self, expr: ir.Expr) -> ir.Expr:
        """The canonical form."""
        match expr:
            case ir.Load() | ir.Var() | ir.Const():
                return expr
            case ir.Select(cond=cond, a=a, b=b):
                inner: ir.Expr = ir.Select(cond, self(a), self(b))
            case _:
                inner = ir.map_operands(expr, self)
        new = self._rewritten(inner)
        self._sources[id(new)] = new, expr
        return new

    def text(self, expr: ir.Expr) -> str:
        """The source of a canonical expression, or itself."""
        return ir.expr_text(self._sources.get(id(expr), (expr, expr))[1])

    def _rewritten(self, expr: ir.Expr) -> ir.Expr:
        """`expr`, whose operands are canonical, rewritten until no rule applies."""
        match expr:
            case ir.Cast():
                new = self._cast(expr)
            case ir.Select(cond=ir.Binary()):
                new = self._select(expr)
            case ir.Binary() if ir.is_integer(dtype := ir.dtype_of(expr.a, self._buffers)):
                new = _binary(expr, dtype)
            case _:
                return expr
        return expr if new is None else self._rewritten(new)

    def _cast(self, cast: ir.Cast) -> ir.Expr | None:
        dtype, value = cast.dtype, cast.value
        if ir.dtype_of(value, self._buffers) == dtype:
            return value
        if not ir.is_integer(dtype):
            return None
        match value:
            case ir.Const(value=number, dtype=old) if ir.is_integer(old):
                return constant(int(number), dtype)
            case ir.Cast(dtype=middle, value=inner) if _holds(middle, ir.dtype_of(inner, self._buffers)):
                return ir.Cast(dtype, inner)
            case ir.Binary("shr", ir.Cast(dtype=wide, value=x), ir.Const(value=amount)) if (
                ir.dtype_of(x, self._buffers) == dtype and _holds(wide, dtype) and 0 <= amount < ir.INTEGER_BITS[dtype]
            ):
                return ir.Binary("shr", x, constant(int(amount), dtype))
        return None

    def _select(self, select: ir.Select) -> ir.Expr | None:
        cond = select.cond
        assert isinstance(cond, ir.Binary)
        if not ir.is_integer(ir.dtype_of(select.a, self._buffers)) or not ir.reads_memory(cond):
            return None
        first_is_larger = {"gt": True, "ge": True, "lt": False, "le": False}.get(cond.op)
        sides = self(cond.a), self(cond.b)
        if first_is_larger is None or (select.a, select.b) not in (sides, sides[::-1]):
            return None
        return ir.Binary("max" if first_is_larger == (sides[0] == select.a) else "min", *sides)


def _binary(expr: ir.Binary, dtype: str) -> ir.Expr | None:
    """One rewrite of an operation on integers of `dtype`; None if no rule applies."""
    op, a, b = expr.op, expr.a, expr.b
    match a, b:
        case ir.Const(), ir.Const() if op not in ir.COMPARE_OPS:
            return _folded(op, a, b, dtype)
        case ir.Const(), _ if op in _ASSOCIATIVE:
            return ir.Binary(op, b, a)
        case ir.Binary(op=inner, a=x, b=ir.Const() as one), ir.Const() if inner == op and op in _ASSOCIATIVE:
            return ir.Binary(op, x, _folded(op, one, b, dtype))
        case ir.Binary("shr", x, ir.Const(value=first)), ir.Const(value=then) if op == "shr" and min(first, then) >= 0:
            return ir.Binary("shr", x, constant(min(int(first) + int(then), ir.INTEGER_BITS[dtype] - 1), dtype))
        case ir.Binary("min", x, ir.Const() as high), ir.Const() if op == "max" and b.value <= high.value:
            return ir.Binary("min", ir.Binary("max", x, b), high)
        case _, ir.Const(value=value):
            return _with_constant(op, a, int(value), dtype)
    return None


def _with_constant(op: str, a: ir.Expr, value: int, dtype: str) -> ir.Expr | None:
    """One rewrite of `a op value`; None if no rule applies."""
    if value == ir.RIGHT_IDENTITY.get(op):
        return a
    power = value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None
    match op:
        case "sub":
            return ir.Binary("add", a, constant(-value, dtype))
        case "shl" if 0 <= value < ir.INTEGER_BITS[dtype]:
            return ir.Binary("mul", a, constant(1 << value, dtype))
        case "floordiv" if power is not None:
            return ir.Binary("shr", a, constant(power, dtype))
        case "mod" if power is not None:
            return ir.Binary("and", a, constant(value - 1, dtype))
    return None


def _folded(op: str, a: ir.Const, b: ir.Const, dtype: str) -> ir.Const:
    """The constant `a op b`; shifts by a negative amount or by the width or more clear all bits."""
    if op in ("shl", "shr") and not 0 <= b.value < ir.INTEGER_BITS[dtype]:
        return constant(-1 if op == "shr" and a.value < 0 else 0, dtype)
    return constant(ir.OPERATORS[op].on_ints(int(a.value), int(b.value)), dtype)


def constant(value: int, dtype: str) -> ir.Const:
    """The constant `value` modulo the range of `dtype`."""
    bits = np.array(value & (2**64 - 1), np.uint64)
    return ir.Const(int(ir.wrap(bits, dtype)), dtype)


def _holds(wide: str, narrow: str) -> bool:
    """Whether integer type `wide` holds every value of `narrow`."""
    if not ir.is_integer(wide) or not ir.is_integer(narrow):
        return False
    (low, high), (least, most) = ir.limits(wide), ir.limits(narrow)
    return low <= least and most <= high
