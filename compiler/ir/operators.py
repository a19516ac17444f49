# SPDX-License-Identifier: Apache-2.0
"""The binary operators of expressions, one table: how each prints and what it computes.

Both operands have one dtype. On integers every operator is total: division by 0 gives 0, and a
shift by a negative amount or by at least the width shifts out every bit. The code generator has one
entry for each operator of this table.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np


class OperatorKind(Enum):
    """Which operands an operator takes."""

    NUMBER = "number"  # integers or floats
    INTEGER = "integer"
    LOGIC = "logic"  # bools, or integers bit by bit
    COMPARE = "compare"  # numbers, or bools for equality; the result is bool


@dataclass(frozen=True, slots=True)
class BinaryOperator:
    """A binary operator: its Python symbol (None prints as a call), precedence and value.

    `on_ints` is exact, on Python ints; `on_arrays` wraps, on NumPy arrays or scalars of one dtype.
    """

    name: str
    kind: OperatorKind
    symbol: str | None
    precedence: int
    on_ints: Callable[[int, int], int]
    on_arrays: np.ufunc


def _quotient(a: int, b: int) -> int:
    return a // b if b else 0


def _remainder(a: int, b: int) -> int:
    return a % b if b else 0


_NUMBER, _INTEGER, _LOGIC, _COMPARE = OperatorKind
COMPARE_PRECEDENCE = 3
_CALL_PRECEDENCE = 10
OPERATORS: dict[str, BinaryOperator] = {
    entry.name: entry
    for entry in (
        BinaryOperator("add", _NUMBER, "+", 8, python.add, np.add),
        BinaryOperator("sub", _NUMBER, "-", 8, python.sub, np.subtract),
        BinaryOperator("mul", _NUMBER, "*", 9, python.mul, np.multiply),
        BinaryOperator("floordiv", _INTEGER, "//", 9, _quotient, np.floor_divide),
        BinaryOperator("mod", _INTEGER, "%", 9, _remainder, np.mod),
        BinaryOperator("min", _NUMBER, None, _CALL_PRECEDENCE, min, np.minimum),
        BinaryOperator("max", _NUMBER, None, _CALL_PRECEDENCE, max, np.maximum),
        BinaryOperator("shl", _INTEGER, "<<", 7, python.lshift, np.left_shift),
        BinaryOperator("shr", _INTEGER, ">>", 7, python.rshift, np.right_shift),
        BinaryOperator("and", _LOGIC, "&", 6, python.and_, np.bitwise_and),
        BinaryOperator("or", _LOGIC, "|", 4, python.or_, np.bitwise_or),
        BinaryOperator("xor", _LOGIC, "^", 5, python.xor, np.bitwise_xor),
        BinaryOperator("eq", _COMPARE, "==", COMPARE_PRECEDENCE, python.eq, np.equal),
        BinaryOperator("ne", _COMPARE, "!=", COMPARE_PRECEDENCE, python.ne, np.not_equal),
        BinaryOperator("lt", _COMPARE, "<", COMPARE_PRECEDENCE, python.lt, np.less),
        BinaryOperator("le", _COMPARE, "<=", COMPARE_PRECEDENCE, python.le, np.less_equal),
        BinaryOperator("gt", _COMPARE, ">", COMPARE_PRECEDENCE, python.gt, np.greater),
        BinaryOperator("ge", _COMPARE, ">=", COMPARE_PRECEDENCE, python.ge, np.greater_equal),
    )
}


def _named(*kinds: OperatorKind) -> tuple[str, ...]:
    return tuple(entry.name for entry in OPERATORS.values() if entry.kind in kinds)


BINARY_OPS = tuple(OPERATORS)
INTEGER_OPS = _named(_INTEGER)
LOGIC_OPS = _named(_LOGIC)
COMPARE_OPS = _named(_COMPARE)
INDEX_OPS = ("add", "sub", "mul", "floordiv", "mod", "min", "max")  # allowed in extents
COMMUTATIVE_OPS = ("add", "mul", "min", "max", "and", "or", "xor", "eq", "ne")
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}  # not (a op b), of integers
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}  # b op a
RIGHT_IDENTITY = {"add": 0, "sub": 0, "mul": 1, "shl": 0, "shr": 0}  # x op identity == x, for every integer x
