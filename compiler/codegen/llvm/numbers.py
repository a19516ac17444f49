# SPDX-License-Identifier: Apache-2.0
"""`Number`: an LLVM value with Python's operators, each of which emits one instruction.

The type decides between instructions of floats and of signed integers. Operands that are Python
numbers become constants of that type, in every lane of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir as llvm

from vdla.compiler.codegen.llvm.types import (
    I32,
    Type,
    Value,
    call_intrinsic,
    constant,
    element_type,
    lane_count,
    poison,
    type_like,
    type_suffix,
)


def _instruction(of_integers: str, of_floats: str = "") -> Callable[[Number, Operand], Number]:
    """The method of an operator that is one instruction, by the type of the operands."""
    return lambda value, other: value.emit(of_floats if of_floats and value.is_float else of_integers, other)


def _comparison(symbol: str) -> Callable[[Number, Operand], Number]:
    """The method of a comparison: ordered of floats, signed of integers."""
    return lambda value, other: value.compare("fcmp_ordered" if value.is_float else "icmp_signed", symbol, other)


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A scalar or a vector; its operators emit instructions at `builder`."""

    builder: Value
    value: Value

    @property
    def kind(self) -> Type:
        """The LLVM type."""
        return self.value.type

    @property
    def is_float(self) -> bool:
        """Whether elements are floats."""
        return not isinstance(element_type(self.kind), llvm.IntType)

    def like(self, number: float) -> Number:
        """A constant of the same type."""
        return Number(self.builder, constant(self.kind, number))

    def emit(self, instruction: str, *others: Operand) -> Number:
        """The result of an instruction of this and other operands."""
        values = (other.value if isinstance(other, Number) else constant(self.kind, other) for other in others)
        return Number(self.builder, getattr(self.builder, instruction)(self.value, *values))

    def convert(self, instruction: str, kind: Type) -> Number:
        """A conversion to elements of `kind`."""
        return Number(self.builder, getattr(self.builder, instruction)(self.value, type_like(self.value, kind)))

    def call(self, function: str, *others: Operand, flags: Sequence[str] = ()) -> Number:
        """An LLVM intrinsic of operands and a result of this type; `function` omits `llvm.`, and
        `flags` are those of float arithmetic.
        """
        values = (other.value if isinstance(other, Number) else constant(self.kind, other) for other in others)
        name = f"llvm.{function}.{type_suffix(self.kind)}"
        return Number(self.builder, call_intrinsic(self.builder, name, self.kind, self.value, *values, flags=flags))

    def saturate(self, instruction: str, kind: Type) -> Number:
        """A float as an integer by `fptosi` or `fptoui`, which saturates; NaN is 0."""
        result = type_like(self.value, kind)
        name = f"llvm.{instruction}.sat.{type_suffix(result)}.{type_suffix(self.kind)}"
        return Number(self.builder, call_intrinsic(self.builder, name, result, self.value))

    def any_lane(self) -> Number:
        """Whether any lane of a condition holds."""
        if lane_count(self.value) is None:
            return self
        name = f"llvm.vector.reduce.or.{type_suffix(self.kind)}"
        return Number(self.builder, call_intrinsic(self.builder, name, element_type(self.kind), self.value))

    # --- arithmetic

    __add__ = _instruction("add", "fadd")
    __sub__ = _instruction("sub", "fsub")
    __mul__ = _instruction("mul", "fmul")
    __truediv__ = _instruction("sdiv", "fdiv")
    __and__ = _instruction("and_")
    __or__ = _instruction("or_")
    __xor__ = _instruction("xor")
    __lshift__ = _instruction("shl")
    __rshift__ = _instruction("ashr")

    def __rsub__(self, other: float) -> Number:
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> Number:
        return self.like(other) / self

    def __neg__(self) -> Number:
        return self.emit("fneg" if self.is_float else "neg")

    def __abs__(self) -> Number:
        return self.call("fabs")

    def __invert__(self) -> Number:
        return self.emit("not_")

    # --- comparisons

    def compare(self, form: str, symbol: str, other: Operand) -> Number:
        """A comparison by the builder's method `form`, such as `icmp_unsigned`."""
        right = other if isinstance(other, Number) else self.like(other)
        return Number(self.builder, getattr(self.builder, form)(symbol, self.value, right.value))

    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    equals = _comparison("==")  # which NaN is to nothing
    differs = _comparison("!=")  # of integers

    def is_nan(self) -> Number:
        """Whether it is NaN."""
        return self.compare("fcmp_unordered", "uno", self)


Operand = Number | float


def where(condition: Number, a: Operand, b: Operand) -> Number:
    """`a` where the condition holds, else `b`; at least one of them is a `Number`."""
    if isinstance(a, Number):
        return condition.emit("select", a, b if isinstance(b, Number) else a.like(b))
    assert isinstance(b, Number)
    return condition.emit("select", b.like(a), b)


def lane_by_lane(function: Callable[..., Number], *operands: Number) -> Number:
    """A function of scalars, applied to each lane of vectors."""
    first, count = operands[0], lane_count(operands[0].value)
    if count is None:
        return function(*operands)
    builder, result = first.builder, poison(first.kind)
    for lane in map(I32, range(count)):
        element = function(*(Number(builder, builder.extract_element(operand.value, lane)) for operand in operands))
        result = builder.insert_element(result, element.value, lane)
    return Number(builder, result)


def choose(condition: Number, rare: Callable[[], list[Number]], usual: Callable[[], list[Number]]) -> list[Number]:
    """The values of `rare` if the condition holds, else of `usual`; only these are computed."""
    builder = condition.builder
    with builder.if_else(condition.value, likely=False) as (then, otherwise):
        with then:
            a, a_end = rare(), builder.block
        with otherwise:
            b, b_end = usual(), builder.block
    phis = [builder.phi(number.kind) for number in a]
    for phi, *sides in zip(phis, a, b, strict=True):
        for side, end in zip(sides, (a_end, b_end), strict=True):
            phi.add_incoming(side.value, end)
    return [Number(builder, phi) for phi in phis]
