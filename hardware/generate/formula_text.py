# SPDX-License-Identifier: Apache-2.0
"""Formulas of fields as SystemVerilog: exact, in signed numbers that are as wide as they need be.

Quotients and remainders are rounded down, as in Python and unlike those of SystemVerilog.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from vdla.hardware.isa.formula import Formula

Interval = tuple[int, int]

_SYMBOLS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_COMPARISONS = {"min": "<", "max": ">"}


@dataclass(frozen=True, slots=True)
class FormulaText:
    """An expression of `bits` bits, signed, with the range of its value; both are exact."""

    text: str
    low: int
    high: int
    bits: int


def formula_text(formula: Formula, limits: Callable[[str], Interval], read: Callable[[str], str]) -> FormulaText:
    """A formula of fields that lie within `limits`; `read` gives the expression of a field."""
    tree = ast.parse(formula.text, mode="eval").body
    ranges = _Ranges(limits)
    low, high = ranges.range_of(tree)
    if low == high:
        tree = ast.Constant(low)
    bits = max(2, ranges.least.bit_length() + 1, ranges.most.bit_length() + 1)
    return FormulaText(_text(tree, bits, ranges, read), low, high, bits)


class _Ranges:
    """The ranges of the parts of a formula; `least` and `most` bound all of them."""

    def __init__(self, limits: Callable[[str], Interval]) -> None:
        self.limits = limits
        self.least = self.most = 0

    def range_of(self, node: ast.expr) -> Interval:
        low, high = self._range(node)
        self.least, self.most = min(self.least, low), max(self.most, high)
        return low, high

    def _range(self, node: ast.expr) -> Interval:
        match node:
            case ast.Constant(value=int(value)):
                return value, value
            case ast.Name(id=name):
                return self.limits(name)
            case ast.BinOp(left=left, op=op, right=right):
                return _operation(op, self.range_of(left), self.range_of(right))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                ranges = [self.range_of(argument) for argument in arguments]
                pick = min if name == "min" else max
                return pick(low for low, _ in ranges), pick(high for _, high in ranges)
        raise AssertionError("a formula is checked when it is made")


def _operation(op: ast.operator, a: Interval, b: Interval) -> Interval:
    match op:
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case ast.FloorDiv():
            return a[0] // b[0], a[1] // b[0]
        case ast.Mod():
            return 0, b[0] - 1
    raise AssertionError("a formula is checked when it is made")


def _text(node: ast.expr, bits: int, ranges: _Ranges, read: Callable[[str], str]) -> str:
    match node:
        case ast.Constant(value=int(value)):
            return f"{bits}'sd{value}" if value >= 0 else f"-{bits}'sd{-value}"
        case ast.Name(id=name):
            signed = ranges.limits(name)[0] < 0
            return f"{bits}'(signed'({read(name)}))" if signed else f"{bits}'(signed'({{1'b0, {read(name)}}}))"
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() as op, right=right):
            a, b = _text(left, bits, ranges, read), _text(right, bits, ranges, read)
            negative = ranges.range_of(left)[0] < 0
            rest = f"(({a} % {b} + {b}) % {b})" if negative else f"({a} % {b})"
            if isinstance(op, ast.Mod):
                return rest
            return f"(({a} - {rest}) / {b})" if negative else f"({a} / {b})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({_text(left, bits, ranges, read)} {_SYMBOLS[type(op)]} {_text(right, bits, ranges, read)})"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            chosen, *others = (_text(argument, bits, ranges, read) for argument in arguments)
            for other in others:
                chosen = f"({chosen} {_COMPARISONS[name]} {other} ? {chosen} : {other})"
            return chosen
    raise AssertionError("a formula is checked when it is made")
