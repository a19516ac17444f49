# SPDX-License-Identifier: Apache-2.0
"""The region of a buffer that a block certainly computes in one iteration of the outer loops.

`read_region` over-approximates, which is safe for reads. A written region must be exact: one with
gaps, or cut by a condition in any other way than at the end of a dimension, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from vdla.compiler import ir
from vdla.compiler.analysis.access import LeafBlock, store_to
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
from vdla.compiler.analysis.tree import ScheduleError
from vdla.compiler.arith import AffineError, Linear, evaluate, linear, linear_bounds, open_grid, var_names
from vdla.compiler.ir import expr_text


def region_written(leaf: LeafBlock, buffer: ir.Buffer, outer: set[str], ranges: Domains, where: str) -> list[Span]:
    """The region of `buffer` that a leaf computes in one iteration of the loops `outer`.

    Raises:
        ScheduleError: the region has gaps; `where` begins the message and names the reader.
    """
    indices = store_to(leaf.block, buffer.name).indices
    forms = [_inner_form(index_form(leaf, index, ranges), outer, ranges) for index in indices]
    spans = access_region(leaf, indices, buffer, outer, ranges)
    conditions = _inner_conditions(leaf, forms, outer)
    result = _proven(forms, conditions, spans, outer, ranges)
    if not isinstance(result, str):
        return result
    listed = _listed(leaf, [index_form(leaf, index, ranges) for index in indices], conditions, spans, outer)
    if listed is None:
        rule = f"{where} must read a region of {buffer.name} that is computed without gaps"
        raise ScheduleError(f"{rule}, got {result}")
    return listed


def _proven(
    forms: list[Linear], conditions: list[ir.Expr], spans: list[Span], outer: set[str], ranges: Domains
) -> list[Span] | str:
    """The region by the terms of its indices, or what may leave gaps in it."""
    for form in forms:
        if not _is_dense(form, outer, ranges):
            return expr_text(form.expr())
    for condition in conditions:
        remainder = _narrowed(condition, forms, spans, ranges)
        if remainder is None:
            return f"where {expr_text(condition)}"
        spans = remainder
    return spans


def _listed(
    leaf: LeafBlock, indices: list[Linear], conditions: list[ir.Expr], spans: list[Span], outer: set[str]
) -> list[Span] | None:
    """The region by its elements; None if it has gaps, or its loops are not of a few iterations."""
    extents = {loop.var: loop.extent for loop in leaf.loops if loop.var not in outer}
    inner = [form.only(lambda term: not var_names(term) <= outer) for form in indices]
    box = listed_box(inner, conditions, extents)
    if box is None:
        return None
    return [
        replace(span, low=Linear({}, first + form.const), high=Linear({}, last + form.const))
        for span, form, (first, last) in zip(spans, indices, box, strict=True)
    ]


def _inner_form(form: Linear, outer: set[str], ranges: Domains) -> Linear:
    """The part of a form over the inner loops."""
    return form.only(lambda term: not var_names(term) <= outer and not is_symbolic(term, ranges))


# --- sums over loops ------------------------------------------------------------------------------


def _is_dense(form: Linear, outer: set[str], ranges: Domains) -> bool:
    """Whether a form takes all values between its bounds in one iteration of the loops `outer`."""
    reach = 0
    for term, step in sorted(form.terms.items(), key=lambda item: abs(item[1])):
        low, high = term_bounds(term, ranges)
        if high != low and (abs(step) > reach + 1 or not _takes_all_values(term, outer, ranges)):
            return False
        reach += abs(step) * max(linear_bounds(high - low, ranges)[0], 0)  # of the smallest extent
    return True


def _takes_all_values(term: ir.Expr, outer: set[str], ranges: Domains) -> bool:
    """Whether a term takes all values between its bounds."""
    match term:
        case ir.Var():
            return True
        case ir.Binary(op="floordiv" | "mod", a=a, b=ir.Const()):
            return not var_names(term) & outer and _is_dense(linear(a), outer, ranges)
    return False


# --- conditions -----------------------------------------------------------------------------------


def _inner_conditions(leaf: LeafBlock, forms: Iterable[Linear], outer: set[str]) -> list[ir.Expr]:
    """The conditions on inner loops that select elements."""
    chosen = {name for form in forms for term in form.terms for name in var_names(term)} - outer
    return [c for c in leaf.conditions if var_names(c) & chosen and not var_names(c) & outer]


def _narrowed(condition: ir.Expr, forms: list[Linear], spans: list[Span], ranges: Domains) -> list[Span] | None:
    """The region that a condition leaves, if it has no gaps."""
    limits = limits_of([condition], ranges)
    if not limits:
        return None
    limit = _relaxed(limits[0], forms, ranges)
    if _always_holds(limit, ranges) or any(multiple_of(form, limit[0]) for form in forms):
        return spans  # `access_region` has applied the latter
    for dimension, form in enumerate(forms):
        rows = _full_rows(form, limit, ranges)
        if rows is not None:
            span = spans[dimension]
            last = smaller(span.high, rows - ONE, ranges)
            return [*spans[:dimension], replace(span, high=last), *spans[dimension + 1 :]]
    return None


def _relaxed(limit: Limit, forms: Iterable[Linear], ranges: Domains) -> Limit:
    """A limit on the loops that select elements; the other loops where they leave most."""
    part, least, most = limit
    chosen = {name for form in forms for term in form.terms for name in var_names(term)}
    free = part.only(lambda term: not var_names(term) & chosen)
    low, high = form_bounds(free, ranges)
    return (
        part - free,
        None if least is None else least - high,
        None if most is None else most - low,
    )


def _always_holds(limit: Limit, ranges: Domains) -> bool:
    """Whether a limit excludes no iteration."""
    part, least, most = limit
    low, high = form_bounds(part, ranges)
    return (least is None or at_least(low, least, ranges)) and (most is None or at_least(most, high, ranges))


def _full_rows(form: Linear, limit: Limit, ranges: Domains) -> Linear | None:
    """The number of full rows, if a limit ends a loop that was fused from rows and columns."""
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
    full = not any(number % columns for number in (*count.terms.values(), count.const))
    if multiple_of(fused, limit[0]) <= 0 or low != Linear({}) or not full:
        return None
    return Linear({t: f // columns for t, f in count.terms.items()}, count.const // columns)


# --- regions by their elements --------------------------------------------------------------------

# Boxes of elements by listing them, where the terms of indices prove nothing.
#
# A tile that threads fetch in turns is such a case: its elements are numbered, and a condition ends
# the last turn in the middle of a row.

_MOST_ITERATIONS = 1 << 16


def listed_box(
    forms: Sequence[Linear], conditions: Sequence[ir.Expr], extents: Mapping[str, ir.Extent]
) -> list[tuple[int, int]] | None:
    """The first and the last value of each form over the loops of `extents`, where all conditions
    hold.

    None if some combination of values between them is not taken, if a form depends on other
    variables, or if there are too many iterations.
    """
    names = sorted(set().union(*(var_names(form.expr()) for form in forms), *map(var_names, conditions)))
    sizes = [extent for name in names if isinstance(extent := extents.get(name), int)]
    if len(sizes) < len(names) or prod(sizes) > _MOST_ITERATIONS:
        return None
    grid = open_grid(names, sizes)
    held = np.ones(sizes, np.bool_)
    try:
        for condition in conditions:
            held &= np.asarray(evaluate(condition, grid), np.bool_)
        values = [np.broadcast_to(evaluate(form.expr(), grid), held.shape)[held] for form in forms]
    except AffineError:
        return None
    if not held.any():
        return None
    box = [(int(value.min()), int(value.max())) for value in values]
    distinct = np.unique(np.stack(values), axis=1).shape[1]
    return box if distinct == prod(last - first + 1 for first, last in box) else None
