# SPDX-License-Identifier: Apache-2.0
"""Lemmas decided by the solver Bitwuzla, on bit vectors: for all values and bounds of a type.

A shift, a quotient and a remainder are decided for each power of two and each number of bits on the
right, and once for all others, since solvers are slow at dividing by an unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import bitwuzla
from bitwuzla import Kind

from vdla.compiler.certificates.lemmas import Law, Lemma, ResultBounds, Rewrite, TypeLaw
from vdla.compiler.ir import COMPARE_OPS
from vdla.verification.lemmas.statements import BoundedValue, IntegerType, claims, operand_count

_SPLIT = ("floordiv", "mod", "shl")
_MOST_MS = 20_000  # of one query
_KINDS = {
    "add": Kind.BV_ADD, "sub": Kind.BV_SUB, "mul": Kind.BV_MUL,
    "and": Kind.BV_AND, "or": Kind.BV_OR, "xor": Kind.BV_XOR,
}  # fmt: skip
_COMPARE = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq}


class Bits:
    """A bit vector with the operators of Python; comparisons are signed or not."""

    __slots__ = ("k", "signed", "term")

    def __init__(self, k: SolverAlgebra, term: Any, signed: bool) -> None:  # noqa: ANN401  a term
        self.k, self.term, self.signed = k, term, signed

    @property
    def width(self) -> int:
        """The number of bits."""
        return int(self.term.sort().bv_size())

    def made(self, kind: Kind, other: Bits | int) -> Bits:
        """An operation with another one of this type."""
        return Bits(self.k, self.k.manager.mk_term(kind, [self.term, self.as_this(other).term]), self.signed)

    def as_this(self, other: Bits | int) -> Bits:
        """A number or a bit vector in this width."""
        if isinstance(other, Bits):
            return other.extended(self.width) if other.width < self.width else other
        return self.k.constant(other, self.width, signed=self.signed)

    def extended(self, width: int, *, signed: bool | None = None) -> Bits:
        """In more bits, with the same value."""
        kind = Kind.BV_SIGN_EXTEND if self.signed else Kind.BV_ZERO_EXTEND
        term = self.k.manager.mk_term(kind, [self.term], [width - self.width]) if width > self.width else self.term
        return Bits(self.k, term, self.signed if signed is None else signed)

    def compared(self, signed: Kind, unsigned: Kind, other: Bits | int) -> Truth:
        """A comparison."""
        kind = signed if self.signed else unsigned
        return Truth(self.k, self.k.manager.mk_term(kind, [self.term, self.as_this(other).term]))

    def __add__(self, other: Bits | int) -> Bits:
        return self.made(Kind.BV_ADD, other)

    def __sub__(self, other: Bits | int) -> Bits:
        return self.made(Kind.BV_SUB, other)

    def __and__(self, other: Bits | int) -> Bits:
        return self.made(Kind.BV_AND, other)

    def __lt__(self, other: Bits | int) -> Truth:
        return self.compared(Kind.BV_SLT, Kind.BV_ULT, other)

    def __le__(self, other: Bits | int) -> Truth:
        return self.compared(Kind.BV_SLE, Kind.BV_ULE, other)

    def __gt__(self, other: Bits | int) -> Truth:
        return self.compared(Kind.BV_SGT, Kind.BV_UGT, other)

    def __ge__(self, other: Bits | int) -> Truth:
        return self.compared(Kind.BV_SGE, Kind.BV_UGE, other)

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]
        assert isinstance(other, (Bits, int))
        return Truth(self.k, self.k.manager.mk_term(Kind.EQUAL, [self.term, self.as_this(other).term]))

    __hash__ = None  # type: ignore[assignment]


class Truth:
    """A condition."""

    __slots__ = ("k", "term")

    def __init__(self, k: SolverAlgebra, term: Any) -> None:  # noqa: ANN401  a term
        self.k, self.term = k, term

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.k, self.k.manager.mk_term(Kind.AND, [self.term, other.term]))

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.k, self.k.manager.mk_term(Kind.OR, [self.term, other.term]))

    def __invert__(self) -> Truth:
        return Truth(self.k, self.k.manager.mk_term(Kind.NOT, [self.term]))


class SolverAlgebra:
    """The operations of lemmas on bit vectors of a type; bounds have bits to spare, up to int64."""

    def __init__(self, dtype: IntegerType, manager: Any | None = None) -> None:  # noqa: ANN401  a term manager
        self.manager = bitwuzla.TermManager() if manager is None else manager
        self.type, self.width, self.signed = dtype, dtype.width, dtype.signed
        self._bound_width = min(dtype.width + 2, 64)
        self.false, self.true = Truth(self, self.manager.mk_false()), Truth(self, self.manager.mk_true())
        self.zero = self.constant(0, self._bound_width, signed=True)
        self.last = self.constant((1 << (dtype.width - dtype.signed)) - 1, self._bound_width, signed=True)

    def constant(self, value: int, width: int, *, signed: bool) -> Bits:
        """A number."""
        return Bits(self, self.manager.mk_bv_value(self.manager.mk_bv_sort(width), value % (1 << width)), signed)

    def unknown(self, name: str) -> Bits:
        """Any value of the type."""
        return Bits(self, self.manager.mk_const(self.manager.mk_bv_sort(self.width), name), self.type.signed)

    def operand(self, name: str, value: Bits | None = None) -> tuple[BoundedValue, list[Truth]]:
        """A value with bounds, and the conditions that it is within them."""
        value = self.unknown(name) if value is None else value
        low, high = (self.unknown(f"{name}.{end}").extended(self._bound_width, signed=True) for end in ("low", "high"))
        wide = value.extended(self._bound_width, signed=True)
        return BoundedValue(value, low, high), [low <= wide, wide <= high]

    # --- the operations of lemmas

    def op(self, op: str, x: Any, y: Any) -> Any:  # noqa: ANN401  terms
        """An operation of expressions."""
        x, y = _value(x), _value(y)
        if op in COMPARE_OPS:
            return ~(x == y) if op == "ne" else _COMPARE[op](x, y)
        if op in ("min", "max"):
            return self.select(x < y if op == "min" else x > y, x, y)
        if op in ("shl", "shr"):
            return self._shift(op, x, y)
        if op in ("floordiv", "mod"):
            return self._divided(op, x, y)
        return x.made(_KINDS[op], y)

    def _shift(self, op: str, x: Bits, y: Bits) -> Bits:
        """A shift; amounts that are negative or too large shift out every bit, as in SMT-LIB."""
        return x.made(Kind.BV_SHL if op == "shl" else Kind.BV_ASHR if x.signed else Kind.BV_SHR, y)

    def _divided(self, op: str, x: Bits, y: Bits) -> Bits:
        """A quotient or a remainder that rounds down; of a division by 0, it is 0."""
        zero = self.constant(0, x.width, signed=x.signed)
        if not x.signed:
            return self.select(y == 0, zero, x.made(Kind.BV_UDIV if op == "floordiv" else Kind.BV_UREM, y))
        rest = x.made(Kind.BV_SREM, y)
        lower = ~(rest == 0) & ~self.equal(rest < 0, y < 0)
        if op == "mod":
            return self.select(y == 0, zero, self.select(lower, rest + y, rest))
        quotient = x.made(Kind.BV_SDIV, y)
        return self.select(y == 0, zero, self.select(lower, quotient - 1, quotient))

    def number(self, value: int) -> Bits:
        """A number of the type."""
        return self.constant(value, self.width, signed=self.type.signed)

    def inverted(self, x: Truth) -> Truth:
        """Not a truth."""
        return ~x

    def select(self, condition: Truth, a: Any, b: Any) -> Bits:  # noqa: ANN401  terms
        """One of two values."""
        a, b = _value(a), _value(b)
        return Bits(self, self.manager.mk_term(Kind.ITE, [condition.term, a.term, b.term]), a.signed)

    def same(self, x: Any, y: Any) -> Truth:  # noqa: ANN401  terms
        """Whether values are equal."""
        return self.equal(x, y)

    def power(self, y: BoundedValue) -> Bits:
        """Two to the power of a number."""
        one = self.constant(1, self._bound_width, signed=True)
        amount = self.most("max", [y.low, self.zero])
        made = self._shift("shl", one, amount)
        return Bits(self, self.manager.mk_term(Kind.BV_EXTRACT, [made.term], [self.width - 1, 0]), self.type.signed)

    def exponent(self, y: BoundedValue) -> Bits:
        """The place of the highest bit of a positive number."""
        made = self.number(0)
        for place in range(1, self.width - self.type.signed):
            made = self.select(
                y.low >= self.constant(1 << place, self._bound_width, signed=True), self.number(place), made
            )
        return made

    def most(self, which: str, values: list[Bits]) -> Bits:
        """The least or the greatest of bounds."""
        return reduce(lambda a, b: self.select(a < b if which == "min" else a > b, a, b), values)

    def shifted(self, x: Bits, y: Bits) -> Bits:
        """A bound shifted right, by 0 where the amount is negative."""
        return x.made(Kind.BV_ASHR, self.most("max", [y, self.zero]))

    # --- the operations of claims

    def both(self, conditions: Sequence[Any]) -> Truth:
        """All conditions."""
        return reduce(lambda a, b: a & b, conditions, self.true)

    def equal(self, a: Any, b: Any) -> Truth:  # noqa: ANN401  terms
        """Whether results are equal."""
        a, b = _value(a), _value(b)
        return Truth(self, self.manager.mk_term(Kind.EQUAL, [a.term, b.term]))

    def within(self, low: Bits, value: Any, high: Bits) -> Truth:  # noqa: ANN401  a term
        """Whether a value is within bounds."""
        wide: Bits = _value(value).extended(low.width, signed=True)
        return (low <= wide) & (wide <= high)


def _value(x: Any) -> Any:  # noqa: ANN401  a term
    return x.value if isinstance(x, BoundedValue) else x


# --- proofs ---------------------------------------------------------------------------------------

TYPES = tuple(
    IntegerType(width, signed)
    for width in (8, 16, 32, 64)
    for signed in (True, False)
    if (width, signed) != (64, False)
)
"""The types for which lemmas are proven; there are no symbols of uint64."""


def proven(lemma: Lemma, dtype: IntegerType) -> bool:
    """Whether a lemma holds for all operands and bounds of a type; False too if undecided."""
    if isinstance(lemma, TypeLaw):
        return all(_converts(lemma, op, dtype) for op in sorted(lemma.ops))
    return all(_unsatisfiable(k, formula) for k, formula in _violations(lemma, dtype))


def _violations(lemma: Rewrite | ResultBounds | Law, dtype: IntegerType) -> Iterator[tuple[SolverAlgebra, list[Truth]]]:
    """Conditions under which the claims of a lemma are wrong, each with its algebra."""
    for right in _rights(lemma, dtype):
        k = SolverAlgebra(dtype)
        given = [k.operand(name) for name in "xyab"[: operand_count(lemma)]]
        others: list[Truth] = []
        if isinstance(right, int):
            given[1] = k.operand("y", k.number(right))
        else:
            others = [~(given[1][0].value == number) for number in right]
        operands, inside = [one for one, _ in given], [part for _, parts in given for part in parts]
        for claim in claims(lemma, k, operands):
            yield k, [*others, *inside, claim.needs, ~claim.conclusion]


def _rights(lemma: Rewrite | ResultBounds | Law, dtype: IntegerType) -> list[int | tuple[int, ...]]:
    """The numbers on the right that are decided alone, and those that the rest excludes."""
    bits = dtype.width - dtype.signed
    if isinstance(lemma, Law) and "shr" in lemma.ops:
        return [tuple(range(dtype.width)), *range(dtype.width)]
    if not isinstance(lemma, Rewrite) or lemma.op not in _SPLIT:
        return [()]
    alone = sorted({*range(dtype.width), *(1 << place for place in range(bits))})
    alone = [number for number in alone if number < 1 << bits]
    return [tuple(alone), *alone]


def _unsatisfiable(k: SolverAlgebra, formula: Sequence[Truth]) -> bool:
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.TIME_LIMIT_PER, _MOST_MS)
    options.set(bitwuzla.Option.ABSTRACTION, True)  # products and quotients by what is known of them
    options.set(bitwuzla.Option.ABSTRACTION_BV_SIZE, 16)
    solver = bitwuzla.Bitwuzla(k.manager, options)
    for condition in formula:
        solver.assert_formula(condition.term)
    return bool(solver.check_sat() == bitwuzla.Result.UNSAT)


def _converts(lemma: TypeLaw, op: str, wide: IntegerType) -> bool:
    """Whether a cast of an operation between a type and those of half of its bits is as said."""
    if wide.width == 8:
        return True
    narrow = [IntegerType(wide.width // 2, signed) for signed in ((True, False) if wide.signed else (False,))]
    return all((_widened if lemma.widens else _narrowed)(op, one, wide) for one in narrow)


def _widened(op: str, narrow: IntegerType, wide: IntegerType) -> bool:
    small = SolverAlgebra(narrow)
    large = SolverAlgebra(wide, small.manager)
    x, y = (small.unknown(name) for name in "xy")
    result = small.op(op, x, y)
    if isinstance(result, Bits):
        result = result.extended(wide.width, signed=wide.signed)
    other = large.op(op, *(one.extended(wide.width, signed=wide.signed) for one in (x, y)))
    return _unsatisfiable(large, [~large.equal(result, other)])


def _narrowed(op: str, narrow: IntegerType, wide: IntegerType) -> bool:
    large = SolverAlgebra(wide)
    small = SolverAlgebra(narrow, large.manager)
    x, y = (large.unknown(name) for name in "xy")

    def cast(one: Bits) -> Bits:
        return Bits(small, small.manager.mk_term(Kind.BV_EXTRACT, [one.term], [narrow.width - 1, 0]), narrow.signed)

    return _unsatisfiable(large, [~large.equal(cast(large.op(op, x, y)), small.op(op, cast(x), cast(y)))])
