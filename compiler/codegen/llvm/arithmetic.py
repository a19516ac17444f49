"""The operators of `ir/operators.py` as LLVM instructions, bit for bit as the interpreter.

Both operands have one type, scalar or vector. Integers wrap; no operand causes undefined behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.codegen.llvm.small_floats import from_float32, to_float32
from vdla.compiler.codegen.llvm.types import (
    BITS,
    FLOAT,
    Value,
    call_intrinsic,
    element_type,
    is_gpu,
    is_signed,
    splat,
    type_suffix,
    value_type,
)
from vdla.compiler.ir import SMALL_FLOATS, is_float
from vdla.compiler.target import Target


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Emits operators at `builder` for `target`; `contract` lets LLVM fuse a product with a sum."""

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
            return self._small_float(op, dtype, a, b)
        if is_float(dtype):
            return EMITTERS[op].of_floats(self, a, b)
        return EMITTERS[op].of_integers(self, dtype, a, b)

    def _small_float(self, op: str, dtype: str, a: Value, b: Value) -> Value:
        """In float32 and rounded; never fused, as each operation rounds."""
        exact = Arithmetic(self.builder, self.target, contract=False)
        result = EMITTERS[op].of_floats(exact, *(to_float32(self.builder, side, dtype) for side in (a, b)))
        if op in ir.COMPARE_OPS:
            return result
        return from_float32(self.builder, result, dtype, value_type(dtype, self.target))

    def wrap(self, dtype: str, value: Value) -> Value:
        """An i8 wrapped to the range of int2 or int4; other types wrap by their width."""
        bits = BITS[dtype]
        if not 1 < bits < 8:
            return value
        spare = splat(value, 8 - bits)
        return self.builder.ashr(self.builder.shl(value, spare), spare)

    def divide_by_constant(self, op: str, a: Value, divisor: int, non_negative: bool) -> Value:
        """`a op divisor` for floordiv or mod and divisor > 0; `non_negative` if a >= 0 is known."""
        builder, is_power = self.builder, divisor & (divisor - 1) == 0
        if is_power and op == "mod":
            return builder.and_(a, splat(a, divisor - 1))
        if is_power:
            return builder.ashr(a, splat(a, divisor.bit_length() - 1))
        number = splat(a, divisor)
        if non_negative:
            return builder.udiv(a, number) if op == "floordiv" else builder.urem(a, number)
        return _signed_division(builder, op, a, number)


# --- one emitter per operator of the IR -----------------------------------------------------------

EmitInteger = Callable[[Arithmetic, str, Value, Value], Value]  # (arithmetic, dtype, a, b)
EmitFloat = Callable[[Arithmetic, Value, Value], Value]  # (arithmetic, a, b)


def _no_floats(arithmetic: Arithmetic, a: Value, b: Value) -> Value:
    raise AssertionError("`te` refuses this operator on floats")


@dataclass(frozen=True, slots=True)
class OperatorEmitter:
    """How to emit an operator on bools and integers, and on float32 and float64."""

    of_integers: EmitInteger
    of_floats: EmitFloat = _no_floats


def _wrapping(method: str) -> OperatorEmitter:
    def of_integers(arithmetic: Arithmetic, dtype: str, a: Value, b: Value) -> Value:
        return arithmetic.wrap(dtype, getattr(arithmetic.builder, method)(a, b))

    def of_floats(arithmetic: Arithmetic, a: Value, b: Value) -> Value:
        return getattr(arithmetic.builder, f"f{method}")(a, b, flags=arithmetic.flags)

    return OperatorEmitter(of_integers, of_floats)


def _bitwise(method: str) -> OperatorEmitter:
    return OperatorEmitter(lambda arithmetic, dtype, a, b: getattr(arithmetic.builder, method)(a, b))


def _comparison(op: str) -> OperatorEmitter:
    """Comparisons with NaN are false, but `ne` is true."""
    symbol = ir.OPERATORS[op].symbol

    def of_integers(arithmetic: Arithmetic, dtype: str, a: Value, b: Value) -> Value:
        compare = arithmetic.builder.icmp_signed if is_signed(dtype) else arithmetic.builder.icmp_unsigned
        return compare(symbol, a, b)

    def of_floats(arithmetic: Arithmetic, a: Value, b: Value) -> Value:
        compare = arithmetic.builder.fcmp_unordered if op == "ne" else arithmetic.builder.fcmp_ordered
        return compare(symbol, a, b)

    return OperatorEmitter(of_integers, of_floats)


def _extremum(op: str, comparison: str) -> OperatorEmitter:
    """Of floats, NaN if an operand is NaN; x86 returns the second one, so a constant goes first."""
    compare = _comparison(comparison)

    def of_integers(arithmetic: Arithmetic, dtype: str, a: Value, b: Value) -> Value:
        return arithmetic.builder.select(compare.of_integers(arithmetic, dtype, a, b), a, b)

    def of_floats(arithmetic: Arithmetic, a: Value, b: Value) -> Value:
        builder, target = arithmetic.builder, arithmetic.target
        narrow = element_type(a.type) == FLOAT and (target.has("neon") or is_gpu(target))
        if target.architecture == "aarch64" or narrow:
            return call_intrinsic(builder, f"llvm.{op}imum.{type_suffix(a.type)}", a.type, a, b)
        if isinstance(b, llvm.Constant):
            a, b = b, a
        extremum = builder.select(compare.of_floats(arithmetic, a, b), a, b)
        if isinstance(a, llvm.Constant):
            return extremum
        return builder.select(builder.fcmp_unordered("uno", a, a), a, extremum)

    return OperatorEmitter(of_integers, of_floats)


def _division(op: str) -> OperatorEmitter:
    def of_integers(arithmetic: Arithmetic, dtype: str, a: Value, b: Value) -> Value:
        divide = _signed_division if is_signed(dtype) else _unsigned_division
        return arithmetic.wrap(dtype, divide(arithmetic.builder, op, a, b))

    return OperatorEmitter(of_integers)


def _unsigned_division(builder: Value, op: str, a: Value, b: Value) -> Value:
    is_zero = builder.icmp_unsigned("==", b, splat(b, 0))
    divisor = builder.select(is_zero, splat(b, 1), b)
    divide = builder.udiv if op == "floordiv" else builder.urem
    return builder.select(is_zero, splat(b, 0), divide(a, divisor))


def _signed_division(builder: Value, op: str, a: Value, b: Value) -> Value:
    """Rounds to minus infinity. Divisors 0 and -1, which can trap, are replaced by 1."""
    is_zero = builder.icmp_signed("==", b, splat(b, 0))
    is_minus_one = builder.icmp_signed("==", b, splat(b, -1))
    divisor = builder.select(builder.or_(is_zero, is_minus_one), splat(b, 1), b)
    quotient = builder.sdiv(a, divisor)
    remainder = builder.sub(a, builder.mul(quotient, divisor))
    signs_differ = builder.icmp_signed("<", builder.xor(remainder, divisor), splat(b, 0))
    round_down = builder.and_(builder.icmp_signed("!=", remainder, splat(b, 0)), signs_differ)
    if op == "mod":
        result = builder.select(round_down, builder.add(remainder, divisor), remainder)
    else:
        floor = builder.sub(quotient, builder.zext(round_down, b.type))
        result = builder.select(is_minus_one, builder.sub(splat(a, 0), a), floor)
    return builder.select(is_zero, splat(b, 0), result)


def _shift(op: str) -> OperatorEmitter:
    """A negative amount, or one of at least the width, shifts all bits out."""

    def of_integers(arithmetic: Arithmetic, dtype: str, a: Value, b: Value) -> Value:
        builder, width = arithmetic.builder, max(8, BITS[dtype])
        too_far = builder.icmp_unsigned(">=", b, splat(b, width))
        if op == "shr" and is_signed(dtype):
            return arithmetic.wrap(dtype, builder.ashr(a, builder.select(too_far, splat(b, width - 1), b)))
        amount = builder.select(too_far, splat(b, 0), b)
        shifted = builder.shl(a, amount) if op == "shl" else builder.lshr(a, amount)
        return arithmetic.wrap(dtype, builder.select(too_far, splat(a, 0), shifted))

    return OperatorEmitter(of_integers)


EMITTERS: dict[str, OperatorEmitter] = {
    **{op: _wrapping(op) for op in ("add", "sub", "mul")},
    **{op: _division(op) for op in ("floordiv", "mod")},
    "min": _extremum("min", "lt"),
    "max": _extremum("max", "gt"),
    **{op: _shift(op) for op in ("shl", "shr")},
    **{op: _bitwise(method) for op, method in (("and", "and_"), ("or", "or_"), ("xor", "xor"))},
    **{op: _comparison(op) for op in ir.COMPARE_OPS},
}
"""One entry for each operator of `ir.OPERATORS`."""
