# SPDX-License-Identifier: Apache-2.0
"""The lemmas on rounding by which integer operators stand for operators of floats, by cvc5.

They are about all real numbers x and y and integers n; `round` is half to even. Each is a claim
that must hold; the wrong ones differ in a word and must not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import cvc5
from cvc5 import Kind

_MOST_MS = 20_000  # of one query
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class RoundingLemma:
    """A claim about x, y and n: a function of an algebra `k` and these."""

    name: str
    claim: Callable[..., Any]


def _same_order(k: Any, x: Any, y: Any, n: Any) -> Any:  # noqa: ANN401  of any algebra
    return k.implies(k.at_most(x, y), k.at_most(k.rounded(x), k.rounded(y)))


def _whole(k: Any, x: Any, y: Any, n: Any) -> Any:  # noqa: ANN401
    return k.same(k.rounded(n), n)


def _next(k: Any, x: Any, y: Any, n: Any) -> Any:  # noqa: ANN401
    """Numbers that are less than 1 apart are rounded to neighbours."""
    apart = k.less(k.minus(x, y), k.number(1))
    return k.implies(apart, k.at_most(k.minus(k.rounded(x), k.rounded(y)), k.number(1)))


def _threshold(k: Any, x: Any, y: Any, n: Any) -> Any:  # noqa: ANN401
    """From the half below n on, numbers are rounded to n or more; at the half, if n is even."""
    half = k.minus(n, k.number(_HALF))
    reaches = k.either(k.less(half, x), k.both(k.same(x, half), k.even(n)))
    return k.same_truth(k.at_most(n, k.rounded(x)), reaches)


ROUNDINGS = (
    RoundingLemma("a rounding keeps the order, so it commutes with maxima", _same_order),
    RoundingLemma("a step is rounded to itself", _whole),
    RoundingLemma("close numbers are rounded to neighbours", _next),
    RoundingLemma("a threshold of a rounding", _threshold),
)
WRONG_ROUNDINGS = (
    RoundingLemma("another order", lambda k, x, y, n: k.implies(k.at_most(x, y), k.less(k.rounded(x), k.rounded(y)))),
    RoundingLemma("every number", lambda k, x, y, n: k.same(k.rounded(x), x)),
    RoundingLemma(
        "no neighbours",
        lambda k, x, y, n: k.implies(k.less(k.minus(x, y), k.number(1)), k.at_most(k.rounded(x), k.rounded(y))),
    ),
    RoundingLemma(
        "farther apart",
        lambda k, x, y, n: k.implies(
            k.less(k.minus(x, y), k.number(2)), k.at_most(k.minus(k.rounded(x), k.rounded(y)), k.number(1))
        ),
    ),
    RoundingLemma(
        "a threshold at every half",
        lambda k, x, y, n: k.same_truth(k.at_most(n, k.rounded(x)), k.at_most(k.minus(n, k.number(_HALF)), x)),
    ),
    RoundingLemma(
        "a threshold at no half",
        lambda k, x, y, n: k.same_truth(k.at_most(n, k.rounded(x)), k.less(k.minus(n, k.number(_HALF)), x)),
    ),
)
"""Claims with a fault: each is refuted."""


class FractionAlgebra:
    """The operations of claims on exact numbers."""

    def rounded(self, x: Fraction) -> Fraction:
        """Rounded, half to even."""
        return Fraction(round(x))

    def number(self, value: Fraction | int) -> Fraction:
        """A number."""
        return Fraction(value)

    def minus(self, x: Fraction, y: Fraction) -> Fraction:
        """A difference."""
        return x - y

    def at_most(self, x: Fraction, y: Fraction) -> bool:
        """Whether x is at most y."""
        return x <= y

    def less(self, x: Fraction, y: Fraction) -> bool:
        """Whether x is less than y."""
        return x < y

    def same(self, x: Fraction, y: Fraction) -> bool:
        """Whether numbers are equal."""
        return x == y

    def even(self, n: Fraction) -> bool:
        """Whether an integer is even."""
        return n % 2 == 0

    def implies(self, a: bool, b: bool) -> bool:
        """Whether b holds where a does."""
        return not a or b

    def either(self, a: bool, b: bool) -> bool:
        """One of two truths."""
        return a or b

    def both(self, a: bool, b: bool) -> bool:
        """Two truths."""
        return a and b

    def same_truth(self, a: bool, b: bool) -> bool:
        """Whether truths are the same."""
        return a == b


class RealAlgebra:
    """The operations of claims on terms of cvc5."""

    def __init__(self) -> None:
        self.manager = cvc5.TermManager()
        self.facts: list[Any] = []

    def _term(self, kind: Kind, *parts: Any) -> Any:  # noqa: ANN401  terms
        return self.manager.mkTerm(kind, *parts)

    def rounded(self, x: Any) -> Any:  # noqa: ANN401
        """An integer of which it is known what a rounding is: at most a half away, even at one."""
        made = self.manager.mkConst(self.manager.getIntegerSort(), f"rounded{len(self.facts)}")
        value, half = self._term(Kind.TO_REAL, made), self.number(_HALF)
        distance = self.minus(x, value)
        inside = self.both(self.at_most(self.number(-_HALF), distance), self.at_most(distance, half))
        tie = self.either(self.same(distance, half), self.same(distance, self.number(-_HALF)))
        self.facts.append(self.both(inside, self.implies(tie, self._even(made))))
        return value

    def number(self, value: Fraction | int) -> Any:  # noqa: ANN401
        """A number."""
        exact = Fraction(value)
        return self.manager.mkReal(exact.numerator, exact.denominator)

    def minus(self, x: Any, y: Any) -> Any:  # noqa: ANN401
        """A difference."""
        return self._term(Kind.SUB, x, y)

    def at_most(self, x: Any, y: Any) -> Any:  # noqa: ANN401
        """Whether x is at most y."""
        return self._term(Kind.LEQ, x, y)

    def less(self, x: Any, y: Any) -> Any:  # noqa: ANN401
        """Whether x is less than y."""
        return self._term(Kind.LT, x, y)

    def same(self, x: Any, y: Any) -> Any:  # noqa: ANN401
        """Whether numbers are equal."""
        return self._term(Kind.EQUAL, x, y)

    def even(self, n: Any) -> Any:  # noqa: ANN401
        """Whether an integer is even."""
        return self._even(self._term(Kind.TO_INTEGER, n))

    def _even(self, n: Any) -> Any:  # noqa: ANN401
        """Whether an integer, which is twice another one plus 0 or 1, has no rest."""
        integer = self.manager.getIntegerSort()
        half, rest = (self.manager.mkConst(integer, f"{part}{len(self.facts)}") for part in ("half", "rest"))
        zero, one, two = (self.manager.mkInteger(number) for number in range(3))
        self.facts.append(self._term(Kind.EQUAL, n, self._term(Kind.ADD, self._term(Kind.MULT, two, half), rest)))
        self.facts.append(self.both(self.at_most(zero, rest), self.at_most(rest, one)))
        return self.same(rest, zero)

    def implies(self, a: Any, b: Any) -> Any:  # noqa: ANN401
        """Whether b holds where a does."""
        return self._term(Kind.IMPLIES, a, b)

    def either(self, a: Any, b: Any) -> Any:  # noqa: ANN401
        """One of two truths."""
        return self._term(Kind.OR, a, b)

    def both(self, a: Any, b: Any) -> Any:  # noqa: ANN401
        """Two truths."""
        return self._term(Kind.AND, a, b)

    def same_truth(self, a: Any, b: Any) -> Any:  # noqa: ANN401
        """Whether truths are the same."""
        return self._term(Kind.EQUAL, a, b)


def rounding_is_proven(lemma: RoundingLemma) -> bool:
    """Whether a claim holds for all numbers; False too if that is undecided."""
    k = RealAlgebra()
    real, integer = k.manager.getRealSort(), k.manager.getIntegerSort()
    x, y = (k.manager.mkConst(real, name) for name in "xy")
    n = k.manager.mkTerm(Kind.TO_REAL, k.manager.mkConst(integer, "n"))
    claim = lemma.claim(k, x, y, n)
    solver = cvc5.Solver(k.manager)
    solver.setOption("tlimit-per", str(_MOST_MS))
    solver.setLogic("QF_LIRA")
    for fact in k.facts:
        solver.assertFormula(fact)
    solver.assertFormula(k.manager.mkTerm(Kind.NOT, claim))
    return bool(solver.checkSat().isUnsat())


def rounding_holds_for_small(lemma: RoundingLemma) -> bool:
    """Whether a claim holds for quarters and integers from -3 to 3."""
    k, some = FractionAlgebra(), [Fraction(quarter, 4) for quarter in range(-12, 13)]
    integers = [Fraction(n) for n in range(-3, 4)]
    return all(lemma.claim(k, x, y, n) for x in some for y in some for n in integers)
