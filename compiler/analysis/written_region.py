"""Which part of a buffer a block computes while the loops outside of some place stand still: all of it, without gaps.

What `region` says of an access holds at least what is touched, which is right for what is read. Of what is written only
that counts which is there for certain, so that a condition must either leave a whole part or be refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import LeafBlock, store_to
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.read_region import (
    ONE,
    Limit,
    Span,
    access_region,
    index_form,
    limited_bounds,
    limits_of,
    multiple_of,
)
from vdla.compiler.analysis.symbols import Domains, at_least, form_bounds, is_symbolic, smaller, term_bounds
from vdla.compiler.arith import Linear, linear, linear_bounds, var_names
from vdla.compiler.ir import expr_text


def region_written(leaf: LeafBlock, buffer: ir.Buffer, outer: set[str], ranges: Domains, where: str) -> list[Span]:
    """The part of `buffer` that a leaf computes while the loops `outer` stand still.

    Raises:
        ScheduleError: what is computed there has gaps; `where` begins the message and names who reads it.
    """
    indices = store_to(leaf.block, buffer.name).indices
    forms = [_inner_form(index_form(leaf, index, ranges), outer, ranges) for index in indices]
    rule = f"{where} must read a part of {buffer.name} computed without gaps"
    for form in forms:
        if not _is_dense(form, outer, ranges):
            raise ScheduleError(f"{rule}, got {expr_text(form.expr())}")
    spans = access_region(leaf, indices, buffer, outer, ranges)
    for condition in _inner_conditions(leaf, forms, outer):
        kept = _narrowed(condition, forms, spans, ranges)
        if kept is None:
            raise ScheduleError(f"{rule}, got where {expr_text(condition)}")
        spans = kept
    return spans


def _inner_form(form: Linear, outer: set[str], ranges: Domains) -> Linear:
    """The part of a sum that the loops inside change."""
    return form.only(lambda term: not var_names(term) <= outer and not is_symbolic(term, ranges))


# --- sums over loops -------------------------------------------------------------------------------------------------


def _is_dense(form: Linear, outer: set[str], ranges: Domains) -> bool:
    """Whether a sum over loops takes all values between its bounds while the loops `outer` stand still."""
    reach = 0
    for term, step in sorted(form.terms.items(), key=lambda item: abs(item[1])):
        low, high = term_bounds(term, ranges)
        if high != low and (abs(step) > reach + 1 or not _takes_all_values(term, outer, ranges)):
            return False
        reach += abs(step) * max(linear_bounds(high + low.scaled(-1), ranges)[0], 0)  # of the smallest extent
    return True


def _takes_all_values(term: ir.Expr, outer: set[str], ranges: Domains) -> bool:
    """Whether a term takes all values between its bounds: a variable, or one part of loops that were fused, all of
    them inside."""
    match term:
        case ir.Var():
            return True
        case ir.Binary(op="floordiv" | "mod", a=a, b=ir.Const()):
            return not var_names(term) & outer and _is_dense(linear(a), outer, ranges)
    return False


# --- conditions ------------------------------------------------------------------------------------------------------


def _inner_conditions(leaf: LeafBlock, forms: Iterable[Linear], outer: set[str]) -> list[ir.Expr]:
    """The conditions of loops inside that choose elements; those of outer loops are a matter of when the leaf runs."""
    chosen = {name for form in forms for term in form.terms for name in var_names(term)} - outer
    return [c for c in leaf.conditions if var_names(c) & chosen and not var_names(c) & outer]


def _narrowed(condition: ir.Expr, forms: list[Linear], spans: list[Span], ranges: Domains) -> list[Span] | None:
    """What a condition leaves of a part, if that is a part without gaps."""
    limits = limits_of([condition], ranges)
    if not limits:
        return None
    limit = _relaxed(limits[0], forms, ranges)
    if _always_holds(limit, ranges) or any(multiple_of(form, limit[0]) for form in forms):
        return spans  # `touched` has seen the latter
    for dimension, form in enumerate(forms):
        rows = _full_rows(form, limit, ranges)
        if rows is not None:
            span = spans[dimension]
            last = smaller(span.high, rows + ONE.scaled(-1), ranges)
            return [*spans[:dimension], replace(span, high=last), *spans[dimension + 1 :]]
    return None


def _relaxed(limit: Limit, forms: Iterable[Linear], ranges: Domains) -> Limit:
    """A limit of the loops that choose elements, with the others where they leave most: one iteration is enough."""
    part, least, most = limit
    chosen = {name for form in forms for term in form.terms for name in var_names(term)}
    free = part.only(lambda term: not var_names(term) & chosen)
    low, high = form_bounds(free, ranges)
    return (
        part + free.scaled(-1),
        None if least is None else least + high.scaled(-1),
        None if most is None else most + low.scaled(-1),
    )


def _always_holds(limit: Limit, ranges: Domains) -> bool:
    """Whether a limit leaves out nothing."""
    part, least, most = limit
    low, high = form_bounds(part, ranges)
    return (least is None or at_least(low, least, ranges)) and (most is None or at_least(most, high, ranges))


def _full_rows(form: Linear, limit: Limit, ranges: Domains) -> Linear | None:
    """How many rows are whole, if a limit ends the loops that rows and columns were fused to at the end of a row."""
    if len(form.terms) != 1 or form.const or limit[1] is not None:
        return None
    ((term, factor),) = form.terms.items()
    match term:
        case ir.Binary(op="floordiv", a=a, b=ir.Const(value=value)) if factor == 1:
            columns, fused = int(value), linear(a)
        case _:
            return None
    low, high = limited_bounds(fused, ranges, [limit])
    count = high + ONE
    whole = not any(number % columns for number in (*count.terms.values(), count.const))
    if multiple_of(fused, limit[0]) <= 0 or low != Linear({}) or not whole:
        return None
    return Linear({t: f // columns for t, f in count.terms.items()}, count.const // columns)
