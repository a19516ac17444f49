"""The values that an integer expression can have, whatever the data: intervals that hold.

An operation whose exact result may leave its type wraps, so its interval is then that of the type.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.ir.dtypes import limits

Interval = tuple[int, int]


def value_range(expr: ir.Expr, known: Mapping[str, Interval], buffers: Mapping[str, ir.Buffer]) -> Interval:
    """An interval with every value of `expr`; `known` has those of variables and of fields."""
    whole = _limits(ir.dtype_of(expr, buffers))
    match expr:
        case ir.Var(name=name):
            return known.get(name, whole)
        case ir.Load(buffer=buffer):
            return known.get(buffer, whole)
        case ir.Const(value=value):
            return int(value), int(value)
        case ir.Cast(value=value):
            return _within(value_range(value, known, buffers), whole)
        case ir.Select(a=a, b=b):
            one, other = value_range(a, known, buffers), value_range(b, known, buffers)
            return min(one[0], other[0]), max(one[1], other[1])
        case ir.Binary(op=op, a=a, b=b):
            operands = value_range(a, known, buffers), value_range(b, known, buffers)
            return _within(_operation(op, *operands, whole), whole)
    return whole


def _limits(dtype: str) -> Interval:
    if dtype == "bool":
        return 0, 1
    low, high = limits(dtype)
    return int(low), int(high)


def _within(found: Interval, whole: Interval) -> Interval:
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole


def _operation(op: str, a: Interval, b: Interval, whole: Interval) -> Interval:
    """The exact results of an operator; `whole` where they are not worth knowing."""
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "and" if a[0] >= 0 or b[0] >= 0:
            return 0, min(side[1] for side in (a, b) if side[0] >= 0)
        case "mod" if b[0] > 0:
            return 0, b[1] - 1
        case "floordiv" if b[0] == b[1] > 0:
            return a[0] // b[0], a[1] // b[0]
        case "shr":
            return min(a[0], -1) if a[0] < 0 else 0, max(a[1], 0)
    return whole
