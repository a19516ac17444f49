"""Conjunctions: conditions taken apart and put together, with True for no condition."""

from __future__ import annotations

from collections.abc import Iterable

from vdla.compiler import ir

TRUE = ir.Const(True, "bool")
FALSE = ir.Const(False, "bool")


def conjuncts(condition: ir.Expr | None) -> list[ir.Expr]:
    """The conditions whose conjunction is `condition`; none for None or True."""
    match condition:
        case None:
            return []
        case ir.Binary(op="and", a=a, b=b):
            return conjuncts(a) + conjuncts(b)
        case ir.Const(value=value) if value:
            return []
    return [condition]


def conjunction(conditions: Iterable[ir.Expr]) -> ir.Expr:
    """The conjunction of `conditions`, without duplicates."""
    result: ir.Expr = TRUE
    for part in dict.fromkeys(part for condition in conditions for part in conjuncts(condition)):
        result = part if result == TRUE else ir.Binary("and", result, part)
    return result


def predicate_of(conditions: Iterable[ir.Expr]) -> ir.Expr | None:
    """The conjunction of `conditions` as the predicate of a block; None if it always holds."""
    result = conjunction(conditions)
    return None if result == TRUE else result
