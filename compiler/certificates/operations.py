# SPDX-License-Identifier: Apache-2.0
"""Operations on symbols, by the lemmas; whatever no lemma applies to has no structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.certificates import field, lemmas
from vdla.compiler.certificates.extremes import EXTREMES, extreme
from vdla.compiler.certificates.functions_in_use import small_functions
from vdla.compiler.certificates.sum_bounds import observe
from vdla.compiler.certificates.symbols import (
    BOOL,
    HALF_RANGE,
    LARGE,
    SymbolForm,
    Symbols,
    chosen,
    elements_of,
    key,
    known,
    low_half,
    numbers,
    settled,
    symbols,
    type_bounds,
    unstructured,
    whole,
)
from vdla.compiler.ir import INTEGER_BITS, SCALAR_FUNCTIONS, Array, storage_dtype, wrap


def binary(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """`a op b` of operands of a type."""
    functions = small_functions()
    if functions is None:
        return _binary(op, a, b, dtype)
    return functions.applied(lambda a, b: _binary(op, a, b, dtype), (a, b), (dtype, dtype), _EXACT.get(op))


def _binary(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    a, b = np.broadcast_arrays(a, b)
    both = known(a) & known(b)
    if both.all():
        return _of_numbers(op, a, b, dtype)
    if op in lemmas.NARROWS.ops:
        made = _neutral(op, _ring(op, a, b, dtype), whole(a), whole(b), dtype)
    elif op == "shr" and (a["form"] == SymbolForm.HALVES).any():
        made = _shifted_halves(a, b, dtype)
    else:
        made = _rewritten(op, whole(a), settled(b, dtype), dtype)
    return chosen(both, _of_numbers(op, a, b, dtype), made) if both.any() else made


def _rewritten(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """`a op b` of no ring operation, by the lemmas; only a shift left may wrap before it is one."""
    if op != "shl":
        a = settled(a, dtype)
    for rewrite in _REWRITES.get(op, ()):
        if not rewrite.needs:
            right: Symbols = rewrite.right(SymbolAlgebra(dtype), SymbolOperand(a), SymbolOperand(b)).symbols
            return right
    made = _BY_STRUCTURE.get(op, _without_structure)(op, a, b, dtype)
    orders = ((a, b), (b, a)) if op in lemmas.COMMUTES.ops else ((a, b),)
    for operands in orders:
        made = _bounded(op, made, *operands, dtype)
    for operands in orders:
        made = _applied(op, made, operands, dtype)
    for operands in orders if op == "and" else ():  # a sum of terms has wider ones
        made = _bounded(op, made.copy(), *operands, dtype)
    return made


def _of_numbers(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    stored = storage_dtype(dtype)
    with np.errstate(all="ignore"):
        result = np.asarray(ir.OPERATORS[op].on_arrays(a["low"].astype(stored), b["low"].astype(stored)))
    return numbers(result if op in ir.COMPARE_OPS else wrap(result, dtype))


def _ring(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    operation = {"add": field.add, "sub": field.subtract, "mul": field.multiply}[op]
    a, b = elements_of(a), elements_of(b)
    norm = a["norm"] * b["norm"] if op == "mul" else a["norm"] + b["norm"]
    if (norm >= LARGE).any():
        return _ring_of_large(op, a, b, dtype)
    low, high = ring_bounds(op, *(_exact(part) for part in (a["low"], a["high"], b["low"], b["high"])))
    polynomial = (a["form"] == SymbolForm.POLYNOMIAL) | (b["form"] == SymbolForm.POLYNOMIAL)
    return fitted(operation(a["value"], b["value"]), low, high, polynomial, norm, dtype)


def _neutral(op: str, made: Symbols, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """A result of a ring operation, or the operand that the other one does not change, unless its
    coefficients are large.
    """
    if not (known(a).any() or known(b).any()):
        return made
    kept = made
    for operands in ((a, b), (b, a)) if op in lemmas.COMMUTES.ops else ((a, b),):
        kept = _applied(op, kept, operands, dtype)
    return chosen(kept["norm"] < LARGE, kept, made)


def _ring_of_large(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """Ring operations of polynomials, the larger of which are functions without structure first."""
    for most in (np.sqrt(LARGE) / 2, 1):
        a, b = (_shortened(x, most, dtype) for x in (a, b))
        norm = a["norm"] * b["norm"] if op == "mul" else a["norm"] + b["norm"]
        if (norm < LARGE).all():
            return _ring(op, a, b, dtype)
    raise AssertionError("norms of 1")


def _shortened(a: Symbols, most: float, dtype: str) -> Symbols:
    """Symbols whose norm is at most this; the others become functions without structure."""
    large = a["norm"] > most
    if not large.any():
        return a
    a = settled(a, dtype)
    return chosen(large, unstructured(("large", dtype), a["low"], a["high"], a), a)


def _exact(bounds: Array) -> Array:
    """Bounds in a type in which a product of two is exact, or known to be too large for int64."""
    return bounds.astype(np.longdouble)


def ring_bounds(op: str, a: Array, a_high: Array, b: Array, b_high: Array) -> tuple[Array, Array]:
    """The bounds of `a op b` of a ring operation."""
    (lemma,), k = _BOUNDS[op], SymbolAlgebra("int64")
    x, y = _Interval(a, a_high), _Interval(b, b_high)
    return lemma.low(k, x, y), lemma.high(k, x, y)


def fitted(value: Array, low: Array, high: Array, polynomial: Array, norm: Any, dtype: str) -> Symbols:  # noqa: ANN401  a number or an array
    """Results of ring operations: plain where their bounds are in the type, else polynomials."""
    observe(dtype, low, high)
    least, most = type_bounds(dtype)
    outside = polynomial | (low < least) | (high > most)
    inside_low, inside_high = (np.where(outside, 0, bound).astype(np.int64) for bound in (low, high))
    low, high = np.where(outside, least, inside_low), np.where(outside, most, inside_high)
    return symbols(value, low, high, outside.astype(np.uint8), norm)


def _shift_right(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """Shifts by numbers add: one by a and one by b are one by a + b."""
    made = _without_structure(op, a, b, dtype)
    inside = known(b) & (b["low"] >= 0) & (b["low"] < _width(dtype))
    if inside.any():
        amounts = np.where(inside, b["low"], 0).astype(np.uint64)
        made["value"] = np.where(inside, field.moved(key("shift"), a["value"], amounts), made["value"])
    return made


def _shifted_halves(a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """Integers of which some are made of halves, shifted to the right: the known half, if by 32."""
    upper = known(b) & (b["low"] >= HALF_RANGE.bit_length() - 1) & (b["low"] < _width(dtype))
    shifted = numbers(a["low"] >> np.clip(b["low"], 0, 63))
    others = _rewritten("shr", whole(a), settled(b, dtype), dtype)
    return chosen(upper & (a["form"] == SymbolForm.HALVES), shifted, others)


def _inverted(a: Symbols) -> Symbols:
    return symbols(field.subtract(field.from_integers(1), a["value"]), 1 - a["high"], 1 - a["low"])


def _without_structure(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    a = settled(a, dtype)
    if op in lemmas.COMMUTES.ops:
        swap = a["value"] > b["value"]
        a, b = chosen(swap, b, a), chosen(swap, a, b)
    key = (op,) if op in lemmas.WIDENS.ops else (op, dtype)
    return unstructured(key, *(BOOL if op in ir.COMPARE_OPS else type_bounds(dtype)), a, b)


_EXACT = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
_BY_STRUCTURE = {"min": extreme, "max": extreme, "shr": _shift_right}


# --- lemmas ---------------------------------------------------------------------------------------


_REWRITES = {op: tuple(x for x in lemmas.REWRITES if x.op == op) for op in {x.op for x in lemmas.REWRITES}}
_BOUNDS = {op: tuple(x for x in lemmas.BOUNDS if x.op == op) for op in {x.op for x in lemmas.BOUNDS}}


def _width(dtype: str) -> int:
    return INTEGER_BITS.get(dtype, 1)


@dataclass(frozen=True, slots=True)
class _Interval:
    """The bounds of an operand."""

    low: Array
    high: Array


class SymbolOperand:
    """A symbol as lemmas see it."""

    def __init__(self, of: Symbols) -> None:
        self.symbols, self.low, self.high = of, of["low"], of["high"]


_FALSE, _TRUE = SymbolOperand(numbers(0)), SymbolOperand(numbers(1))


class SymbolAlgebra:
    """The operations of lemmas on symbols of a type."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.width, self.zero = dtype, _width(dtype), 0
        first, self.last = type_bounds(dtype)
        self.signed = first < 0
        self.false, self.true = _FALSE, _TRUE

    def op(self, op: str, x: SymbolOperand, y: SymbolOperand) -> SymbolOperand:
        """An operation of expressions."""
        return SymbolOperand(binary(op, x.symbols, y.symbols, self.dtype))

    def number(self, value: int) -> SymbolOperand:
        """A number."""
        return SymbolOperand(numbers(value))

    def inverted(self, x: SymbolOperand) -> SymbolOperand:
        """Not a truth."""
        return SymbolOperand(_inverted(x.symbols))

    def same(self, x: SymbolOperand, y: SymbolOperand) -> Array:
        """Where symbols are the same."""
        return np.asarray(x.symbols["value"] == y.symbols["value"])

    def power(self, y: SymbolOperand) -> SymbolOperand:
        """Two to the power of numbers."""
        return SymbolOperand(numbers(wrap(np.int64(1) << np.clip(y.low, 0, 63), self.dtype)))

    def exponent(self, y: SymbolOperand) -> SymbolOperand:
        """The exponents of numbers that are powers of two."""
        return SymbolOperand(numbers(np.frexp(np.maximum(y.low, 1).astype(np.float64))[1] - 1))

    def most(self, which: str, values: list[Array]) -> Array:
        """The least or the greatest of bounds."""
        return reduce(np.minimum if which == "min" else np.maximum, values)

    def times(self, x: Array, y: Array) -> Array:
        """A product of bounds."""
        return x * y

    def shifted(self, x: Array, y: Array) -> Array:
        """A bound shifted right."""
        return np.asarray(x >> np.clip(y, 0, 63))


def holds(needs: tuple[lemmas.Term, ...], k: SymbolAlgebra, operands: Sequence[SymbolOperand]) -> Array:
    """Where all conditions of a lemma hold."""
    if not needs:
        return np.ones((), np.bool_)
    return reduce(np.logical_and, (np.asarray(need(k, *operands)) for need in needs))


def _bounded(op: str, made: Symbols, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """Symbols with the bounds of lemmas; a number where these are equal."""
    if op in EXTREMES or op not in _BOUNDS:
        return made
    k, operands = SymbolAlgebra(dtype), [SymbolOperand(a), SymbolOperand(b)]
    for lemma in _BOUNDS[op]:
        where = holds(lemma.needs, k, operands)
        made["low"] = np.where(where, np.maximum(made["low"], lemma.low(k, *operands)), made["low"])
        made["high"] = np.where(where, np.minimum(made["high"], lemma.high(k, *operands)), made["high"])
    exact = known(made)
    return chosen(exact, numbers(made["low"]), made).copy() if exact.any() else made


def _applied(op: str, made: Symbols, operands: tuple[Symbols, ...], dtype: str) -> Symbols:
    """Symbols with the right sides of rewritings where their conditions hold."""
    k, given = SymbolAlgebra(dtype), [SymbolOperand(one) for one in operands]
    for rewrite in _REWRITES.get(op, ()):
        where = holds(rewrite.needs, k, given)
        if where.any():
            made = chosen(where, rewrite.right(k, *given).symbols, made)
    return made


# --- casts, selections, calls, sums ---------------------------------------------------------------


def cast(a: Symbols, source: str, target: str) -> Symbols:
    """Symbols of a type in another one."""
    functions = small_functions()
    if functions is None:
        return _cast(a, source, target)
    return functions.applied(lambda a: _cast(a, source, target), (a,), (source,), np.positive)


def _cast(a: Symbols, source: str, target: str) -> Symbols:
    halves = a["form"] == SymbolForm.HALVES
    if halves.any() and target == "int32":
        return chosen(halves, low_half(a), cast(chosen(halves, numbers(0), a), source, target))
    a = whole(a)
    if target == "bool":
        return binary("ne", a, numbers(0), source)
    low, high = type_bounds(target)
    inside = (a["low"] >= low) & (a["high"] <= high)
    narrows = INTEGER_BITS.get(source, 1) >= INTEGER_BITS[target]
    if narrows:  # a polynomial is one modulo a smaller range too
        kept = inside & (a["form"] != SymbolForm.POLYNOMIAL)
        exact = numbers(wrap(a["low"], target))
        made = chosen(known(a) & (a["form"] != SymbolForm.POLYNOMIAL), exact, _polynomial(a, low, high))
        return chosen(kept, a, made)
    a = settled(a, source)
    inside = (a["low"] >= low) & (a["high"] <= high)
    return a if inside.all() else chosen(inside, a, _polynomial(a, low, high))


def _polynomial(a: Symbols, low: int, high: int) -> Symbols:
    """Symbols that may leave a type with these bounds."""
    a = elements_of(a)
    return symbols(a["value"], low, high, SymbolForm.POLYNOMIAL, a["norm"])


def select(
    condition: Symbols, a: Symbols, b: Symbols, dtype: str, compared: tuple[str, Symbols, Symbols] | None = None
) -> Symbols:
    """`a` where the condition holds, else `b`; `compared` are the comparison and operands of it."""
    functions = small_functions()
    if functions is None:
        return _select(condition, a, b, dtype, compared)
    operation = lambda condition, a, b: _select(condition, a, b, dtype)  # noqa: E731
    return functions.applied(operation, (condition, a, b), ("bool", dtype, dtype))


def _select(
    condition: Symbols, a: Symbols, b: Symbols, dtype: str, compared: tuple[str, Symbols, Symbols] | None = None
) -> Symbols:
    condition, a, b = np.broadcast_arrays(condition, settled(a, dtype), settled(b, dtype))
    (bounds,), k, (x, y) = _BOUNDS["select"], SymbolAlgebra(dtype), (SymbolOperand(a), SymbolOperand(b))
    made = unstructured(("select",), bounds.low(k, x, y), bounds.high(k, x, y), condition, a, b)
    made = _applied("select", made, (a, b, a, b), dtype)
    if compared is not None:
        made = _applied(f"select {compared[0]}", made, (*compared[1:], a, b), dtype)
    return chosen(known(condition), chosen(condition["low"] == 1, a, b), made)


def called(name: str, arguments: list[Symbols], dtypes: list[str], dtype: str) -> Symbols:
    """A scalar function of integers."""
    functions = small_functions()
    if functions is None:
        return _called(name, arguments, dtypes, dtype)
    return functions.applied(lambda *given: _called(name, given, dtypes, dtype), arguments, dtypes)


def _called(name: str, arguments: Sequence[Symbols], dtypes: Sequence[str], dtype: str) -> Symbols:
    arguments = [settled(a, source) for a, source in zip(arguments, dtypes, strict=True)]
    made = unstructured((name, dtype), *type_bounds(dtype), *arguments)
    every = reduce(np.logical_and, (known(a) for a in arguments))
    if not every.any():
        return made
    stored = [a["low"].astype(storage_dtype(source)) for a, source in zip(arguments, dtypes, strict=True)]
    return chosen(every, numbers(wrap(np.asarray(SCALAR_FUNCTIONS[name].model(*stored)), dtype)), made)


def summed(terms: Symbols, axis: tuple[int, ...], dtype: str) -> Symbols:
    """The sum of terms along axes, which are kept with length 1."""
    terms = elements_of(terms)
    norm = np.sum(terms["norm"], axis=axis, keepdims=True)
    if (norm >= LARGE).any():
        terms, norm = _shortened(terms, 1, dtype), np.float32(np.prod([terms.shape[d] for d in axis]))
    low, high = (np.sum(_exact(terms[part]), axis=axis, keepdims=True) for part in ("low", "high"))
    polynomial = (terms["form"] == SymbolForm.POLYNOMIAL).any(axis=axis, keepdims=True)
    return fitted(field.total(np.ascontiguousarray(terms["value"]), axis), low, high, polynomial, norm, dtype)


def combined_along(op: str, terms: Symbols, axis: tuple[int, ...], dtype: str) -> Symbols:
    """Terms combined along axes, which are kept with length 1."""
    if op == "add":
        return summed(terms, axis, dtype)
    kept = tuple(1 if d in axis else n for d, n in enumerate(terms.shape))
    flat = np.moveaxis(terms, axis, range(len(axis)))
    flat = flat.reshape(-1, *flat.shape[len(axis) :])
    result: Symbols = reduce(lambda a, b: binary(op, a, b, dtype), flat)
    return result.reshape(kept)
