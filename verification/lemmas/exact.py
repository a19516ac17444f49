# SPDX-License-Identifier: Apache-2.0
"""Lemmas of exact integers, decided by the solver cvc5: for integers of every size.

They are decided for all real numbers, which include the integers. Integers that wrap are integers
modulo a power of two, with the same sums and products.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import cvc5
from cvc5 import Kind

from vdla.compiler.certificates.lemmas import Law, ResultBounds
from vdla.verification.lemmas.statements import BoundedValue, claims, operand_count

_MOST_MS = 20_000  # of one query
_KINDS = {"add": Kind.ADD, "sub": Kind.SUB, "mul": Kind.MULT}


class ExactTerm:
    """A term with the operators of Python."""

    __slots__ = ("k", "term")

    def __init__(self, k: ExactAlgebra, term: Any) -> None:  # noqa: ANN401  a term
        self.k, self.term = k, term

    def made(self, kind: Kind, other: ExactTerm | int) -> ExactTerm:
        """A term of a kind, of this one and another one."""
        term = other.term if isinstance(other, ExactTerm) else self.k.manager.mkReal(other)
        return ExactTerm(self.k, self.k.manager.mkTerm(kind, self.term, term))

    def __add__(self, other: ExactTerm | int) -> ExactTerm:
        return self.made(Kind.ADD, other)

    def __sub__(self, other: ExactTerm | int) -> ExactTerm:
        return self.made(Kind.SUB, other)

    def __le__(self, other: ExactTerm | int) -> ExactTerm:
        return self.made(Kind.LEQ, other)

    def __and__(self, other: ExactTerm) -> ExactTerm:
        return self.made(Kind.AND, other)


class ExactAlgebra:
    """Sums, products and bounds of real numbers."""

    def __init__(self) -> None:
        self.manager = cvc5.TermManager()

    def operand(self, name: str) -> tuple[BoundedValue, list[ExactTerm]]:
        """A number with bounds, and the conditions that it is within them."""
        sort = self.manager.getRealSort()
        value, low, high = (ExactTerm(self, self.manager.mkConst(sort, name + end)) for end in ("", ".low", ".high"))
        return BoundedValue(value, low, high), [low <= value, value <= high]

    def op(self, op: str, x: Any, y: Any) -> ExactTerm:  # noqa: ANN401  terms
        """A ring operation."""
        made: ExactTerm = _value(x).made(_KINDS[op], _value(y))
        return made

    def exact(self, op: str, x: BoundedValue, y: BoundedValue) -> ExactTerm:
        """A ring operation."""
        return self.op(op, x, y)

    def times(self, x: ExactTerm, y: ExactTerm) -> ExactTerm:
        """A product of bounds."""
        return x.made(Kind.MULT, y)

    def most(self, which: str, values: list[ExactTerm]) -> ExactTerm:
        """The least or the greatest of bounds."""
        return reduce(lambda a, b: self._nearer(a <= b if which == "min" else b <= a, a, b), values)

    def _nearer(self, condition: ExactTerm, a: ExactTerm, b: ExactTerm) -> ExactTerm:
        return ExactTerm(self, self.manager.mkTerm(Kind.ITE, condition.term, a.term, b.term))

    def both(self, conditions: Sequence[ExactTerm]) -> ExactTerm:
        """All conditions."""
        return reduce(lambda a, b: a & b, conditions, ExactTerm(self, self.manager.mkTrue()))

    def equal(self, a: ExactTerm, b: ExactTerm) -> ExactTerm:
        """Whether results are equal."""
        return a.made(Kind.EQUAL, b)

    def within(self, low: ExactTerm, value: Any, high: ExactTerm) -> ExactTerm:  # noqa: ANN401  a term
        """Whether a value is within bounds."""
        number: ExactTerm = _value(value)
        return (low <= number) & (number <= high)


def _value(x: Any) -> Any:  # noqa: ANN401  a term
    return x.value if isinstance(x, BoundedValue) else x


def proven_exactly(lemma: ResultBounds | Law) -> bool:
    """Whether an exact lemma holds for all numbers; False too if that is undecided."""
    k = ExactAlgebra()
    given = [k.operand(name) for name in "xyz"[: operand_count(lemma)]]
    inside = k.both([part for _, parts in given for part in parts])
    return all(
        _unsatisfiable(k, [inside, claim.needs, k.both([claim.conclusion]).made(Kind.EQUAL, _false(k))])
        for claim in claims(lemma, k, [one for one, _ in given])
    )


def _false(k: ExactAlgebra) -> ExactTerm:
    return ExactTerm(k, k.manager.mkFalse())


def _unsatisfiable(k: ExactAlgebra, conditions: Sequence[ExactTerm]) -> bool:
    solver = cvc5.Solver(k.manager)
    solver.setOption("tlimit-per", str(_MOST_MS))
    solver.setLogic("QF_NRA")
    for condition in conditions:
        solver.assertFormula(condition.term)
    return bool(solver.checkSat().isUnsat())
