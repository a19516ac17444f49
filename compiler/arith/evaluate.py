"""The value of an index expression or condition at given variables, ints or NumPy arrays of them.

Integer arithmetic, exact on ints; both sides of a select are evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.arith.linear import AffineError

Values = Mapping[str, int | npt.NDArray[np.int64]]


def evaluate(expr: ir.Expr, values: Values, default: int | None = None) -> Any:  # noqa: ANN401  an int or an array
    """The value of an index expression or condition; unknown variables have the value `default`.

    Raises:
        AffineError: the expression reads memory, calls a function, narrows a value or uses an
            unknown variable.
    """
    match expr:
        case ir.Const(value=value):
            return value
        case ir.Var(name=name) if name in values:
            return values[name]
        case ir.Var() if default is not None:
            return default
        case ir.Binary(op=op, a=a, b=b):
            return _apply(ir.OPERATORS[op], evaluate(a, values, default), evaluate(b, values, default))
        case ir.Select(cond=cond, a=a, b=b):
            return np.where(*(evaluate(part, values, default) for part in (cond, a, b)))[()]
        case ir.Cast(dtype="int32" | "int64", value=value):
            return evaluate(value, values, default)
    raise AffineError(f"evaluate: an index must be arithmetic on known variables, got {ir.expr_text(expr)}")


def _apply(operator: ir.BinaryOperator, a: Any, b: Any) -> Any:  # noqa: ANN401  ints or arrays
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return operator.on_ints(a, b)
    if operator.kind is not ir.OperatorKind.INTEGER:
        return operator.on_arrays(a, b)
    with np.errstate(divide="ignore"):  # division by 0 gives 0
        return operator.on_arrays(a, b)
