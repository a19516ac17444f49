# SPDX-License-Identifier: Apache-2.0
"""Linear forms: index expressions as a constant plus coefficient * term for each term."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.support.errors import Error


class AffineError(Error, ValueError):
    """An index expression that cannot be evaluated: it reads memory or an unknown variable."""


def var_names(expr: ir.Expr) -> set[str]:
    """The variables in `expr`."""
    return {e.name for e in ir.walk_expr(expr) if isinstance(e, ir.Var)}


@dataclass(frozen=True, slots=True)
class Linear:
    """`const` + the sum of coefficient * term over `terms`; no term is itself a sum."""

    terms: Mapping[ir.Expr, int]
    const: int = 0

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.const + other) if other else self
        if not other.terms:
            return Linear(self.terms, self.const + other.const) if other.const else self
        if not self.terms:
            return Linear(other.terms, self.const + other.const) if self.const else other
        terms = dict(self.terms)
        for term, factor in other.terms.items():
            terms[term] = terms.get(term, 0) + factor
        return Linear({t: f for t, f in terms.items() if f}, self.const + other.const)

    def __sub__(self, other: Linear | int) -> Linear:
        return self + (-other if isinstance(other, int) else other.scaled(-1))

    def scaled(self, factor: int) -> Linear:
        """Every coefficient times `factor`."""
        if factor == 1:
            return self
        return Linear({t: f * factor for t, f in self.terms.items()} if factor else {}, self.const * factor)

    def only(self, keep: Callable[[ir.Expr], bool]) -> Linear:
        """The terms for which `keep` holds, without the constant."""
        return Linear({t: f for t, f in self.terms.items() if keep(t)})

    def expr(self) -> ir.Expr:
        """As an expression: the terms in order, then the constant."""
        parts = [_product(t, f) for t, f in self.terms.items()]
        if not parts:
            return ir.Const(self.const)
        total = parts[0]
        for part in parts[1:]:
            total = ir.Binary("add", total, part)
        if self.const:
            total = ir.Binary("add" if self.const > 0 else "sub", total, ir.Const(abs(self.const)))
        return total


def _product(term: ir.Expr, factor: int) -> ir.Expr:
    """`term * factor`."""
    return term if factor == 1 else ir.Binary("mul", term, ir.Const(factor))


def linear(expr: ir.Expr) -> Linear:
    """`expr` as a linear form; a float constant is a term."""
    terms: dict[ir.Expr, int] = {}
    const = _collect(expr, 1, terms)
    return Linear(terms if all(terms.values()) else {t: f for t, f in terms.items() if f}, const)


def _collect(expr: ir.Expr, factor: int, terms: dict[ir.Expr, int]) -> int:
    """Add the terms of `expr * factor` to `terms`, and return its constant."""
    match expr:
        case ir.Const(value=value, dtype=dtype) if ir.is_integer(dtype):
            return int(value) * factor
        case ir.Binary(op="add", a=a, b=b):
            return _collect(a, factor, terms) + _collect(b, factor, terms)
        case ir.Binary(op="sub", a=a, b=b):
            return _collect(a, factor, terms) + _collect(b, -factor, terms)
        case ir.Binary(op="mul", a=a, b=b):
            if not (right := linear(b)).terms:
                return _collect(a, factor * right.const, terms)
            if not (left := linear(a)).terms:
                return _collect(b, factor * left.const, terms)
    terms[expr] = terms.get(expr, 0) + factor
    return 0


def affine(expr: ir.Expr) -> tuple[dict[str, int], int] | None:
    """`expr` as (coefficient of each variable, constant); None if it is not affine."""
    form = linear(expr)
    if not all(isinstance(term, ir.Var) for term in form.terms):
        return None
    return {term.name: factor for term, factor in form.terms.items() if isinstance(term, ir.Var)}, form.const


def recombine(form: Linear) -> Linear:
    """The sum with each `x // c * c + x % c` replaced by `x`."""
    for term, factor in form.terms.items():
        if isinstance(term, ir.Binary) and term.op == "mod" and isinstance(term.b, ir.Const):
            quotient = ir.Binary("floordiv", term.a, term.b)
            if form.terms.get(quotient) == factor * int(term.b.value):
                rest = Linear({t: f for t, f in form.terms.items() if t not in (term, quotient)}, form.const)
                return recombine(rest + linear(term.a).scaled(factor))
    return form
