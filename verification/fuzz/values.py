# SPDX-License-Identifier: Apache-2.0
"""Random elements: expressions over what is computed so far, that mean something at every point.

Values have one of three grades. EXACT: whole numbers small enough that no order of additions shows
in them (in floats; integers wrap anyway). FRACTION: exact too, but where sums would round. ROUGH:
from functions such as exp, whose last places an implementation may choose; nothing that jumps, such
as a comparison, ever depends on them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from vdla.compiler import te
from vdla.compiler.ir import DTYPES, INTEGER_BITS, SMALL_FLOATS, is_float, is_integer

INTEGERS = tuple(dtype for dtype in DTYPES if is_integer(dtype))
FLOATS = tuple(dtype for dtype in DTYPES if is_float(dtype))
WIDE_FLOATS = tuple(dtype for dtype in FLOATS if dtype not in SMALL_FLOATS)
_ROUGH_FUNCTIONS = ("exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "rsqrt")
_WHOLE_FUNCTIONS = ("floor", "ceil", "round", "trunc", "abs")
LARGEST = 2  # the magnitude of a term of a float sum: 64 of them are a whole number of bfloat16


class Grade(IntEnum):
    """How two correct results may differ: not at all, by order of additions, or by rounding."""

    EXACT = 0
    FRACTION = 1
    ROUGH = 2


@dataclass(frozen=True, eq=False)
class FuzzIndex:
    """An index variable of a result or a reduction, below `extent`, which may be symbolic."""

    value: te.Value
    extent: te.Dim


@dataclass
class Values:
    """Draws elements that read `tensors`, each of a grade."""

    rng: random.Random
    tensors: list[tuple[te.Tensor, Grade]] = field(default_factory=list)

    def element(self, at: Sequence[FuzzIndex], dtype: str, grade: Grade, depth: int) -> te.Value:
        """A value of `dtype` at a point, no rougher than `grade`."""
        if depth == 0 or self.rng.random() < 0.15:
            return self.leaf(at, dtype, grade)
        if dtype == "bool":
            return self.condition(at, min(grade, Grade.FRACTION), depth - 1)
        kind = self.rng.random()
        if kind < 0.12:
            condition = self.condition(at, min(grade, Grade.FRACTION), depth - 1)
            return te.select(condition, *(self.element(at, dtype, grade, depth - 1) for _ in range(2)))
        if kind < 0.22:
            return self.converted(at, dtype, grade, depth - 1)
        if is_float(dtype):
            return self.float_operation(at, dtype, grade, depth - 1)
        return self.integer_operation(at, dtype, grade, depth - 1)

    # --- leaves -----------------------------------------------------------------------------------

    def leaf(self, at: Sequence[FuzzIndex], dtype: str, grade: Grade) -> te.Value:
        """An element of a tensor, an index, or a number."""
        kind = self.rng.random()
        if kind < 0.8:
            return te.cast(dtype, self.load(at, grade if is_float(dtype) else min(grade, Grade.FRACTION)))
        if kind < 0.9 and at:
            return te.cast(dtype, self.rng.choice(at).value)
        return self.number(dtype)

    def number(self, dtype: str) -> te.Value:
        """A small constant."""
        if dtype == "bool":
            return te.const(self.rng.random() < 0.5, dtype)
        low = 0 if dtype.startswith("u") else -2
        return te.const(self.rng.randint(low, 1), dtype)

    def load(self, at: Sequence[FuzzIndex], grade: Grade) -> te.Value:
        """An element of a tensor, mostly at its own position, sometimes at another or padded."""
        tensor = self.rng.choice([tensor for tensor, tensor_grade in self.tensors if tensor_grade <= grade])
        if self.rng.random() < 0.15:
            return self.padded(tensor, at)
        indices = [self.index(at, d, extent) for d, extent in enumerate(tensor.shape)]
        return tensor[tuple(indices)]

    def padded(self, tensor: te.Tensor, at: Sequence[FuzzIndex]) -> te.Value:
        """An element at a shifted position, or a constant where that is out of bounds."""
        moved = [te.const(0, "int32") + self.rng.choice(at).value + self.rng.randint(-2, 1) for _ in tensor.shape]
        inside = [(i >= 0) & (i < extent) for i, extent in zip(moved, tensor.shape, strict=True)]
        return te.select(te.all_of(*inside), tensor[tuple(moved)], self.number(tensor.dtype))

    def index(self, at: Sequence[FuzzIndex], d: int, extent: te.Dim) -> te.Value:
        """An index below `extent`."""
        place = at[d] if d < len(at) and self.rng.random() < 0.7 else self.rng.choice(at)
        kind = self.rng.random()
        if kind < 0.06:
            return te.const(self.rng.randrange(extent) if isinstance(extent, int) else 0, "int32")
        if kind < 0.12:
            return self.gathered(at, extent)
        if kind < 0.18:
            return self.sum_of_two(at, place, extent)
        if _same_extent(place.extent, extent):
            return place.value if self.rng.random() < 0.8 else _as_int32(extent) - 1 - place.value
        if isinstance(place.extent, int) and isinstance(extent, int) and place.extent < extent:
            return self.below(place.value, place.extent, extent)
        return self.rng.choice((place.value % extent, te.minimum(place.value, extent - 1)))

    def below(self, value: te.Value, size: int, extent: int) -> te.Value:
        """An index into a dimension longer than the position's extent `size`."""
        choices = [value] * 3 + [value >> 1]
        choices.append(value + self.rng.randint(0, extent - size))
        choices.append(te.const(extent - 1, "int32") - value)
        if 2 * size - 1 <= extent:
            choices.append(value * 2)
        return self.rng.choice(choices)

    def sum_of_two(self, at: Sequence[FuzzIndex], place: FuzzIndex, extent: te.Dim) -> te.Value:
        """The window index y * stride + k, modulo the extent where it could leave it."""
        other, stride = self.rng.choice(at), self.rng.randint(1, 2)
        total = place.value * stride + other.value
        numbers = all(isinstance(n, int) for n in (place.extent, other.extent, extent))
        if numbers and (place.extent - 1) * stride + other.extent - 1 < extent:
            return total
        wrapped: te.Value = total % extent
        return wrapped

    def gathered(self, at: Sequence[FuzzIndex], extent: te.Dim) -> te.Value:
        """An index that depends on data."""
        return te.cast("int32", te.cast("int64", self.load(at, Grade.EXACT)) % te.cast("int64", _as_int32(extent)))

    # --- operations -------------------------------------------------------------------------------

    def condition(self, at: Sequence[FuzzIndex], grade: Grade, depth: int) -> te.Value:
        """A comparison, or bools combined."""
        if depth > 0 and self.rng.random() < 0.3:
            a, b = (self.condition(at, grade, depth - 1) for _ in range(2))
            return self.rng.choice((lambda: a & b, lambda: a | b, lambda: a == b, lambda: a != b))()
        dtype = self.rng.choice((*INTEGERS, *FLOATS))
        a, b = (self.element(at, dtype, grade, depth) for _ in range(2))
        compare = self.rng.choice((te.Value.__lt__, te.Value.__le__, te.Value.__eq__, te.Value.__ne__, te.Value.__ge__))
        return compare(a, b)

    def converted(self, at: Sequence[FuzzIndex], dtype: str, grade: Grade, depth: int) -> te.Value:
        """A value of another dtype, converted."""
        if is_float(dtype) and grade is Grade.ROUGH:
            return te.cast(dtype, self.element(at, self.rng.choice(WIDE_FLOATS), grade, depth))
        return te.cast(dtype, self.element(at, self.rng.choice(DTYPES), min(grade, Grade.FRACTION), depth))

    def integer_operation(self, at: Sequence[FuzzIndex], dtype: str, grade: Grade, depth: int) -> te.Value:
        """Any integer operator, with any operands."""
        a, b = (self.element(at, dtype, min(grade, Grade.FRACTION), depth) for _ in range(2))
        if self.rng.random() < 0.08:
            return te.abs(a) if INTEGER_BITS[dtype] < 8 or self.rng.random() < 0.5 else te.popcount(a)
        op = self.rng.choice(("add", "sub", "mul", "min", "max", "floordiv", "mod", "shl", "shr", "and", "or", "xor"))
        return te.binary(op, a, b)

    def float_operation(self, at: Sequence[FuzzIndex], dtype: str, grade: Grade, depth: int) -> te.Value:
        """A float operator; quotients and functions only if the grade allows them."""
        if grade is Grade.ROUGH and self.rng.random() < 0.5:
            return self.function(te.clip(self.element(at, dtype, grade, depth), -4, 4))
        a, b = (self.element(at, dtype, grade, depth) for _ in range(2))
        if grade is Grade.ROUGH and self.rng.random() < 0.25:
            return te.clip(a, -8, 8) / 4
        if grade is not Grade.ROUGH and self.rng.random() < 0.1:
            return te.call(self.rng.choice(_WHOLE_FUNCTIONS), a)
        if grade is Grade.FRACTION and self.rng.random() < 0.25:
            return self.rng.choice((a / (b * b + 1), te.sqrt(te.abs(a))))
        return te.binary(self.rng.choice(("add", "sub", "mul", "min", "max")), a, b)

    def function(self, value: te.Value) -> te.Value:
        """A function of a bounded value, away from its discontinuities and poles."""
        name = self.rng.choice((*_ROUGH_FUNCTIONS, "pow"))
        positive = value * value + 1
        if name == "pow":
            return te.pow(positive, te.clip(value, -1, 2))
        return te.call(name, positive if name in ("log", "rsqrt") else value)


def _same_extent(a: te.Dim, b: te.Dim) -> bool:
    """Whether two extents are equal for all values of the symbols."""
    return te.extent_of(a) == te.extent_of(b)


def _as_int32(extent: te.Dim) -> te.Value:
    """An extent as an element."""
    return te.const(extent, "int32") if isinstance(extent, int) else extent
