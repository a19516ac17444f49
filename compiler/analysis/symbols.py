# SPDX-License-Identifier: Apache-2.0
"""Symbolic bounds: where extents are symbols, a bound is a linear form over symbols.

A comparison holds only if it holds for all values of the symbols, each at least 1; callers treat an
undecided one as false. An undecided minimum or maximum stays an expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vdla.compiler import ir
from vdla.compiler.analysis.tree import tree_of
from vdla.compiler.arith import INT32, Linear, Range, Ranges, bounds, linear, linear_bounds, simplify, var_names

Bounds = tuple[Linear, Linear]


class Domains(dict[str, Range]):
    """The numeric bounds of loop variables and symbols.

    `lasts` are the last values of loop variables with symbolic extents.
    """

    def __init__(self, numbers: Ranges, lasts: Mapping[str, Linear], symbols: frozenset[str]) -> None:
        super().__init__(numbers)
        self.lasts = dict(lasts)
        self.symbols = symbols

    def only_symbols(self) -> Domains:
        """The domains of the symbols alone."""
        return Domains({name: self[name] for name in self.symbols}, {}, self.symbols)

    def with_extents(self, extents: Mapping[str, ir.Extent]) -> Domains:
        """These domains and those of variables with the given extents."""
        new = Domains(self, self.lasts, self.symbols)
        for name, extent in extents.items():
            if isinstance(extent, int):
                new[name] = (0, extent - 1)
                new.lasts.pop(name, None)
                continue
            last = extent_form(extent) - 1
            new[name] = (0, max(linear_bounds(last, self)[1], 0))
            new.lasts[name] = last
        return new


def domains_of(fn: ir.Function) -> Domains:
    """The domains of the loop variables and symbols of `fn`."""
    known = Domains({name: (1, INT32[1]) for name in fn.scalars}, {}, frozenset(fn.scalars))
    return known.with_extents({var: loop.extent for var, loop in tree_of(fn.body).loops.items()})


def extent_form(extent: ir.Extent) -> Linear:
    """An extent as a linear form."""
    return Linear({}, extent) if isinstance(extent, int) else linear(extent)


def extent_of(form: Linear) -> ir.Extent:
    """A linear form as an extent."""
    return form.expr() if form.terms else form.const


def ceil_div(extent: ir.Extent, factor: int, domains: Ranges) -> ir.Extent:
    """The extent divided by `factor`, rounded up."""
    if isinstance(extent, int):
        return -(-extent // factor)
    more = extent_form(extent) + (factor - 1)
    return extent_of(linear(simplify(ir.binary("floordiv", more.expr(), factor), domains)))


# --- bounds ---------------------------------------------------------------------------------------


def is_symbolic(term: ir.Expr, domains: Ranges) -> bool:
    """Whether a term depends on symbols only."""
    names = var_names(term)
    return isinstance(domains, Domains) and bool(names) and names <= domains.symbols


def form_bounds(form: Linear, domains: Ranges) -> Bounds:
    """The least and the greatest value of a form over the iterations of its loops."""
    if not isinstance(domains, Domains) or not domains.symbols:
        least_number, most_number = linear_bounds(form, domains)
        return Linear({}, least_number), Linear({}, most_number)
    low = high = Linear({}, form.const)
    for term, factor in form.terms.items():
        least, most = term_bounds(term, domains)
        first, last = (least, most) if factor > 0 else (most, least)
        low, high = low + first.scaled(factor), high + last.scaled(factor)
    return low, high


def term_bounds(term: ir.Expr, domains: Ranges) -> Bounds:
    """The least and the greatest value of a term; a symbolic term bounds itself."""
    if is_symbolic(term, domains):
        return Linear({term: 1}), Linear({term: 1})
    match term:
        case ir.Var(name=name) if isinstance(domains, Domains) and name in domains.lasts:
            return Linear({}), domains.lasts[name]
        case ir.Binary(op="floordiv", a=a, b=ir.Const(value=divisor)) if int(divisor) > 0:
            low, high = form_bounds(linear(a), domains)
            if low.terms or high.terms:
                return _quotient(low, int(divisor), domains), _quotient(high, int(divisor), domains)
    low_number, high_number = bounds(term, domains)
    return Linear({}, low_number), Linear({}, high_number)


def _quotient(form: Linear, divisor: int, domains: Ranges) -> Linear:
    """The floor quotient of a form over symbols."""
    return linear(simplify(ir.binary("floordiv", form.expr(), divisor), domains))


# --- comparisons ----------------------------------------------------------------------------------


class _Sides(NamedTuple):
    """A form with one minimum or maximum replaced by each of its operands; `every`: a bound must
    hold for both."""

    sides: list[Linear]
    every: bool


def at_least(a: Linear, b: Linear, domains: Ranges) -> bool:
    """Whether `a >= b` for all values of the symbols."""
    if not a.terms and not b.terms:
        return a.const >= b.const
    difference = a - b
    if not difference.terms:
        return difference.const >= 0
    case = _sides_of_min_max(difference)
    if case is not None:
        decided = (at_least(side, Linear({}), domains) for side in case.sides)
        return all(decided) if case.every else any(decided)
    return linear_bounds(_without_quotients(difference), domains)[0] >= 0


def _sides_of_min_max(form: Linear) -> _Sides | None:
    """The forms without the first minimum or maximum, or None."""
    for term, factor in form.terms.items():
        if isinstance(term, ir.Binary) and term.op in ("min", "max"):
            rest = form + Linear({term: -factor})
            every = (term.op == "min") == (factor > 0)
            return _Sides([rest + linear(side).scaled(factor) for side in (term.a, term.b)], every)
    return None


def _without_quotients(form: Linear) -> Linear:
    """A lower bound of a form without `x // c * c`, which lies in [x - (c - 1), x]."""
    for term, factor in form.terms.items():
        if isinstance(term, ir.Binary) and term.op == "floordiv" and isinstance(term.b, ir.Const):
            divisor = int(term.b.value)
            if divisor > 0 and factor % divisor == 0:
                least = linear(term.a) + (1 - divisor if factor > 0 else 0)
                return _without_quotients(form + Linear({term: -factor}) + least.scaled(factor // divisor))
    return form


def smaller(a: Linear, b: Linear, domains: Ranges) -> Linear:
    """The minimum."""
    if at_least(b, a, domains):
        return a
    return b if at_least(a, b, domains) else Linear({ir.Binary("min", a.expr(), b.expr()): 1})


def larger(a: Linear, b: Linear, domains: Ranges) -> Linear:
    """The maximum."""
    if at_least(a, b, domains):
        return a
    return b if at_least(b, a, domains) else Linear({ir.Binary("max", a.expr(), b.expr()): 1})
