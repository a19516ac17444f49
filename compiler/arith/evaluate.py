"""The value of an index expression or condition at concrete variables, numbers or numpy arrays of them.

Exact integer arithmetic on the operators of `affine`; both sides of a select are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.arith.affine import FUNCTIONS, AffineError
from vdla.compiler.ir.printer import expr_text

Values = Mapping[str, int | npt.NDArray[np.int64]]


def quotient(a: Any, b: Any) -> Any:  # noqa: ANN401  numbers or arrays
    """`a // b`, 0 where `b` is."""
    if np.ndim(b) == 0:
        return a // b if b else a * 0
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def remainder(a: Any, b: Any) -> Any:  # noqa: ANN401  numbers or arrays
    """`a % b`, 0 where `b` is."""
    if np.ndim(b) == 0:
        return a % b if b else a * 0
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b))


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **FUNCTIONS, "min": np.minimum, "max": np.maximum, "floordiv": quotient, "mod": remainder,
}  # fmt: skip


def evaluate(expr: ir.Expr, values: Values, default: int | None = None) -> Any:  # noqa: ANN401  a number or an array
    """The value of an index expression or condition; a variable not in `values` is `default`, if there is one.

    Raises:
        AffineError: the expression reads memory, calls a function, narrows a value or names an unknown variable.
    """
    match expr:
        case ir.Const(value=value):
            return value
        case ir.Var(name=name) if name in values:
            return values[name]
        case ir.Var() if default is not None:
            return default
        case ir.Binary(op=op, a=a, b=b):
            return _FUNCTIONS[op](evaluate(a, values, default), evaluate(b, values, default))
        case ir.Select(cond=cond, a=a, b=b):
            return np.where(*(evaluate(part, values, default) for part in (cond, a, b)))[()]
        case ir.Cast(dtype="int32" | "int64", value=value):
            return evaluate(value, values, default)
    raise AffineError(f"evaluate: an index must be arithmetic on known variables, got {expr_text(expr)}")
