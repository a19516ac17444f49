"""Where along a loop a comparison always holds, never holds, or depends on the inner loops.

A comparison is `step * i + rest >= 0`, or `== 0`, where `rest` is an affine form over the inner
loops with known bounds. A loop is split where the comparison becomes independent of the inner
loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.arith import Linear, Range, linear, linear_bounds, var_names
from vdla.compiler.ir import reads_memory


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
    form = linear(comparison.a) + linear(comparison.b).scaled(-1)
    return form.scaled(-1) if comparison.op in ("lt", "le") else form


def inequality_form(comparison: ir.Binary) -> Linear | None:
    """The form that is >= 0 exactly where an inequality holds; None for an equality."""
    if comparison.op in ("eq", "ne"):
        return None
    form = _difference(comparison)
    return form + Linear({}, -1) if comparison.op in ("lt", "gt") else form


def undecided_range(comparison: ir.Binary, var: str, inner: Mapping[str, Range]) -> UndecidedRange | None:
    """The undecided range of a comparison along the loop `var`.

    None if the comparison does not depend on `var`, or also depends on an outer loop.
    """
    form = inequality_form(comparison) or _difference(comparison)
    step = form.terms.get(ir.Var(var), 0)
    rest = Linear({t: f for t, f in form.terms.items() if t != ir.Var(var)}, form.const)
    if not step or not all(var_names(term) <= inner.keys() for term in rest.terms):
        return None
    low, high = linear_bounds(rest, inner)
    if comparison.op in ("eq", "ne"):
        low, high = (low, high) if step > 0 else (-high, -low)
        return UndecidedRange(-(high // abs(step)), -low // abs(step) + 1)
    if step > 0:  # holds from -low / step on, never before -high / step
        return UndecidedRange(-(high // step), -(low // step))
    return UndecidedRange(low // -step + 1, high // -step + 1)
