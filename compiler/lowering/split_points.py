"""Where along a loop a comparison always holds, never holds, or depends on the loops inside.

A comparison is an affine form over the loop, the loops inside of it and numbers: `step * i + [low, high] >= 0`, or
`== 0`. Zones are cut where that is decided for all iterations of the loops inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.arith import Linear, Range, linear, linear_bounds, var_names
from vdla.compiler.ir import reads_memory

_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True, slots=True)
class UndecidedRange:
    """The iterations [first, end) in which a comparison is not the same for all of the loops inside.

    On one side of them it always holds, on the other never (for an equality: never on both).
    """

    first: int
    end: int


def comparisons(stmt: ir.Stmt) -> Iterator[ir.Binary]:
    """The comparisons in the conditions of a statement: of If, and of Select in values and indices."""
    match stmt:
        case ir.If(cond=cond):
            yield from _parts(cond)
        case ir.Store(indices=indices, value=value):
            for expr in (*indices, value):
                yield from _in_selects(expr)
    for child in ir.children(stmt):
        yield from comparisons(child)


def _in_selects(expr: ir.Expr) -> Iterator[ir.Binary]:
    """The comparisons in the conditions of the selects of an expression."""
    for inner in ir.walk_expr(expr):
        if isinstance(inner, ir.Select):
            yield from _parts(inner.cond)


def _parts(cond: ir.Expr) -> Iterator[ir.Binary]:
    """The comparisons that a condition combines, but for those of what buffers hold, which may change in the loop."""
    if isinstance(cond, ir.Binary):
        if cond.op in _COMPARISONS and not reads_memory(cond):
            yield cond
        if cond.op in ("and", "or"):
            yield from _parts(cond.a)
            yield from _parts(cond.b)


def _difference(comparison: ir.Binary) -> Linear:
    """What a comparison compares with 0; that of `a < b` and `a <= b` is the one of `b > a` and `b >= a`."""
    form = linear(comparison.a) + linear(comparison.b).scaled(-1)
    return form.scaled(-1) if comparison.op in ("lt", "le") else form


def at_least(comparison: ir.Binary) -> Linear | None:
    """The form that is >= 0 where an inequality holds."""
    if comparison.op in ("eq", "ne"):
        return None
    form = _difference(comparison)
    return form + Linear({}, -1) if comparison.op in ("lt", "gt") else form


def undecided_range(comparison: ir.Binary, var: str, inner: Mapping[str, Range]) -> UndecidedRange | None:
    """The zone of a comparison along the loop `var`; None if it does not depend on it, or on a loop outside too."""
    form = at_least(comparison) or _difference(comparison)
    step = form.terms.get(ir.Var(var), 0)
    rest = Linear({t: f for t, f in form.terms.items() if t != ir.Var(var)}, form.const)
    if not step or not all(var_names(term) <= inner.keys() for term in rest.terms):
        return None
    low, high = linear_bounds(rest, inner)
    if comparison.op in ("eq", "ne"):
        low, high = (low, high) if step > 0 else (-high, -low)
        return UndecidedRange(-(high // abs(step)), -low // abs(step) + 1)
    if step > 0:  # holds from -low / step on, and not before -high / step
        return UndecidedRange(-(high // step), -(low // step))
    return UndecidedRange(low // -step + 1, high // -step + 1)
