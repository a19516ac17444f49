# SPDX-License-Identifier: Apache-2.0
"""The combiner of a reduction: its terms, and the same combiner applied to other terms.

A store of a reduction is `own = combine(own, term)`. The term is the only subexpression of the
value that reads no accumulator and that the value can equal, whichever way its selects go.
"""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.tree import ScheduleError
from vdla.compiler.ir import expr_text


def reduction_terms(stores: list[ir.Store], where: str) -> list[ir.Expr]:
    """The term that each store combines.

    Raises:
        ScheduleError: a store does not combine its accumulator with exactly one term.
    """
    accumulators = {store.buffer for store in stores}
    terms: list[ir.Expr] = []
    for store in stores:
        parts = list(
            dict.fromkeys(
                part for part in _value_parts(store.value, accumulators) if not _reads_any(part, accumulators)
            )
        )
        if len(parts) != 1:
            text = expr_text(store.value)
            raise ScheduleError(f"{where}: {store.buffer} must combine with one term, got {text}")
        terms += parts
    if len(set(terms)) != len(terms):
        raise ScheduleError(f"{where}: the accumulators must have different terms, got {expr_text(terms[0])} twice")
    for store in stores:
        _check_closed(store, replace_terms(store.value, dict.fromkeys(terms, ir.Const(0))), accumulators, where)
    return terms


def _value_parts(expr: ir.Expr, accumulators: set[str]) -> list[ir.Expr]:
    """The subexpressions that make up the value of `expr`, without the conditions of selects."""
    if not _reads_any(expr, accumulators):
        return [expr]
    match expr:
        case ir.Select(a=a, b=b):
            return [*_value_parts(a, accumulators), *_value_parts(b, accumulators)]
        case ir.Load():
            return []
    return [part for operand in ir.operands(expr) for part in _value_parts(operand, accumulators)]


def _reads_any(expr: ir.Expr, buffers: set[str]) -> bool:
    """Whether `expr` reads one of `buffers`."""
    return any(isinstance(e, ir.Load) and e.buffer in buffers for e in ir.walk_expr(expr))


def replace_terms(expr: ir.Expr, terms: dict[ir.Expr, ir.Expr]) -> ir.Expr:
    """`expr` with each term replaced, except in the indices of loads."""
    if expr in terms:
        return terms[expr]
    if isinstance(expr, ir.Load):
        return expr
    return ir.map_operands(expr, lambda operand: replace_terms(operand, terms))


def _check_closed(store: ir.Store, value: ir.Expr, accumulators: set[str], where: str) -> None:
    """Refuse a combiner of anything but accumulators, terms and constants."""
    inside = {v for e in ir.find(value, ir.Load) if e.buffer in accumulators for v in ir.walk_expr(e)}
    for expr in ir.walk_expr(value):
        foreign = isinstance(expr, ir.Load) and (expr.buffer not in accumulators or expr.indices != store.indices)
        if foreign or (isinstance(expr, ir.Var) and expr not in inside):
            text = expr_text(expr)
            raise ScheduleError(f"{where}: {store.buffer} must combine only its accumulators and terms, got {text} too")
