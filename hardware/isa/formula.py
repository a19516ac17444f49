# SPDX-License-Identifier: Apache-2.0
"""Formulas of instruction fields, as text: the cycles of an instruction of an extension.

A formula has integers, names of fields, `+ - * // %`, `min` and `max`, and is evaluated on numbers
or on whole columns. It is parsed, never executed: a formula from a file can do nothing but count.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from vdla.support.errors import Error

RULE = "be a formula of integers, fields, + - * // %, min and max"

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
}
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {"min": np.minimum, "max": np.maximum}


class FormulaError(Error, ValueError):
    """A text that is not a formula of fields."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula; FormulaError if the text is not a formula, or divides by anything but positive
    integers.
    """

    text: str

    def __post_init__(self) -> None:
        _check(_tree(self.text), self.text)

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that the formula reads."""
        identifiers = (node.id for node in ast.walk(_tree(self.text)) if isinstance(node, ast.Name))
        return tuple(dict.fromkeys(name for name in identifiers if name not in _FUNCTIONS))

    def value(self, field: Callable[[str], Any]) -> Any:  # noqa: ANN401  a number or a column, as `field` gives
        """The value for fields by name."""
        return _value(_tree(self.text), field)


@lru_cache(maxsize=256)
def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f"must {RULE}, got {text!r}") from None


def _check(node: ast.expr, text: str) -> None:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return
        case ast.Name(id=name) if name not in _FUNCTIONS:
            return
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod(), right=ast.Constant(value=int(value))) if value > 0:
            _check(left, text)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            _check(left, text)
            _check(right, text)
        case ast.Call(func=ast.Name(id=name), args=[_, _, *_], keywords=[]) if name in _FUNCTIONS:
            for argument in node.args:
                _check(argument, text)
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod()):
            raise FormulaError(f"must divide by positive integers only, got {text!r}")
        case _:
            raise FormulaError(f"must {RULE}, got {text!r}")


def _value(node: ast.expr, field: Callable[[str], Any]) -> Any:  # noqa: ANN401  see Formula.value
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return field(name)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, field), _value(right, field))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return reduce(_FUNCTIONS[name], [_value(argument, field) for argument in arguments])
    raise AssertionError("a formula is checked when it is made")
