"""The value of an index expression at concrete loop values, numbers or numpy arrays of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir

Values = Mapping[str, int | npt.NDArray[np.int64]]

_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": np.minimum,
    "max": np.maximum,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def evaluate(expr: ir.Expr, values: Values, default: int | None = None) -> Any:  # noqa: ANN401  a number or an array
    """The value of an index expression or condition; a variable not in `values` is `default`.

    Raises:
        ValueError: the expression reads memory or calls a function, so that it is no index.
        KeyError: a variable has no value and there is no default.
    """
    match expr:
        case ir.Const(value=value):
            return value
        case ir.Var(name=name):
            return values[name] if default is None else values.get(name, default)
        case ir.Binary(op=op, a=a, b=b) if op in _OPS:
            return _OPS[op](evaluate(a, values, default), evaluate(b, values, default))
        case ir.Select(cond=cond, a=a, b=b):
            return np.where(
                evaluate(cond, values, default), evaluate(a, values, default), evaluate(b, values, default)
            )[()]
        case ir.Cast(value=value):
            return evaluate(value, values, default)
        case _:
            raise ValueError(f"index expression: must be arithmetic on loop variables, got {expr}")
