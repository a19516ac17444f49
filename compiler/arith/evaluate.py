# SPDX-License-Identifier: Apache-2.0
"""The value of an index expression or condition at given variables, ints or NumPy arrays of them.

Integer arithmetic, exact on ints; both sides of a select are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.arith.bounds import INT32, Ranges, bounds
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


def is_evaluable(expr: ir.Expr) -> bool:
    """Whether an expression is arithmetic on variables."""
    try:
        evaluate(expr, {}, default=1)
    except AffineError:
        return False
    return True


def open_grid(names: Sequence[str], sizes: Sequence[int]) -> dict[str, npt.NDArray[np.int64]]:
    """Variables from 0 to below their sizes, each along its own dimension."""
    axes = np.ix_(*(np.arange(size, dtype=np.int64) for size in sizes))
    return dict(zip(names, axes, strict=True))


def _apply(operator: ir.BinaryOperator, a: Any, b: Any) -> Any:  # noqa: ANN401  ints or arrays
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return operator.on_ints(a, b)
    if operator.kind is not ir.OperatorKind.INTEGER:
        return operator.on_arrays(a, b)
    with np.errstate(divide="ignore"):  # division by 0 gives 0
        return operator.on_arrays(a, b)


# --- index expressions as Python functions --------------------------------------------------------

# Index expressions compiled to Python functions, for the inner loops of the interpreter.
#
# A function maps variables by name, each an int or an array of ints, to a value by Python's own
# operators. Expressions on which Python differs from the IR are rejected: arithmetic that may wrap,
# dtypes other than int32 and bool, divisors that are not positive constants, shift amounts that are
# not constants from 0.

IndexFunction = Callable[[Mapping[str, Any]], Any]
_CALLS = {name: entry.on_arrays for name, entry in ir.OPERATORS.items() if entry.symbol is None}


def exact_function(expr: ir.Expr, ranges: Ranges) -> IndexFunction | None:
    """`expr` as a function of its variables; None if it is not index arithmetic, or may wrap."""
    return index_function(expr) if _stays_int32(expr, ranges) else None


def index_function(expr: ir.Expr) -> IndexFunction | None:
    """`expr` as a function that never wraps; None if it is not index arithmetic."""
    source = _source_of(expr)
    return None if source is None else _function_of(source)


@lru_cache(maxsize=4096)
def _function_of(source: str) -> IndexFunction:
    """The function of the variables `v`; most indices of a program are a few texts."""
    function: IndexFunction = eval(f"lambda v: {source}", dict(_CALLS))
    return function


def _source_of(expr: ir.Expr) -> str | None:
    """`expr` as Python source over the mapping `v`."""
    match expr:
        case ir.Var(name=name):
            return f"v[{name!r}]"
        case ir.Const(value=value, dtype="int32" | "bool"):
            return repr(value)
        case ir.Binary(op="floordiv" | "mod", b=b) if not _is_at_least(b, 1):
            return None
        case ir.Binary(op="shl" | "shr", b=b) if not _is_at_least(b, 0):
            return None
        case ir.Binary(op=op, a=a, b=b):
            left, right, symbol = _source_of(a), _source_of(b), ir.OPERATORS[op].symbol
            if left is None or right is None:
                return None
            return f"{op}({left}, {right})" if symbol is None else f"({left} {symbol} {right})"
    return None


def _stays_int32(expr: ir.Expr, ranges: Ranges) -> bool:
    """Whether no operation in `expr` wraps while its variables stay in their ranges."""
    values = (bounds(inner, ranges) for inner in ir.walk_expr(expr))
    return all(INT32[0] <= low and high <= INT32[1] for low, high in values)


def _is_at_least(operand: ir.Expr, least: int) -> bool:
    return isinstance(operand, ir.Const) and operand.value >= least
