# SPDX-License-Identifier: Apache-2.0
"""Planted faults: lemmas that claim something else, most of which is wrong.

Some are true all the same, such as a bound that is wider; exhaustion decides which, not the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vdla.compiler.certificates.lemmas import LEMMAS, Law, Lemma, ResultBounds, Rewrite, Term, TypeLaw
from vdla.verification.lemmas.statements import BoundedValue

_OPS = ("add", "sub", "mul", "min", "max", "and", "or", "xor", "shl", "shr", "floordiv", "mod")
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_RING = ("add", "sub", "mul")


@dataclass(frozen=True, slots=True)
class LemmaFault:
    """A lemma with a fault of a kind."""

    kind: str
    lemma: Lemma


def planted_lemma_faults(lemmas: Sequence[Lemma] = LEMMAS) -> Iterator[LemmaFault]:
    """All faults of all kinds."""
    for lemma in lemmas:
        for kind, changed in _faults(lemma):
            yield LemmaFault(kind, replace(changed, name=f"{lemma.name}: {kind}"))


def _faults(lemma: Lemma) -> Iterator[tuple[str, Lemma]]:
    match lemma:
        case TypeLaw():
            converted = (*_OPS, *_COMPARE) if lemma.widens else _OPS
            yield from (("another operation", replace(lemma, ops=frozenset({op}))) for op in converted)
            return
        case Law():
            combined = _RING if lemma.exact else (*_OPS, *_COMPARE[:4]) if "eq" in lemma.ops else _OPS
            yield from (("another operation", replace(lemma, ops=frozenset({op}))) for op in combined)
        case ResultBounds():
            yield from _bounds(lemma)
        case Rewrite():
            yield from _rewritings(lemma)
    for place in range(len(lemma.needs)):
        rest = (*lemma.needs[:place], *lemma.needs[place + 1 :])
        yield "a condition less", replace(lemma, needs=rest)
        yield "a range widened", replace(lemma, needs=(*rest, _narrower(lemma.needs[place])))


def _bounds(lemma: ResultBounds) -> Iterator[tuple[str, Lemma]]:
    for op in _RING if lemma.exact else () if lemma.op == "select" else _OPS:
        if op != lemma.op:
            yield "another operation", replace(lemma, op=op)
    yield "a lower bound off by one", replace(lemma, low=_more(lemma.low, 1))
    yield "an upper bound off by one", replace(lemma, high=_more(lemma.high, -1))
    yield "operands swapped", replace(lemma, low=_swapped(lemma.low), high=_swapped(lemma.high))
    yield "bounds swapped", replace(lemma, low=lemma.high, high=lemma.low)


def _rewritings(lemma: Rewrite) -> Iterator[tuple[str, Lemma]]:
    if lemma.operands == 2:
        for op in _COMPARE if lemma.op in _COMPARE else _OPS:
            if op != lemma.op:
                yield "another operation", replace(lemma, op=op, left=_operation(op))
    if lemma.op in _COMPARE:
        yield "the opposite", replace(lemma, right=_inverted(lemma.right))
    else:
        yield "a constant more by one", replace(lemma, right=_one_more(lemma.right, "add"))
        yield "a constant less by one", replace(lemma, right=_one_more(lemma.right, "sub"))
    yield "operands swapped", replace(lemma, right=_swapped(lemma.right))
    for other in ("min", "max"):
        if lemma.operands == 4:
            yield "another operation", replace(lemma, right=_extreme(other))


# --- changed terms --------------------------------------------------------------------------------


def _operation(op: str) -> Term:
    return lambda k, x, y: k.op(op, x, y)


def _extreme(op: str) -> Term:
    return lambda k, x, y, a, b: k.op(op, x, b)


def _swapped(term: Term) -> Term:
    return lambda k, x, y, *more: term(k, y, x, *more[::-1])


def _more(term: Term, by: int) -> Term:
    return lambda k, x, y: term(k, x, y) + by


def _one_more(term: Term, op: str) -> Term:
    return lambda k, *operands: k.op(op, term(k, *operands), k.number(1))


def _inverted(term: Term) -> Term:
    return lambda k, *operands: k.inverted(term(k, *operands))


def _narrower(need: Term) -> Term:
    """A condition on bounds that are nearer to each other by one than those of the operands."""

    def near(x: Any) -> BoundedValue:  # noqa: ANN401  an operand
        return BoundedValue(x.value, x.low + 1, x.high - 1)

    return lambda k, *operands: need(k, *(near(x) for x in operands))
