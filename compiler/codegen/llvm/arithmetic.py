# SPDX-License-Identifier: Apache-2.0
"""The operators of `ir/operators.py` as LLVM instructions, bit for bit as the interpreter.

Both operands have one type, scalar or vector. Integers wrap; no operand causes undefined behaviour.
Small floats and integers of less than a byte have no arithmetic here (`lowering/legalise.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.codegen.llvm.numbers import Number, where
from vdla.compiler.codegen.llvm.types import BITS, FLOAT, Value, element_type, is_gpu, is_signed, is_x86
from vdla.compiler.ir import is_float
from vdla.compiler.target import Target


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Emits operators at `builder` for `target`; `contract` lets LLVM fuse a product with a sum."""

    builder: Value
    target: Target
    contract: bool

    def binary(self, op: str, dtype: str, a: Value, b: Value) -> Value:
        """`a op b` of elements of `dtype`; an i1 for comparisons."""
        left, right = Number(self.builder, a), Number(self.builder, b)
        if is_float(dtype):
            return EMITTERS[op].of_floats(self, left, right).value
        return EMITTERS[op].of_integers(dtype, left, right).value

    def divide_by_constant(self, op: str, a: Value, divisor: int, non_negative: bool) -> Value:
        """`a op divisor` for floordiv or mod and divisor > 0; `non_negative` if a >= 0 is known."""
        number, is_power = Number(self.builder, a), divisor & (divisor - 1) == 0
        if is_power:
            result = number & (divisor - 1) if op == "mod" else number >> (divisor.bit_length() - 1)
        elif non_negative:
            result = number.emit("udiv" if op == "floordiv" else "urem", divisor)
        else:
            result = _signed_division(op, number, number.like(divisor))
        return result.value


# --- one emitter per operator of the IR -----------------------------------------------------------

EmitInteger = Callable[[str, Number, Number], Number]  # (dtype, a, b)
EmitFloat = Callable[[Arithmetic, Number, Number], Number]  # (arithmetic, a, b)


def _no_floats(arithmetic: Arithmetic, a: Number, b: Number) -> Number:
    raise AssertionError("`te` refuses this operator on floats")


@dataclass(frozen=True, slots=True)
class OperatorEmitter:
    """How to emit an operator on bools and integers, and on float32 and float64."""

    of_integers: EmitInteger
    of_floats: EmitFloat = _no_floats


def _plain(method: str) -> OperatorEmitter:
    """One instruction."""

    def of_floats(arithmetic: Arithmetic, a: Number, b: Number) -> Number:
        flags = ("contract",) if arithmetic.contract else ()
        return Number(a.builder, getattr(a.builder, f"f{method}")(a.value, b.value, flags=flags))

    return OperatorEmitter(lambda dtype, a, b: a.emit(method, b), of_floats)


def _comparison(op: str) -> OperatorEmitter:
    """Comparisons with NaN are false, but `ne` is true."""
    symbol = ir.OPERATORS[op].symbol or ""
    of_floats = "fcmp_unordered" if op == "ne" else "fcmp_ordered"
    return OperatorEmitter(
        lambda dtype, a, b: a.compare("icmp_signed" if is_signed(dtype) else "icmp_unsigned", symbol, b),
        lambda arithmetic, a, b: a.compare(of_floats, symbol, b),
    )


def _extremum(op: str, comparison: str) -> OperatorEmitter:
    """Of floats, NaN if an operand is NaN; of two zeros, either.

    An instruction of x86 returns its second operand if one is NaN: a constant goes first, and so
    does `b`, which LLVM examines beside; a reduction then waits for the instruction alone.
    """
    compare = _comparison(comparison)

    def of_floats(arithmetic: Arithmetic, a: Number, b: Number) -> Number:
        target = arithmetic.target
        narrow = element_type(a.kind) == FLOAT and (target.has("neon") or is_gpu(target))
        if target.architecture == "aarch64" or narrow:
            return a.call(f"{op}imum", b)
        if isinstance(b.value, llvm.Constant):
            a, b = b, a
        if is_x86(target) and not isinstance(a.value, llvm.Constant):
            return b.call(f"{op}imum", a, flags=("nsz",))
        extremum = where(compare.of_floats(arithmetic, a, b), a, b)
        return extremum if isinstance(a.value, llvm.Constant) else where(a.is_nan(), a, extremum)

    return OperatorEmitter(lambda dtype, a, b: where(compare.of_integers(dtype, a, b), a, b), of_floats)


def _division(op: str) -> OperatorEmitter:
    def of_integers(dtype: str, a: Number, b: Number) -> Number:
        return _signed_division(op, a, b) if is_signed(dtype) else _unsigned_division(op, a, b)

    return OperatorEmitter(of_integers)


def _unsigned_division(op: str, a: Number, b: Number) -> Number:
    is_zero = b.compare("icmp_unsigned", "==", 0)
    divisor = where(is_zero, 1, b)
    return where(is_zero, 0, a.emit("udiv" if op == "floordiv" else "urem", divisor))


def _signed_division(op: str, a: Number, b: Number) -> Number:
    """Rounds to minus infinity. Divisors 0 and -1, which can trap, are replaced by 1."""
    is_zero, is_minus_one = b.equals(0), b.equals(-1)
    divisor = where(is_zero | is_minus_one, 1, b)
    quotient = a.emit("sdiv", divisor)
    remainder = a - quotient * divisor
    signs_differ = (remainder ^ divisor) < 0
    round_down = remainder.differs(0) & signs_differ
    if op == "mod":
        result = where(round_down, remainder + divisor, remainder)
    else:
        floor = quotient - round_down.convert("zext", element_type(b.kind))
        result = where(is_minus_one, a.like(0) - a, floor)
    return where(is_zero, 0, result)


def _shift(op: str) -> OperatorEmitter:
    """A negative amount, or one of at least the width, shifts all bits out."""

    def of_integers(dtype: str, a: Number, b: Number) -> Number:
        too_far = b.compare("icmp_unsigned", ">=", BITS[dtype])
        if op == "shr" and is_signed(dtype):
            return a >> where(too_far, BITS[dtype] - 1, b)
        shifted = a.emit("shl" if op == "shl" else "lshr", where(too_far, 0, b))
        return where(too_far, 0, shifted)

    return OperatorEmitter(of_integers)


EMITTERS: dict[str, OperatorEmitter] = {
    **{op: _plain(op) for op in ("add", "sub", "mul")},
    **{op: _division(op) for op in ("floordiv", "mod")},
    "min": _extremum("min", "lt"),
    "max": _extremum("max", "gt"),
    **{op: _shift(op) for op in ("shl", "shr")},
    **{op: _plain(method) for op, method in (("and", "and_"), ("or", "or_"), ("xor", "xor"))},
    **{op: _comparison(op) for op in ir.COMPARE_OPS},
}
"""One entry for each operator of `ir.OPERATORS`."""
