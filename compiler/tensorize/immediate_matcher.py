# SPDX-License-Identifier: Apache-2.0
"""Matching immediates and conditions: constants of the program, and conditions on its loops."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.tensorize.canonical import Canonical, constant
from vdla.compiler.tensorize.intrinsic import IMMEDIATE
from vdla.compiler.tensorize.operand_matcher import OperandMatcher

_Buffers = Mapping[str, ir.Buffer]


def solve(pattern: ir.Expr, value: ir.Const, buffers: _Buffers) -> tuple[str, ir.Const] | None:
    """The immediate in `pattern` and a candidate value that makes `pattern` equal `value`; None if
    not solvable.

    The candidate must be checked with `evaluate`.
    """
    number = int(value.value)
    match pattern:
        case ir.Load(buffer=name):
            return name, constant(number, buffers[name].dtype)
        case ir.Cast(value=inner) | ir.Binary("and", inner, ir.Const()):
            return solve(inner, value, buffers)
        case ir.Binary("sub", ir.Const(value=start), inner):
            return solve(inner, ir.Const(int(start) - number, value.dtype), buffers)
        case ir.Binary("add", inner, ir.Const(value=added)):
            return solve(inner, ir.Const(number - int(added), value.dtype), buffers)
    return None


def evaluate(expr: ir.Expr, immediates: Mapping[str, ir.Scalar], buffers: _Buffers) -> ir.Const | None:
    """The value of an expression of immediates; None if one of them is unknown."""

    def known(part: ir.Expr) -> ir.Expr:
        if isinstance(part, ir.Load) and part.buffer in immediates:
            return ir.Const(immediates[part.buffer], buffers[part.buffer].dtype)
        return part

    result = Canonical(buffers)(ir.transform(expr, known))
    return result if isinstance(result, ir.Const) else None


def power_of_two(factor: ir.Const) -> ir.Const | None:
    """The left shift equivalent to multiplying by `factor`, modulo its dtype; None if `factor` is
    no power of two."""
    bits = ir.INTEGER_BITS.get(factor.dtype, 0)
    number = int(factor.value) % (1 << bits)
    return ir.Const(number.bit_length() - 1, factor.dtype) if number and number & (number - 1) == 0 else None


class ImmediateMatcher(OperandMatcher):
    """Matches the operands that lie in no memory."""

    def _is_immediate(self, pattern: ir.Expr) -> bool:
        """Whether an expression consists of immediates and constants, not of constants alone."""
        match pattern:
            case ir.Load(buffer=name):
                return self._scope(name) == IMMEDIATE
            case ir.Binary(a=a, b=b):
                sides = [self._is_immediate(side) for side in (a, b)]
                return any(sides) and all(
                    known or isinstance(side, ir.Const) for known, side in zip(sides, (a, b), strict=True)
                )
            case ir.Cast(value=value):
                return self._is_immediate(value)
        return False

    def _match_immediate(self, name: str, target: ir.Expr) -> None:
        dtype = self.intrinsic.behaviour.buffers[name].dtype
        if isinstance(target, ir.Cast) and isinstance(target.value, ir.Const):  # an integer as a float
            target = ir.Const(target.value.value, target.dtype)
        if self._moves(target):
            if self.bindings.moving.setdefault(name, target) != target:
                got = f"{ir.expr_text(self.bindings.moving[name])} and {ir.expr_text(target)}"
                self._fail(f"{name} must be one value, got {got}")
            return
        if not isinstance(target, ir.Const) or target.dtype != dtype:
            self._fail(
                f"{name} must be a constant of {dtype}, got {self.canonical.text(target)}",
                "write a number, or use an intrinsic that reads that operand from a buffer",
            )
        if not self.intrinsic.allows(name, target.value):
            low, high = self.intrinsic.ranges[name]
            self._fail(f"{name} must be a constant from {low} to {high}, got {target.value}")
        if self.bindings.immediates.setdefault(name, target.value) != target.value:
            self._fail(
                f"{name} must be one constant, got {self.bindings.immediates[name]} and {target.value}",
                f"use the form {self.pattern.text(self.pattern.value)}, or one stage for each constant",
            )

    def _moves(self, target: ir.Expr) -> bool:
        """Whether an immediate follows loops outside of the entry, as an instruction of the VDLA
        can.
        """
        parts = list(ir.walk_expr(target))
        variables = [part.name for part in parts if isinstance(part, ir.Var)]
        outside = all(self.inner.get(name, 1) == 1 for name in variables)
        return self.intrinsic.target == "vdla" and bool(variables) and outside and not ir.reads_memory(target)

    def _check_constants(self) -> None:
        buffers = self.intrinsic.behaviour.buffers
        for pattern, target in self.bindings.constants:
            value = evaluate(pattern, self.bindings.immediates, buffers)
            if value != target:
                known = ", ".join(f"{name} = {number}" for name, number in self.bindings.immediates.items()) or "none"
                self._fail(
                    f"{self.pattern.text(pattern)} must be {ir.expr_text(value) if value else 'known'} for {known}, "
                    f"got {ir.expr_text(target)}",
                    f"use the form {self.pattern.text(self.pattern.value)}",
                )

    def _match_condition(self, name: str, target: ir.Expr) -> None:
        for e in ir.walk_expr(target):
            if isinstance(e, ir.Load):
                self._fail(
                    f"{name} must be a condition on loop variables, got {ir.expr_text(target)}",
                    f"compute the select in a stage that does not use {self.intrinsic.name}",
                )
            if isinstance(e, ir.Var) and self.inner.get(e.name, 1) > 1:
                self._fail(
                    f"{name} must be the same for a whole entry, got {ir.expr_text(target)}, "
                    f"which depends on axis {e.name}",
                    "put the condition on the leading indices, and pad the tensor itself along that axis",
                )
        if (known := self.bindings.conditions.setdefault(name, target)) != target:
            self._fail(f"{name} must be one condition, got {ir.expr_text(known)} and {ir.expr_text(target)}")
