# SPDX-License-Identifier: Apache-2.0
"""Splitting a loop whose conditions compare with symbolic extents into parts.

The bounds of the parts are expressions over the symbolic extents, ordered at run time by minimum
and maximum, so that a part can be empty. In the main part the conditions hold by construction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from vdla.compiler import ir
from vdla.compiler.arith import TRUE, Linear, Range, linear, linear_bounds, var_names
from vdla.compiler.ir import map_exprs, map_operands, reads_memory


@dataclass(frozen=True, slots=True)
class UndecidedRange:
    """The iterations [first, end) in which a comparison depends on the inner loops.

    On one side of the range it always holds, on the other never (an equality: never on both).
    """

    first: int
    end: int


def comparisons(stmt: ir.Stmt) -> Iterator[ir.Binary]:
    """The comparisons in the conditions of `stmt`: of If, and of Select in values and indices."""
    match stmt:
        case ir.If(cond=cond):
            yield from _parts(cond)
        case ir.Store(indices=indices, value=value):
            for expr in (*indices, value):
                yield from _in_selects(expr)
    for child in ir.children(stmt):
        yield from comparisons(child)


def _in_selects(expr: ir.Expr) -> Iterator[ir.Binary]:
    """The comparisons in the conditions of selects."""
    for inner in ir.walk_expr(expr):
        if isinstance(inner, ir.Select):
            yield from _parts(inner.cond)


def _parts(cond: ir.Expr) -> Iterator[ir.Binary]:
    """The comparisons in a condition, except those that load, which can change in the loop."""
    if isinstance(cond, ir.Binary):
        if cond.op in ir.COMPARE_OPS and not reads_memory(cond):
            yield cond
        if cond.op in ("and", "or"):
            yield from _parts(cond.a)
            yield from _parts(cond.b)


def _difference(comparison: ir.Binary) -> Linear:
    """The form that a comparison compares with 0: b - a for `<` and `<=`, else a - b."""
    form = linear(comparison.a) - linear(comparison.b)
    return form.scaled(-1) if comparison.op in ("lt", "le") else form


def inequality_form(comparison: ir.Binary) -> Linear | None:
    """The form that is >= 0 exactly where an inequality holds; None for an equality."""
    if comparison.op in ("eq", "ne"):
        return None
    form = _difference(comparison)
    return form - 1 if comparison.op in ("lt", "gt") else form


def undecided_range(comparison: ir.Binary, var: str, inner: Mapping[str, Range]) -> UndecidedRange | None:
    """The undecided range of a comparison along the loop `var`.

    None if the comparison does not depend on `var`, or also depends on an outer loop.
    """
    form = inequality_form(comparison) or _difference(comparison)
    step = form.terms.get(ir.Var(var), 0)
    rest = form - Linear({ir.Var(var): step})
    if not step or not all(var_names(term) <= inner.keys() for term in rest.terms):
        return None
    low, high = linear_bounds(rest, inner)
    if comparison.op in ("eq", "ne"):
        low, high = (low, high) if step > 0 else (-high, -low)
        return UndecidedRange(-(high // abs(step)), -low // abs(step) + 1)
    if step > 0:  # holds from -low / step on, never before -high / step
        return UndecidedRange(-(high // step), -(low // step))
    return UndecidedRange(low // -step + 1, high // -step + 1)


_ZERO: ir.Expr = ir.Const(0)


@dataclass(frozen=True, slots=True)
class LoopPart:
    """The iterations [first, end) of a loop, and comparisons that hold in all of them."""

    first: ir.Expr
    end: ir.Expr
    holding: frozenset[ir.Binary]


def symbolic_parts(
    stmt: ir.For, comparisons: Collection[ir.Binary], inner: Mapping[str, Range], scalars: Collection[str]
) -> list[LoopPart]:
    """The parts of a loop, at most three; none if no symbolic comparison splits it."""
    upper = {c: edge for c in comparisons if (edge := _end_holding(c, stmt.var, inner, scalars)) is not None}
    if not upper:
        return []
    lower = {c: start for c in comparisons if (start := _first_holding(c, stmt.var, inner)) is not None}
    extent = ir.Const(stmt.extent) if isinstance(stmt.extent, int) else stmt.extent
    first = _smaller(ir.Const(max(0, *lower.values())), extent) if lower else _ZERO
    end: ir.Expr = ir.Binary("max", reduce(_smaller, dict.fromkeys(upper.values()), extent), first)
    nothing: frozenset[ir.Binary] = frozenset()
    parts = [LoopPart(first, end, frozenset({*upper, *lower})), LoopPart(end, extent, nothing)]
    return [LoopPart(_ZERO, first, nothing), *parts] if lower else parts


def _smaller(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The minimum of two extents, resolved where they are quotients by one divisor."""
    match a, b:
        case (
            ir.Binary(op="floordiv", a=one, b=ir.Const(value=divisor)),
            ir.Binary(op="floordiv", a=two, b=ir.Const(value=other)),
        ) if divisor == other:
            difference = linear(one) - linear(two)
            if not difference.terms:
                return a if difference.const <= 0 else b
    return a if a == b else ir.Binary("min", a, b)


def _first_holding(comparison: ir.Binary, var: str, inner: Mapping[str, Range]) -> int | None:
    """The iteration from which a comparison with constants holds; None without one."""
    form = inequality_form(comparison)
    if form is None or form.terms.get(ir.Var(var), 0) <= 0:
        return None
    bounds = undecided_range(comparison, var, inner)
    return None if bounds is None else bounds.end


def _end_holding(
    comparison: ir.Binary, var: str, inner: Mapping[str, Range], scalars: Collection[str]
) -> ir.Expr | None:
    """The end of the iterations from 0 on in which a comparison with a symbolic extent holds."""
    form = inequality_form(comparison)
    step = 0 if form is None else form.terms.get(ir.Var(var), 0)
    if form is None or step >= 0:
        return None
    rest = form - Linear({ir.Var(var): step})
    outer = rest.only(lambda term: bool(var_names(term)) and var_names(term) <= set(scalars))
    moving = rest - outer
    if not outer.terms or not all(var_names(term) <= inner.keys() for term in moving.terms):
        return None
    low, _ = linear_bounds(moving, inner)  # holds while -step * i <= outer + low
    return _quotient((outer + (low - step)).expr(), -step)


def _quotient(a: ir.Expr, divisor: int) -> ir.Expr:
    """`a // divisor`."""
    return a if divisor == 1 else ir.binary("floordiv", a, divisor)


def assume(stmt: ir.Stmt, true: Collection[ir.Binary]) -> ir.Stmt:
    """`stmt` with the comparisons `true` replaced by True."""

    def change(expr: ir.Expr) -> ir.Expr:
        return TRUE if isinstance(expr, ir.Binary) and expr in true else map_operands(expr, change)

    return map_exprs(stmt, change) if true else stmt
