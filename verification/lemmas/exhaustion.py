# SPDX-License-Identifier: Apache-2.0
"""Lemmas decided by trying all operands and all bounds of types of few bits, on NumPy arrays.

The meaning of operations is that of the interpreter's tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates.lemmas import Law, Lemma, ResultBounds, Rewrite, TypeLaw
from vdla.compiler.ir import COMPARE_OPS, OPERATORS
from vdla.verification.lemmas.statements import BoundedValue, IntegerType, claims, operand_count

_Ints = npt.NDArray[np.int64]
SMALL = (IntegerType(4, True), IntegerType(4, False))
"""The types whose values and bounds are tried."""


class IntegerAlgebra:
    """The operations of lemmas on arrays of integers of a type."""

    def __init__(self, dtype: IntegerType) -> None:
        self.type, self.width, self.signed, self.zero = dtype, dtype.width, dtype.signed, 0
        self.first = -(1 << (dtype.width - 1)) if dtype.signed else 0
        self.last = self.first + (1 << dtype.width) - 1
        self.false, self.true = np.False_, np.True_

    def wrapped(self, x: Any) -> Any:  # noqa: ANN401  an array
        """Integers modulo the range of the type."""
        return (x - self.first) % (1 << self.width) + self.first

    def op(self, op: str, x: Any, y: Any) -> Any:  # noqa: ANN401  arrays
        """An operation of expressions."""
        x, y = np.asarray(_value(x)), np.asarray(_value(y))
        if op in ("shl", "shr"):
            inside = (y >= 0) & (y < self.width)
            shifted = OPERATORS[op].on_arrays(x, np.where(inside, y, 0))
            return self.wrapped(np.where(inside, shifted, np.where((op == "shr") & (x < 0), -1, 0)))
        with np.errstate(divide="ignore"):
            result = OPERATORS[op].on_arrays(x, y)
        return result if op in COMPARE_OPS else self.wrapped(result)

    def number(self, value: int) -> Any:  # noqa: ANN401  an array
        """A number of the type."""
        return self.wrapped(np.int64(value))

    def inverted(self, x: Any) -> Any:  # noqa: ANN401  an array
        """Not a truth."""
        return ~x

    def select(self, condition: Any, a: Any, b: Any) -> Any:  # noqa: ANN401  arrays
        """One of two values."""
        return np.where(condition, _value(a), _value(b))

    def same(self, x: Any, y: Any) -> Any:  # noqa: ANN401  arrays
        """Whether values are equal."""
        return _value(x) == _value(y)

    def power(self, y: BoundedValue) -> Any:  # noqa: ANN401  an array
        """Two to the power of numbers."""
        return self.wrapped(np.int64(1) << np.clip(y.low, 0, 62))

    def exponent(self, y: BoundedValue) -> Any:  # noqa: ANN401  an array
        """The exponents of powers of two."""
        return np.frexp(np.maximum(y.low, 1).astype(np.float64))[1] - np.int64(1)

    def most(self, which: str, values: list[Any]) -> Any:  # noqa: ANN401  an array
        """The least or the greatest of bounds."""
        return reduce(np.minimum if which == "min" else np.maximum, values)

    def times(self, x: Any, y: Any) -> Any:  # noqa: ANN401  arrays
        """A product of bounds."""
        return x * y

    def shifted(self, x: Any, y: Any) -> Any:  # noqa: ANN401  arrays
        """A bound shifted right."""
        return x >> np.clip(y, 0, 63)

    def both(self, conditions: Sequence[Any]) -> Any:  # noqa: ANN401  an array
        """All conditions."""
        return reduce(np.logical_and, conditions, np.True_)

    def equal(self, a: Any, b: Any) -> Any:  # noqa: ANN401  an array
        """Whether results are equal."""
        return _value(a) == _value(b)

    def within(self, low: Any, value: Any, high: Any) -> Any:  # noqa: ANN401  an array
        """Whether a value is within bounds."""
        return (low <= _value(value)) & (_value(value) <= high)

    def exact(self, op: str, x: BoundedValue, y: BoundedValue) -> Any:  # noqa: ANN401  an array
        """An operation that does not wrap."""
        return OPERATORS[op].on_arrays(x.value, y.value)


def _value(x: Any) -> Any:  # noqa: ANN401  an array
    return x.value if isinstance(x, BoundedValue) else x


def holds_exhaustively(lemma: Lemma) -> bool:
    """Whether a lemma holds for all operands and bounds of types of 4 bits."""
    if isinstance(lemma, TypeLaw):
        return all(_converts(lemma, narrow, wide) for narrow, wide in _conversions())
    return all(_holds(lemma, dtype) for dtype in SMALL)


def _holds(lemma: Rewrite | ResultBounds | Law, dtype: IntegerType) -> bool:
    k = IntegerAlgebra(dtype)
    return all(
        np.all(~np.asarray(claim.needs) | claim.conclusion)
        for operands in _operands(operand_count(lemma), k)
        for claim in claims(lemma, k, operands)
    )


def _operands(count: int, k: IntegerAlgebra) -> Iterator[list[BoundedValue]]:
    """All operands with all bounds; more than two operands with those that are their values."""
    values = range(k.first, k.last + 1)
    if count == 2:
        triples = np.array([(low, x, high) for low, x, high in product(values, repeat=3) if low <= x <= high])
        for low, x, high in triples:
            yield [BoundedValue(x, low, high), BoundedValue(triples[:, 1], triples[:, 0], triples[:, 2])]
        return
    grid = np.meshgrid(*[np.arange(k.first, k.last + 1)] * count, indexing="ij")
    yield [BoundedValue(x.reshape(-1), x.reshape(-1), x.reshape(-1)) for x in grid]


def _conversions() -> list[tuple[IntegerType, IntegerType]]:
    return [
        (IntegerType(4, one), IntegerType(8, other)) for one, other in ((True, True), (False, False), (False, True))
    ]


def _converts(lemma: TypeLaw, narrow: IntegerType, wide: IntegerType) -> bool:
    """Whether operations of two types agree up to the conversion, for all values."""
    small, large = IntegerAlgebra(narrow), IntegerAlgebra(wide)
    source = small if lemma.widens else large
    x, y = np.meshgrid(*[np.arange(source.first, source.last + 1)] * 2)
    for op in sorted(lemma.ops):
        if lemma.widens:
            agree = small.op(op, x, y) == large.op(op, x, y)
        else:
            agree = small.wrapped(large.op(op, x, y)) == small.op(op, small.wrapped(x), small.wrapped(y))
        if not np.all(agree):
            return False
    return True
