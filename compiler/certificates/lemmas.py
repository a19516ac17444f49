# SPDX-License-Identifier: Apache-2.0
"""The lemmas of certificates: all identities of scalars by which different spellings are equal.

A lemma is data. `symbols` applies them to symbols, from left to right; `verification.lemmas` proves
each one, for all values, bounds and types. Spellings that are equal by no lemma are refused.

Functions of lemmas take an algebra and operands. The algebra computes `add`, `min`, `shr`, ... of
symbols, of integers or of a solver's terms; operands have bounds `low` and `high`.
"""

from __future__ import annotations

import hashlib
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from operator import and_
from pathlib import Path
from typing import Any

Term = Callable[..., Any]
"""A function of an algebra and operands."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """`left` is `right` where all conditions `needs` hold; `op` is the outermost operation."""

    name: str
    op: str
    operands: int
    left: Term
    right: Term
    needs: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultBounds:
    """`low <= x op y <= high` where all conditions hold. `exact`: of the result before it wraps."""

    name: str
    op: str
    low: Term
    high: Term
    needs: tuple[Term, ...] = ()
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Law:
    """`left` is `right` of three operands, for each operation of `ops`: how its value is made.

    `exact`: for integers of any size, which wrap as the results do.
    """

    name: str
    ops: frozenset[str]
    left: Term
    right: Term
    needs: tuple[Term, ...] = ()
    exact: bool = False


@dataclass(frozen=True, slots=True)
class TypeLaw:
    """Operations that a conversion of types leaves: the result is that of converted operands."""

    name: str
    ops: frozenset[str]
    widens: bool


# --- conditions -----------------------------------------------------------------------------------


def known(k: Any, x: Any, y: Any) -> Any:  # noqa: ANN401  of any algebra
    """The second operand is a number."""
    return y.low == y.high


def _positive(k: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    return y.low > 0


def _not_negative(k: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    return (x.low >= 0) & (y.low >= 0)


def _power_of_two(k: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    return (y.low & (y.low - 1)) == 0


def _mask_of_low_bits(k: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    return (y.low >= 0) & ((y.low & (y.low + 1)) == 0)


def _is(number: int) -> Term:
    return lambda k, x, y: (y.low == number) & (y.high == number)


def _shift_amount(k: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    return (y.low >= 0) & (y.low < k.width)


def _signed_and_small(k: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    """The first operand may be added to itself, less or more by 1; no unsigned one is."""
    half = k.shifted(k.last, y.low) if k.signed else k.zero
    return (x.high < half) & (x.low + half >= 0)


def _same(k: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    return k.same(x, y)


# --- rewritings -----------------------------------------------------------------------------------


def _rewrite(name: str, op: str, right: Term, *needs: Term) -> Rewrite:
    return Rewrite(name, op, 2, lambda k, x, y: k.op(op, x, y), right, needs)


def _choice(compare: str, *, swapped: bool) -> Rewrite:
    """A selection by a comparison of the same two operands."""
    least = (compare in ("lt", "le")) != swapped
    operands = "swapped operands" if swapped else "operands"
    name = " ".join(["a selection by", compare, "of", operands, "is", "min" if least else "max"])

    def same(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        return k.same(x, b) & k.same(y, a) if swapped else k.same(x, a) & k.same(y, b)

    def left(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        return k.select(k.op(compare, x, y), a, b)

    def right(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        return k.op("min" if least else "max", x, y)

    return Rewrite(name, "select " + compare, 4, left, right, (same,))


REWRITES: tuple[Rewrite, ...] = (
    _rewrite("a sum with 0 is the number", "add", lambda k, x, y: x, _is(0)),
    _rewrite("a number less 0 is the number", "sub", lambda k, x, y: x, _is(0)),
    _rewrite("a product with 1 is the number", "mul", lambda k, x, y: x, _is(1)),
    _rewrite("a shift left is a product", "shl", lambda k, x, y: k.op("mul", x, k.power(y)), known, _shift_amount),
    _rewrite("a shift by 0 changes nothing", "shr", lambda k, x, y: x, _is(0)),
    _rewrite(
        "a quotient by a power of two is a shift",
        "floordiv",
        lambda k, x, y: k.op("shr", x, k.exponent(y)),
        known,
        _positive,
        _power_of_two,
    ),
    _rewrite(
        "a quotient of less than the divisor is 0",
        "floordiv",
        lambda k, x, y: k.number(0),
        lambda k, x, y: (x.low >= 0) & (x.high < y.low),
    ),
    _rewrite(
        "a remainder by a power of two is a mask",
        "mod",
        lambda k, x, y: k.op("and", x, k.op("sub", y, k.number(1))),
        known,
        _positive,
        _power_of_two,
    ),
    _rewrite(
        "a remainder of less than the divisor is the number",
        "mod",
        lambda k, x, y: x,
        lambda k, x, y: (x.low >= 0) & (x.high < y.low),
    ),
    _rewrite(
        "a mask of low bits keeps what has no others",
        "and",
        lambda k, x, y: x,
        known,
        _mask_of_low_bits,
        lambda k, x, y: (x.low >= 0) & (x.high <= y.low),
    ),
    _rewrite("a mask of 0 is 0", "and", lambda k, x, y: y, _is(0)),
    _rewrite(
        "the lowest bit is what a shift leaves",
        "and",
        lambda k, x, y: k.op("sub", x, k.op("mul", k.op("shr", x, k.number(1)), k.number(2))),
        _is(1),
        _signed_and_small,
    ),
    _rewrite("a bitwise and of equals is one of them", "and", lambda k, x, y: x, _same),
    _rewrite("a bitwise or with 0 changes nothing", "or", lambda k, x, y: x, _is(0)),
    _rewrite("a bitwise or of equals is one of them", "or", lambda k, x, y: x, _same),
    _rewrite("a bitwise exclusive or with 0 changes nothing", "xor", lambda k, x, y: x, _is(0)),
    _rewrite("a minimum of equals is one of them", "min", lambda k, x, y: x, _same),
    _rewrite("a maximum of equals is one of them", "max", lambda k, x, y: x, _same),
    _rewrite("the minimum that bounds decide", "min", lambda k, x, y: x, lambda k, x, y: x.high <= y.low),
    _rewrite("the maximum that bounds decide", "max", lambda k, x, y: x, lambda k, x, y: x.low >= y.high),
    _rewrite("greater is less, the other way round", "gt", lambda k, x, y: k.op("lt", y, x)),
    _rewrite("at most is not greater", "le", lambda k, x, y: k.inverted(k.op("lt", y, x))),
    _rewrite("at least is not less", "ge", lambda k, x, y: k.inverted(k.op("lt", x, y))),
    _rewrite("unequal is not equal", "ne", lambda k, x, y: k.inverted(k.op("eq", x, y))),
    _rewrite("less, which bounds decide", "lt", lambda k, x, y: k.true, lambda k, x, y: x.high < y.low),
    _rewrite("not less, which bounds decide", "lt", lambda k, x, y: k.false, lambda k, x, y: x.low >= y.high),
    _rewrite("equals are equal", "eq", lambda k, x, y: k.true, _same),
    _rewrite(
        "unequal, which bounds decide",
        "eq",
        lambda k, x, y: k.false,
        lambda k, x, y: (x.high < y.low) | (y.high < x.low),
    ),
    *(_choice(compare, swapped=swapped) for compare in ("lt", "le", "gt", "ge") for swapped in (False, True)),
    Rewrite(
        "a selection of equals is one of them",
        "select",
        4,
        lambda k, x, y, a, b: k.select(k.op("lt", x, y), a, b),
        lambda k, x, y, a, b: a,
        (lambda k, x, y, a, b: k.same(a, b),),
    ),
)

# --- pairs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BestPair:
    """The best of pairs of a value and a place, of equal values the one with the first place, by
    keys: single numbers of which the best is the `extreme`.

    `value` and `key` are those of the better one of two pairs, `first` and `second` its place where
    bounds decide which one it is, `place` that of a key.
    """

    compare: str
    extreme: str
    value: Rewrite
    first: Rewrite
    second: Rewrite
    key: Rewrite
    place: Rewrite

    @property
    def lemmas(self) -> tuple[Rewrite, ...]:
        """All of them."""
        return self.value, self.first, self.second, self.key, self.place

    def key_of(self, k: Any, value: Any, place: Any) -> Any:  # noqa: ANN401  of any algebra
        """The key of a pair."""
        return _key(self.extreme, k, value, place)

    def place_of(self, k: Any, key: Any) -> Any:  # noqa: ANN401
        """The place of a key."""
        return _place(self.extreme, k, key)


def _count_of_places(k: Any) -> int:  # noqa: ANN401
    """The places that keys of a type have room for: 2^16 in int64."""
    return 1 << int(k.width) // 4


def _key(extreme: str, k: Any, value: Any, place: Any) -> Any:  # noqa: ANN401
    scaled = k.op("mul", value, k.number(_count_of_places(k)))
    return k.op("sub" if extreme == "max" else "add", scaled, place)


def _place(extreme: str, k: Any, key: Any) -> Any:  # noqa: ANN401
    lowest = k.op("sub", k.number(0), key) if extreme == "max" else key
    return k.op("and", lowest, k.number(_count_of_places(k) - 1))


def _has_places(k: Any, x: Any, y: Any, *other: Any) -> Any:  # noqa: ANN401
    """The places of pairs are those of keys."""
    places = (y, *other[1:])
    return _every((place.low >= 0) & (place.high < _count_of_places(k)) for place in places)


def _has_keys(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
    """Keys do not leave the type, with any place."""
    count, first = _count_of_places(k), -(1 << (k.width - 1)) if k.signed else 0
    least, most = first // count + 1, (first + (1 << k.width)) // count - 1
    return _every((value.low >= least) & (value.high <= most) for value in (x, a))


def _every(conditions: Iterable[Any]) -> Any:  # noqa: ANN401
    return reduce(and_, conditions)


def _best_pair(compare: str, extreme: str) -> BestPair:
    """The lemmas on the pair whose value compares with all others so."""

    def better(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        return k.op(compare, x, a) | (k.op("eq", x, a) & k.op("lt", y, b))

    def value(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        return k.select(better(k, x, y, a, b), x, a)

    def chosen_place(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        return k.select(better(k, x, y, a, b), y, b)

    def key(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        return _key(extreme, k, value(k, x, y, a, b), chosen_place(k, x, y, a, b))

    def wins(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        beyond, reaches = (x.low > a.high, x.low >= a.high) if extreme == "max" else (x.high < a.low, x.high <= a.low)
        return beyond | (reaches & (y.high < b.low))

    def loses(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        beyond, reaches = (x.high < a.low, x.high <= a.low) if extreme == "max" else (x.low > a.high, x.low >= a.high)
        return beyond | (reaches & (y.low >= b.high))

    def extreme_key(k: Any, x: Any, y: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        return k.op(extreme, _key(extreme, k, x, y), _key(extreme, k, a, b))

    def place(k: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
        return _place(extreme, k, _key(extreme, k, x, y))

    def lemma(name: str, operands: int, left: Term, right: Term, *needs: Term) -> Rewrite:
        return Rewrite(name + ", by " + compare, "pair", operands, left, right, needs)

    return BestPair(
        compare=compare,
        extreme=extreme,
        value=lemma("the value of the best pair is an extreme", 4, value, lambda k, x, y, a, b: k.op(extreme, x, a)),
        first=lemma(
            "the first of two pairs is better, which bounds decide", 4, chosen_place, lambda k, x, y, a, b: y, wins
        ),
        second=lemma(
            "the second of two pairs is better, which bounds decide", 4, chosen_place, lambda k, x, y, a, b: b, loses
        ),
        key=lemma("the key of the best pair is an extreme of keys", 4, key, extreme_key, _has_places, _has_keys),
        place=lemma("a place is the low bits of its key", 2, lambda k, x, y: y, place, _has_places),
    )


BEST_PAIRS: tuple[BestPair, ...] = (_best_pair("gt", "max"), _best_pair("lt", "min"))
PAIRS: tuple[Rewrite, ...] = tuple(lemma for one in BEST_PAIRS for lemma in one.lemmas)

# --- bounds ---------------------------------------------------------------------------------------


def _corner(name: str) -> Term:
    """The least or the greatest product of two bounds."""
    return lambda k, x, y: k.most(
        name, [k.times(x.low, y.low), k.times(x.low, y.high), k.times(x.high, y.low), k.times(x.high, y.high)]
    )


BOUNDS: tuple[ResultBounds, ...] = (
    ResultBounds("bounds of a sum", "add", lambda k, x, y: x.low + y.low, lambda k, x, y: x.high + y.high, exact=True),
    ResultBounds(
        "bounds of a difference", "sub", lambda k, x, y: x.low - y.high, lambda k, x, y: x.high - y.low, exact=True
    ),
    ResultBounds("bounds of a product", "mul", _corner("min"), _corner("max"), exact=True),
    ResultBounds(
        "bounds of a shift",
        "shr",
        lambda k, x, y: k.shifted(x.low, y.low),
        lambda k, x, y: k.shifted(x.high, y.low),
        (known, _shift_amount),
    ),
    ResultBounds(
        "a shift is nearer to 0",
        "shr",
        lambda k, x, y: k.most("min", [x.low, k.zero]),
        lambda k, x, y: k.most("max", [x.high, k.zero]),
        (lambda k, x, y: (y.low >= 0) & (y.high < k.width),),
    ),
    ResultBounds("bounds of a remainder", "mod", lambda k, x, y: k.zero, lambda k, x, y: y.high - 1, (_positive,)),
    ResultBounds(
        "bounds of a mask", "and", lambda k, x, y: k.zero, lambda k, x, y: y.high, (lambda k, x, y: y.low >= 0,)
    ),
    ResultBounds(
        "a bitwise or is at least its operands",
        "or",
        lambda k, x, y: k.most("max", [x.low, y.low]),
        lambda k, x, y: k.last,
        (_not_negative,),
    ),
    ResultBounds(
        "bounds of a minimum",
        "min",
        lambda k, x, y: k.most("min", [x.low, y.low]),
        lambda k, x, y: k.most("min", [x.high, y.high]),
    ),
    ResultBounds(
        "bounds of a maximum",
        "max",
        lambda k, x, y: k.most("max", [x.low, y.low]),
        lambda k, x, y: k.most("max", [x.high, y.high]),
    ),
    ResultBounds(
        "bounds of a selection",
        "select",
        lambda k, x, y: k.most("min", [x.low, y.low]),
        lambda k, x, y: k.most("max", [x.high, y.high]),
    ),
)


def _spans(bits: int, x: Any, y: Any, z: Any) -> Any:  # noqa: ANN401  of any algebra
    """Signed integers of so many bits, and the mask of these."""
    half = 1 << (bits - 1)
    return (x.low >= -half) & (y.high < half) & (z.low == 2 * half - 1) & (z.high == 2 * half - 1)


# --- laws -----------------------------------------------------------------------------------------

COMMUTES = Law(
    "operands in any order",
    frozenset({"add", "mul", "min", "max", "and", "or", "xor", "eq", "ne"}),
    lambda k, op, x, y, z: k.op(op, x, y),
    lambda k, op, x, y, z: k.op(op, y, x),
)
ASSOCIATES = Law(
    "operations in any order",
    frozenset({"add", "mul", "min", "max"}),
    lambda k, op, x, y, z: k.op(op, k.op(op, x, y), z),
    lambda k, op, x, y, z: k.op(op, x, k.op(op, y, z)),
)
DISTRIBUTES = Law(
    "products of sums are sums of products",
    frozenset({"add", "sub"}),
    lambda k, op, x, y, z: k.op("mul", x, k.op(op, y, z)),
    lambda k, op, x, y, z: k.op(op, k.op("mul", x, y), k.op("mul", x, z)),
    exact=True,
)
SHIFTS_ADD = Law(
    "a shift in several passes",
    frozenset({"shr"}),
    lambda k, op, x, y, z: k.op(op, k.op(op, x, y), z),
    lambda k, op, x, y, z: k.op(
        op,
        x,
        k.select(k.op("lt", k.op("sub", k.number(k.width), z), y), k.number(k.width), k.op("add", y, z)),
    ),
    (
        lambda k, x, y, z: (y.low >= 0) & (y.low < k.width) & (y.low == y.high),
        lambda k, x, y, z: (z.low >= 0) & (z.low < k.width) & (z.low == z.high),
    ),
)
CLIPS_COMMUTE = Law(
    "a clip in any order",
    frozenset({"min"}),
    lambda k, op, x, y, z: k.op(op, k.op("max", x, y), z),
    lambda k, op, x, y, z: k.op("max", k.op(op, x, z), y),
    (lambda k, x, y, z: y.high <= z.low,),
)
DISTANCES_ARE_SHORT = Law(
    "the distance from a maximum of 8 bits has 8 bits",
    frozenset({"max"}),
    lambda k, op, x, y, z: k.op("sub", k.op(op, x, y), x),
    lambda k, op, x, y, z: k.op("and", k.op("sub", k.op(op, x, y), x), z),
    (lambda k, x, y, z: _spans(3, x, y, z) | _spans(8, x, y, z),),
)
REQUANTISED_BY_ONE = Law(
    "a requantisation by 1 changes nothing",
    frozenset({"shr"}),
    lambda k, op, x, y, z: k.op(op, k.op("add", k.op("add", k.op("shl", x, y), z), k.op("and", x, k.number(1))), y),
    lambda k, op, x, y, z: k.op("add", x, k.number(0)),
    (
        lambda k, x, y, z: (y.low > 0) & (y.low < k.width) & (y.low == y.high),
        lambda k, x, y, z: (z.low >= 0) & (k.shifted(z.high + 1, y.low) == 0),
        lambda k, x, y, z: (x.high < k.shifted(k.last, y.low)) & (x.low + k.shifted(k.last, y.low) >= 0),
    ),
)


def _keeps_better(op: str, step: str, fits: Term) -> Law:
    """The better one of a number and that a known distance away."""
    return Law(
        "the " + op + " of a number and one a distance away is the number",
        frozenset({op}),
        lambda k, op, x, y, z: k.op(op, x, k.op(step, x, y)),
        lambda k, op, x, y, z: k.op("add", x, k.number(0)),
        (lambda k, x, y, z: (y.low >= 0) & (y.low == y.high), fits),
    )


KEEPS_BETTER = {
    "max": _keeps_better("max", "sub", lambda k, x, y, z: x.low + (k.last if k.signed else 0) >= y.high),
    "min": _keeps_better("min", "add", lambda k, x, y, z: x.high <= k.last - y.high),
}
LAWS: tuple[Law, ...] = (
    COMMUTES,
    ASSOCIATES,
    DISTRIBUTES,
    SHIFTS_ADD,
    CLIPS_COMMUTE,
    DISTANCES_ARE_SHORT,
    REQUANTISED_BY_ONE,
    *KEEPS_BETTER.values(),
)

NARROWS = TypeLaw("a cast that narrows is one of the operands", frozenset({"add", "sub", "mul"}), widens=False)
WIDENS = TypeLaw(
    "a cast that widens is one of the operands",
    frozenset({"min", "max", "and", "or", "xor", "shr", "lt", "le", "gt", "ge", "eq", "ne"}),
    widens=True,
)
TYPE_LAWS: tuple[TypeLaw, ...] = (NARROWS, WIDENS)

Lemma = Rewrite | ResultBounds | Law | TypeLaw
LEMMAS: tuple[Lemma, ...] = (*REWRITES, *PAIRS, *BOUNDS, *LAWS, *TYPE_LAWS)


@cache
def lemmas_digest() -> str:
    """The SHA-256 of the code of this file, whose lemmas certificates use, without what documents
    it.
    """
    with Path(__file__).open("rb") as file:
        return hashlib.sha256("\n".join(code_of(file.readline)).encode()).hexdigest()


def code_of(readline: Callable[[], bytes]) -> Iterator[str]:
    """The words of Python code, without comments, line breaks and strings that stand alone."""
    begins = True  # a statement
    for token in tokenize.tokenize(readline):
        if token.type in _SILENT:
            continue
        layout = token.type in _LAYOUT
        if not layout and not (begins and token.type == tokenize.STRING):
            yield token.string
        begins = layout


_SILENT = (tokenize.ENCODING, tokenize.COMMENT, tokenize.NL)
_LAYOUT = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
