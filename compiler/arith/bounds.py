# SPDX-License-Identifier: Apache-2.0
"""Interval bounds of index expressions and conditions.

Bounds are inclusive. `ranges` maps a variable to its bounds; a variable without an entry, and any
element of a buffer, can be any int32.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.arith.linear import Linear, linear, var_names

Range = tuple[int, int]
Ranges = Mapping[str, Range]
INT32: Range = (-(1 << 31), (1 << 31) - 1)


def function_ranges(fn: ir.Function, *, axes: bool = False) -> dict[str, Range]:
    """The bounds of the symbols and loop variables of `fn`; with `axes`, of block axes too."""
    return loop_ranges(fn.body, scalar_ranges(fn), axes=axes)


def loop_ranges(stmt: ir.Stmt, known: Ranges | None = None, *, axes: bool = False) -> dict[str, Range]:
    """`known`, and the bounds of the loop variables in `stmt`; with `axes`, of block axes too.

    Loops of one name share an entry that holds the values of all; a loop whose extent depends on
    variables outside `known` has none.
    """
    scalars = known or {}
    result = dict(scalars)
    for inner in ir.walk(stmt):
        headers: tuple[ir.For | ir.Axis, ...] = (inner,) if isinstance(inner, ir.For) else ()
        if axes and isinstance(inner, ir.Block):
            headers = inner.axes
        for header in headers:
            if isinstance(header.extent, int) or var_names(header.extent) <= scalars.keys():
                low, high = result.get(header.var, (0, 0))
                result[header.var] = (low, max(high, last_value(header.extent, scalars)))
    return result


def last_value(extent: ir.Extent, ranges: Ranges) -> int:
    """The greatest value of a loop variable of the given extent; 0 if the loop never runs."""
    most = extent if isinstance(extent, int) else bounds(extent, ranges)[1]
    return max(most - 1, 0)


def scalar_ranges(fn: ir.Function) -> dict[str, Range]:
    """The bounds of the symbolic extents of `fn`."""
    return {name: (1, ir.MAX_EXTENT) for name in fn.scalars}


def bounds(expr: ir.Expr, ranges: Ranges) -> Range:
    """An interval that contains every value of `expr`, by interval arithmetic on linear forms."""
    match expr:
        case ir.Var(name=name):
            return ranges.get(name, INT32)
        case ir.Const(value=value, dtype=dtype) if not ir.is_float(dtype):
            return int(value), int(value)
        case ir.Binary(op="add" | "sub" | "mul"):
            return _sum_bounds(expr, ranges)
        case ir.Binary(op=op, a=a, b=b):
            return _operation_bounds(op, bounds(a, ranges), bounds(b, ranges))
        case ir.Select(cond=cond, a=a, b=b):
            return _select_bounds(bounds(cond, ranges), bounds(a, ranges), bounds(b, ranges))
        case ir.Cast(dtype="int32" | "int64", value=value):
            return bounds(value, ranges)
    return INT32


def _sum_bounds(expr: ir.Binary, ranges: Ranges) -> Range:
    """Bounds of a sum or product, term by term, so that terms that cancel do not widen them."""
    form = linear(expr)
    if form.terms == {expr: 1}:
        corners = [x * y for x in bounds(expr.a, ranges) for y in bounds(expr.b, ranges)]
        return min(corners), max(corners)
    return linear_bounds(form, ranges)


def linear_bounds(form: Linear, ranges: Ranges) -> Range:
    """Bounds of a linear form."""
    low = high = form.const
    for term, factor in form.terms.items():
        a, b = bounds(term, ranges)
        low += min(a * factor, b * factor)
        high += max(a * factor, b * factor)
    return low, high


def _operation_bounds(op: str, a: Range, b: Range) -> Range:
    """Bounds of an operation that is not a sum."""
    apply = ir.OPERATORS[op].on_ints
    if op in ir.COMPARE_OPS:
        return compare_bounds(op, a, b)
    if op == "mod" and b[0] == b[1] > 0:
        return a if a[0] >= 0 and a[1] < b[0] else (0, b[0] - 1)
    if op in ("min", "max"):
        return apply(a[0], b[0]), apply(a[1], b[1])
    if op == "and" and b[0] == b[1] > 1:
        return 0, b[0] if a[0] < 0 else min(a[1], b[0])
    if b[0] == b[1] and ((op == "floordiv" and b[0] > 0) or (op in ("shr", "shl") and 0 <= b[0] < 64)):
        return apply(a[0], b[0]), apply(a[1], b[0])
    if op in ir.LOGIC_OPS and min(a[0], b[0]) >= 0 and max(a[1], b[1]) <= 1:
        if op == "xor" and (a[0] < a[1] or b[0] < b[1]):
            return 0, 1
        return apply(a[0], b[0]), apply(a[1], b[1])
    return INT32


def compare_bounds(op: str, a: Range, b: Range) -> Range:
    """(1, 1) for a comparison that always holds, (0, 0) for one that never holds, else (0, 1)."""
    always = {"lt": a[1] < b[0], "le": a[1] <= b[0], "gt": a[0] > b[1], "ge": a[0] >= b[1],
              "eq": a[0] == a[1] == b[0] == b[1], "ne": a[1] < b[0] or b[1] < a[0]}  # fmt: skip
    return (1, 1) if always[op] else (0, 0) if always[ir.NEGATED[op]] else (0, 1)


def _select_bounds(cond: Range, a: Range, b: Range) -> Range:
    """Bounds of a select: of the side that is always taken, else of both."""
    if cond[0] == cond[1]:
        return a if cond[0] else b
    return min(a[0], b[0]), max(a[1], b[1])


def ambiguous_vars(form: Linear, ranges: Ranges) -> set[str]:
    """The variables of a sum that can take one value at several points.

    An example is `y * 2 + k` with k in [0, 3). The set is empty if each coefficient exceeds the
    span of all terms with smaller coefficients.
    """
    span, ambiguous = 0, False
    terms = [(abs(factor), bounds(term, ranges)) for term, factor in form.terms.items()]
    for factor, (low, high) in sorted(terms):
        ambiguous |= factor <= span and high > low
        span += factor * (high - low)
    return set().union(*(var_names(term) for term in form.terms)) if ambiguous else set()
