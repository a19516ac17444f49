# SPDX-License-Identifier: Apache-2.0
"""Simplification of index expressions and conditions over variables of known bounds.

The result has the same value for every setting of the variables inside `ranges`.
"""

from __future__ import annotations

from collections.abc import Iterable

from vdla.compiler import ir
from vdla.compiler.arith.bounds import Ranges, compare_bounds, linear_bounds
from vdla.compiler.arith.linear import Linear, linear, recombine

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


def simplify(expr: ir.Expr, ranges: Ranges) -> ir.Expr:
    """An equal expression: like terms collected, divisions and comparisons resolved."""
    match expr:
        case ir.Binary(op="add" | "sub" | "mul", a=a, b=b):
            return recombine(linear(ir.Binary(expr.op, simplify(a, ranges), simplify(b, ranges)))).expr()
        case ir.Binary(op="floordiv" | "mod", a=a, b=ir.Const(value=divisor)) if int(divisor) > 0:
            return _divide(expr.op, recombine(linear(simplify(a, ranges))), int(divisor), ranges)
        case ir.Binary(op="and" | "or"):
            return _simplify_logic(expr, ranges)
        case ir.Binary(op=op, a=a, b=b) if op in ir.COMPARE_OPS and not (ir.is_condition(a) or ir.is_condition(b)):
            return _compare(op, simplify(a, ranges), simplify(b, ranges), ranges)
        case ir.Binary(op="min" | "max", a=a, b=b):
            return _extremum(expr.op, simplify(a, ranges), simplify(b, ranges), ranges)
    return ir.map_operands(expr, lambda operand: simplify(operand, ranges))


def _divide(op: str, form: Linear, divisor: int, ranges: Ranges) -> ir.Expr:
    """`form // divisor` or `form % divisor`, with multiples of the divisor split off.

    Exact where the quotient of the remaining terms is constant over `ranges`.
    """
    whole = Linear({t: f for t, f in form.terms.items() if f % divisor == 0}, form.const // divisor * divisor)
    rest = form - whole
    low, high = linear_bounds(rest, ranges)
    quotient = Linear({t: f // divisor for t, f in whole.terms.items()}, whole.const // divisor)
    if low // divisor == high // divisor:
        shift = low // divisor
        exact = quotient + shift if op == "floordiv" else rest + (-shift * divisor)
        return exact.expr()
    if op == "mod":
        return ir.binary("mod", rest.expr(), divisor)
    return (quotient + Linear({ir.binary("floordiv", rest.expr(), divisor): 1})).expr()


def _compare(op: str, a: ir.Expr, b: ir.Expr, ranges: Ranges) -> ir.Expr:
    """`a op b`, or the constant that it always equals."""
    difference = linear(a) - linear(b)
    low, high = compare_bounds(op, linear_bounds(difference, ranges), (0, 0))
    if low == high:
        return TRUE if low else FALSE
    return _split_equality(difference, ranges) if op == "eq" else ir.Binary(op, a, b)


def _split_equality(difference: Linear, ranges: Ranges) -> ir.Expr:
    """`difference == 0`, split where its terms are like digits of a number.

    With b in [0, 4), `a * 4 + b == 7` becomes `a == 1 and b == 3`.
    """
    if any(f < 0 for f in difference.terms.values()):
        if all(f < 0 for f in difference.terms.values()):
            return _split_equality(difference.scaled(-1), ranges)
        return ir.binary("eq", Linear(difference.terms).expr(), -difference.const)
    target = -difference.const
    if not difference.terms:
        return FALSE if target else TRUE
    for unit in sorted({f for f in difference.terms.values() if f > 1}, reverse=True):
        whole = {t: f // unit for t, f in difference.terms.items() if f % unit == 0}
        rest = Linear({t: f for t, f in difference.terms.items() if f % unit})
        low, high = linear_bounds(rest, ranges)
        if low >= 0 and high < unit:
            outer = _split_equality(Linear(whole, -(target // unit)), ranges)
            inner = _split_equality(rest + (-(target % unit)), ranges)
            return FALSE if FALSE in (outer, inner) else conjunction([outer, inner])
    return ir.binary("eq", Linear(difference.terms).expr(), target)


def _extremum(op: str, a: ir.Expr, b: ir.Expr, ranges: Ranges) -> ir.Expr:
    """The minimum or maximum of `a` and `b`, or the operand that it always equals."""
    low, high = linear_bounds(linear(a) - linear(b), ranges)
    if high <= 0:
        return a if op == "min" else b
    if low >= 0:
        return b if op == "min" else a
    return ir.Binary(op, a, b)


def _simplify_logic(expr: ir.Binary, ranges: Ranges) -> ir.Expr:
    """A conjunction or disjunction without constant operands."""
    a, b = simplify(expr.a, ranges), simplify(expr.b, ranges)
    identity, absorbing = (TRUE, FALSE) if expr.op == "and" else (FALSE, TRUE)
    if a == absorbing or b == absorbing:
        return absorbing
    if a in (identity, b):
        return b
    return a if b == identity else ir.Binary(expr.op, a, b)
