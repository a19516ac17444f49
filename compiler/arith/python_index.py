"""Index expressions as Python functions, for the interpreter's inner loop.

A function takes the variables by name, each an int or an array of ints, and follows Python's operators. What means
something else in these is left to the interpreter: arithmetic that may wrap, other types than int32 and bool, division
by what is not a positive number, shifts by what is none or negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith.affine import ANY, Ranges, bounds

Evaluate = Callable[[Mapping[str, Any]], Any]
OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "shl": "<<", "shr": ">>",
    "and": "&", "or": "|", "xor": "^", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def exact_function(expr: ir.Expr, ranges: Ranges) -> Evaluate | None:
    """`expr` as a function of its variables; None if it is not index arithmetic, or may wrap."""
    return index_function(expr) if stays_int32(expr, ranges) else None


def index_function(expr: ir.Expr) -> Evaluate | None:
    """`expr` as a function of its variables, which does not wrap; None if it is not index arithmetic."""
    source = source_of(expr)
    if source is None:
        return None
    return eval(f"lambda v: {source}", {"minimum": np.minimum, "maximum": np.maximum})  # type: ignore[no-any-return]


def source_of(expr: ir.Expr) -> str | None:
    """`expr` in Python, over the mapping `v`."""
    match expr:
        case ir.Var(name=name):
            return f"v[{name!r}]"
        case ir.Const(value=value, dtype="int32" | "bool"):
            return repr(value)
        case ir.Binary(op="floordiv" | "mod", b=b) if not is_at_least(b, 1):
            return None
        case ir.Binary(op="shl" | "shr", b=b) if not is_at_least(b, 0):
            return None
        case ir.Binary(op=op, a=a, b=b):
            left, right = source_of(a), source_of(b)
            if left is None or right is None:
                return None
            return f"({left} {OPERATORS[op]} {right})" if op in OPERATORS else f"{op}imum({left}, {right})"
    return None


def stays_int32(expr: ir.Expr, ranges: Ranges) -> bool:
    """Whether no operation in `expr` wraps as long as its variables are in their ranges."""
    values = (bounds(inner, ranges) for inner in ir.walk_expr(expr))
    return all(ANY[0] <= low and high <= ANY[1] for low, high in values)


def is_at_least(operand: ir.Expr, least: int) -> bool:
    """Whether an operand is a number that is not below `least`."""
    return isinstance(operand, ir.Const) and operand.value >= least
