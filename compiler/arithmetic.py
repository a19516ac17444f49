"""Index expressions as Python functions, for the interpreter's inner loop.

A function takes the variables by name, each an int or an array of ints, and follows Python's operators; what it gives
is exact as long as indices stay far from the ends of int32. Division by what is not a positive number and shifts, whose
meaning at the limits is not Python's, are left to the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vdla.compiler import ir

Evaluate = Callable[[Mapping[str, Any]], Any]
OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def index_function(expr: ir.Expr) -> Evaluate | None:
    """`expr` as a function of its variables; None if it is not index arithmetic."""
    source = source_of(expr)
    if source is None:
        return None
    return eval(f"lambda v: {source}", {"minimum": np.minimum, "maximum": np.maximum})  # type: ignore[no-any-return]


def source_of(expr: ir.Expr) -> str | None:
    """`expr` in Python, over the mapping `v`."""
    match expr:
        case ir.Var(name=name):
            return f"v[{name!r}]"
        case ir.Const(value=value):
            return repr(value)
        case ir.Binary(op="floordiv" | "mod", b=b) if not is_positive(b):
            return None
        case ir.Binary(op=op, a=a, b=b):
            left, right = source_of(a), source_of(b)
            if left is None or right is None or op in ("shl", "shr"):
                return None
            return f"({left} {OPERATORS[op]} {right})" if op in OPERATORS else f"{op}imum({left}, {right})"
    return None


def is_positive(divisor: ir.Expr) -> bool:
    """Whether a divisor is a positive number."""
    return isinstance(divisor, ir.Const) and divisor.value > 0
