"""The operators on elements in registers, each with the exact meaning of the interpreter; scalars and vectors alike.

Both sides have one type. Integer arithmetic wraps; nothing here has undefined behaviour, whatever the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.codegen.llvm.floats import narrow, widen
from vdla.compiler.codegen.llvm.types import (
    BITS,
    FLOAT,
    Value,
    element,
    intrinsic,
    is_signed,
    same,
    suffix,
    value_type,
)
from vdla.compiler.ir import SMALL_FLOATS, is_float
from vdla.compiler.target import Target


@dataclass(frozen=True, slots=True)
class Operators:
    """Operators written by `builder` for `target`; with `contract`, a product may merge with the sum that takes it."""

    builder: Value
    target: Target
    contract: bool

    @property
    def flags(self) -> tuple[str, ...]:
        """The fast-math flags of every floating-point operation."""
        return ("contract",) if self.contract else ()

    def binary(self, op: str, dtype: str, a: Value, b: Value) -> Value:
        """`a op b` of elements of `dtype`; an i1 for comparisons."""
        if dtype in SMALL_FLOATS:
            return self._narrow(op, dtype, a, b)
        if is_float(dtype):
            return EMITTERS[op].of_floats(self, dtype, a, b)
        return EMITTERS[op].of_integers(self, dtype, a, b)

    def wrapped(self, dtype: str, value: Value) -> Value:
        """An integer brought into the range of int2 or int4, modulo; others wrap by themselves."""
        bits = BITS[dtype]
        if not 1 < bits < 8:
            return value
        spare = same(value, 8 - bits)
        return self.builder.ashr(self.builder.shl(value, spare), spare)

    # --- floats

    def _narrow(self, op: str, dtype: str, a: Value, b: Value) -> Value:
        wide = (widen(self.builder, side, dtype) for side in (a, b))
        result = EMITTERS[op].of_floats(Operators(self.builder, self.target, False), "float32", *wide)
        if op in ir.COMPARE_OPS:
            return result
        return narrow(self.builder, result, dtype, value_type(dtype, self.target))

    def _float_extreme(self, op: str, a: Value, b: Value) -> Value:
        """NaN if either side is NaN. x86 has instructions that give the second side then, so a constant goes first."""
        if self.target.architecture == "aarch64" or (self.target.has("neon") and element(a.type) == FLOAT):
            return intrinsic(self.builder, f"llvm.{op}imum.{suffix(a.type)}", a.type, [a, b])
        if isinstance(b, llvm.Constant):
            a, b = b, a
        chosen = self.builder.select(self.builder.fcmp_ordered("<" if op == "min" else ">", a, b), a, b)
        if isinstance(a, llvm.Constant):
            return chosen
        return self.builder.select(self.builder.fcmp_unordered("uno", a, a), a, chosen)

    # --- integers

    def _division(self, op: str, dtype: str, a: Value, b: Value) -> Value:
        return self._signed_division(op, a, b) if is_signed(dtype) else self._unsigned_division(op, a, b)

    def _unsigned_division(self, op: str, a: Value, b: Value) -> Value:
        zero = self.builder.icmp_unsigned("==", b, same(b, 0))
        divisor = self.builder.select(zero, same(b, 1), b)
        divide = self.builder.udiv if op == "floordiv" else self.builder.urem
        return self.builder.select(zero, same(b, 0), divide(a, divisor))

    def _signed_division(self, op: str, a: Value, b: Value) -> Value:
        """Rounded to minus infinity; a divisor of 0 or -1, whose quotient the CPU might refuse, divides as 1."""
        builder = self.builder
        zero = builder.icmp_signed("==", b, same(b, 0))
        minus = builder.icmp_signed("==", b, same(b, -1))
        divisor = builder.select(builder.or_(zero, minus), same(b, 1), b)
        quotient = builder.sdiv(a, divisor)
        rest = builder.sub(a, builder.mul(quotient, divisor))
        other_sign = builder.icmp_signed("<", builder.xor(rest, divisor), same(b, 0))
        inexact = builder.and_(builder.icmp_signed("!=", rest, same(b, 0)), other_sign)
        if op == "mod":
            result = builder.select(inexact, builder.add(rest, divisor), rest)
        else:
            floor = builder.sub(quotient, builder.zext(inexact, b.type))
            result = builder.select(minus, builder.sub(same(a, 0), a), floor)
        return builder.select(zero, same(b, 0), result)

    def _shift(self, op: str, dtype: str, a: Value, b: Value) -> Value:
        """An amount that is negative or not less than the width shifts everything out."""
        builder, width = self.builder, max(8, BITS[dtype])
        far = builder.icmp_unsigned(">=", b, same(b, width))
        if op == "shr" and is_signed(dtype):
            return builder.ashr(a, builder.select(far, same(b, width - 1), b))
        amount = builder.select(far, same(b, 0), b)
        shifted = builder.shl(a, amount) if op == "shl" else builder.lshr(a, amount)
        return builder.select(far, same(a, 0), shifted)

    def divided(self, op: str, a: Value, divisor: int, positive: bool) -> Value:
        """An integer divided by a number above 0 (`floordiv` or `mod`), rounded to minus infinity."""
        builder, power = self.builder, divisor & (divisor - 1) == 0
        if power and op == "mod":
            return builder.and_(a, same(a, divisor - 1))
        if power:
            return builder.ashr(a, same(a, divisor.bit_length() - 1))
        number = same(a, divisor)
        if positive:
            return builder.udiv(a, number) if op == "floordiv" else builder.urem(a, number)
        return self._signed_division(op, a, number)


# --- one emitter for each operator of the IR

Emit = Callable[[Operators, str, Value, Value], Value]


@dataclass(frozen=True, slots=True)
class Emitter:
    """How an operator is emitted: for bools and integers, and for float32 and float64 (refused by `te` if omitted)."""

    of_integers: Emit
    of_floats: Emit


def _no_floats(operators: Operators, dtype: str, a: Value, b: Value) -> Value:
    raise AssertionError(f"no such operator on {dtype}")


def _wrapping(integer: str, floating: str) -> Emitter:
    """The builder's methods; integers wrap, floats take the fast-math flags."""
    return Emitter(
        lambda operators, dtype, a, b: operators.wrapped(dtype, getattr(operators.builder, integer)(a, b)),
        lambda operators, _, a, b: getattr(operators.builder, floating)(a, b, flags=operators.flags),
    )


def _bitwise(method: str) -> Emitter:
    return Emitter(lambda operators, _, a, b: getattr(operators.builder, method)(a, b), _no_floats)


def _division(op: str) -> Emitter:
    return Emitter(
        lambda operators, dtype, a, b: operators.wrapped(dtype, operators._division(op, dtype, a, b)), _no_floats
    )


def _shift(op: str) -> Emitter:
    return Emitter(
        lambda operators, dtype, a, b: operators.wrapped(dtype, operators._shift(op, dtype, a, b)), _no_floats
    )


def _comparison(op: str) -> Emitter:
    """Of floats, NaN differs from everything and compares as false otherwise."""
    symbol = ir.OPERATORS[op].symbol

    def of_integers(operators: Operators, dtype: str, a: Value, b: Value) -> Value:
        compare = operators.builder.icmp_signed if is_signed(dtype) else operators.builder.icmp_unsigned
        return compare(symbol, a, b)

    def of_floats(operators: Operators, dtype: str, a: Value, b: Value) -> Value:
        compare = operators.builder.fcmp_unordered if op == "ne" else operators.builder.fcmp_ordered
        return compare(symbol, a, b)

    return Emitter(of_integers, of_floats)


def _extreme(op: str, better: str) -> Emitter:
    compare = _comparison(better).of_integers
    return Emitter(
        lambda operators, dtype, a, b: operators.builder.select(compare(operators, dtype, a, b), a, b),
        lambda operators, _, a, b: operators._float_extreme(op, a, b),
    )


EMITTERS: dict[str, Emitter] = {
    "add": _wrapping("add", "fadd"),
    "sub": _wrapping("sub", "fsub"),
    "mul": _wrapping("mul", "fmul"),
    "floordiv": _division("floordiv"),
    "mod": _division("mod"),
    "min": _extreme("min", "lt"),
    "max": _extreme("max", "gt"),
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "and": _bitwise("and_"),
    "or": _bitwise("or_"),
    "xor": _bitwise("xor"),
    **{op: _comparison(op) for op in ir.COMPARE_OPS},
}
