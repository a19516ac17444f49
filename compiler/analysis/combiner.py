"""What a reduction combines: the terms, and the same combination of other terms.

A reduction's stores are `own = combine(own, term)`. The term of a store is the part of its value that depends on no
sum: the one such part that the value can become, whatever the conditions on the way.
"""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.ir import expr_text


def reduction_terms(stores: list[ir.Store], where: str) -> list[ir.Expr]:
    """The term of each store.

    Raises:
        ScheduleError: the stores do not combine what they hold with one term each.
    """
    own = {store.buffer for store in stores}
    terms: list[ir.Expr] = []
    for store in stores:
        parts = list(dict.fromkeys(part for part in _value_parts(store.value, own) if not _reads_any(part, own)))
        if len(parts) != 1:
            found = expr_text(store.value)
            raise ScheduleError(f"{where}: {store.buffer} must combine with one term, got {found}")
        terms += parts
    if len(set(terms)) != len(terms):
        raise ScheduleError(f"{where}: the sums must have different terms, got {expr_text(terms[0])} twice")
    for store in stores:
        _check_closed(store, replace_terms(store.value, dict.fromkeys(terms, ir.Const(0))), own, where)
    return terms


def _value_parts(expr: ir.Expr, own: set[str]) -> list[ir.Expr]:
    """The parts that the value of `expr` is made of, conditions left out."""
    if not _reads_any(expr, own):
        return [expr]
    match expr:
        case ir.Select(a=a, b=b):
            return [*_value_parts(a, own), *_value_parts(b, own)]
        case ir.Load():
            return []
    return [part for operand in ir.operands(expr) for part in _value_parts(operand, own)]


def _reads_any(expr: ir.Expr, buffers: set[str]) -> bool:
    """Whether `expr` reads one of `buffers`."""
    return any(isinstance(e, ir.Load) and e.buffer in buffers for e in ir.walk_expr(expr))


def replace_terms(expr: ir.Expr, terms: dict[ir.Expr, ir.Expr]) -> ir.Expr:
    """`expr` with each term replaced, but not in the places of elements."""
    if expr in terms:
        return terms[expr]
    if isinstance(expr, ir.Load):
        return expr
    old = ir.operands(expr)
    new = tuple(replace_terms(operand, terms) for operand in old)
    return expr if new == old else ir.with_operands(expr, new)


def _check_closed(store: ir.Store, value: ir.Expr, own: set[str], where: str) -> None:
    """Refuse a combination of more than the sums, the terms and constants."""
    inside = {v for e in ir.walk_expr(value) if isinstance(e, ir.Load) and e.buffer in own for v in ir.walk_expr(e)}
    for expr in ir.walk_expr(value):
        foreign = isinstance(expr, ir.Load) and (expr.buffer not in own or expr.indices != store.indices)
        if foreign or (isinstance(expr, ir.Var) and expr not in inside):
            found = expr_text(expr)
            raise ScheduleError(f"{where}: {store.buffer} must combine its sums and terms alone, got {found} too")
