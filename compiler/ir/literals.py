# SPDX-License-Identifier: Apache-2.0
"""Literals of results: the numbers that blocks compute with, outside of indices and conditions.

Neither the loops of a function nor the regions that it accesses depend on them: functions that
differ in them only, such as the layers of a network in their zero points, have one schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from vdla.compiler.ir.nodes import Block, Const, Expr, Function, Load, Scalar, Select, Stmt, Store, Var
from vdla.compiler.ir.traversal import map_children, map_operands


@dataclass(frozen=True, slots=True, eq=False)
class Blank:
    """The place of a number that is not known; TypeError for what would depend on it."""

    number: int

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self.number == other.number if isinstance(other, Blank) else self._refuse()

    def __bool__(self) -> bool:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(f"blank {self.number} must only be copied, got a question about its number")


def integer(value: Scalar | Blank) -> Any:  # noqa: ANN401  an integer for all that only copies it
    """A number as an integer; a blank stays one."""
    return value if isinstance(value, Blank) else int(value)


def without_literals(fn: Function) -> tuple[Function, tuple[Const, ...]]:
    """The function with blanks of its literals, and the literal of each by its number.

    The text of the former is the same for functions that differ in literals only.
    """
    literals: list[Const] = []

    def blank(literal: Const) -> Expr:
        literals.append(literal)
        value: Any = Blank(len(literals) - 1)
        return Const(value, literal.dtype)

    return _with(fn, blank), tuple(literals)


def with_literals(fn: Function, literals: Sequence[Expr]) -> Function:
    """The function with literals in place of blanks."""

    def fill(const: Const) -> Expr:
        value: Any = const.value
        return literals[value.number] if isinstance(value, Blank) else const

    return _with(fn, fill)


def _with(fn: Function, change: Callable[[Const], Expr]) -> Function:
    """The function with its literals changed; an expression that is shared stays shared."""
    known: dict[int, Expr] = {}

    def value(expr: Expr) -> Expr:
        if isinstance(expr, Load | Select | Var):
            return expr
        if id(expr) not in known:
            known[id(expr)] = change(expr) if isinstance(expr, Const) else map_operands(expr, value)
        return known[id(expr)]

    def statement(stmt: Stmt) -> Stmt:
        match stmt:
            case Store():
                new = value(stmt.value)
                return stmt if new is stmt.value else Store(stmt.buffer, stmt.indices, new)
            case Block():  # a sum starts from its own number
                body = statement(stmt.body)
                return stmt if body is stmt.body else replace(stmt, body=body)
        return map_children(stmt, statement)

    return replace(fn, body=statement(fn.body))
