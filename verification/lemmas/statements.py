# SPDX-License-Identifier: Apache-2.0
"""What a lemma claims, in the operations of an algebra: for all values within bounds.

Both proofs, by exhaustion and by a solver, decide these claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from vdla.compiler.certificates.lemmas import Law, ResultBounds, Rewrite


@dataclass(frozen=True, slots=True)
class IntegerType:
    """A type of integers."""

    width: int
    signed: bool

    def __str__(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.width}"


@dataclass(frozen=True, slots=True)
class BoundedValue:
    """A value of a type and its bounds, which are exact integers."""

    value: Any
    low: Any
    high: Any


class Algebra(Protocol):
    """The operations that claims use, beside those of lemmas."""

    def both(self, conditions: Sequence[Any]) -> Any:  # noqa: ANN401  a term
        """All conditions."""

    def equal(self, a: Any, b: Any) -> Any:  # noqa: ANN401  a term
        """Whether two values, or two truths, are equal."""

    def within(self, low: Any, value: Any, high: Any) -> Any:  # noqa: ANN401  a term
        """Whether a value is within bounds."""

    def exact(self, op: str, x: BoundedValue, y: BoundedValue) -> Any:  # noqa: ANN401  a term
        """A ring operation that does not wrap."""


@dataclass(frozen=True, slots=True)
class Claim:
    """That a conclusion holds where the conditions of a lemma do."""

    needs: Any
    conclusion: Any


def operand_count(lemma: Rewrite | ResultBounds | Law) -> int:
    """How many operands the claim of a lemma is about."""
    return lemma.operands if isinstance(lemma, Rewrite) else 3 if isinstance(lemma, Law) else 2


def claims(lemma: Rewrite | ResultBounds | Law, k: Any, operands: Sequence[BoundedValue]) -> list[Claim]:  # noqa: ANN401  an algebra
    """The claims of a lemma about operands."""
    needs = k.both([need(k, *operands) for need in lemma.needs])
    match lemma:
        case Rewrite():
            return [Claim(needs, k.equal(lemma.left(k, *operands), lemma.right(k, *operands)))]
        case Law():
            sides = [(lemma.left(k, op, *operands), lemma.right(k, op, *operands)) for op in sorted(lemma.ops)]
            return [Claim(needs, k.equal(*pair)) for pair in sides]
    low, high = lemma.low(k, *operands), lemma.high(k, *operands)
    return [Claim(needs, k.within(low, result, high)) for result in _results(lemma, k, operands)]


def _results(lemma: ResultBounds, k: Any, operands: Sequence[BoundedValue]) -> list[Any]:  # noqa: ANN401  an algebra
    """What must be within bounds: a selection may be either operand."""
    x, y = operands
    if lemma.op == "select":
        return [x, y]
    return [k.exact(lemma.op, x, y) if lemma.exact else k.op(lemma.op, x, y)]
