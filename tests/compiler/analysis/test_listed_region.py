# SPDX-License-Identifier: Apache-2.0
"""Boxes of elements, listed."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.written_region import listed_box
from vdla.compiler.arith import linear

TURN, THREAD = ir.Var("turn"), ir.Var("thread")
NUMBER = ir.Binary("add", ir.Binary("mul", TURN, ir.Const(4)), THREAD)
EXTENTS = {"turn": 3, "thread": 4}


def rows_of(columns: int) -> list[ir.Expr]:
    """The row and the column of a numbered element."""
    return [ir.Binary(op, NUMBER, ir.Const(columns)) for op in ("floordiv", "mod")]


def box(indices: list[ir.Expr], count: int, extents: dict[str, ir.Extent]) -> list[tuple[int, int]] | None:
    return listed_box([linear(index) for index in indices], [ir.Binary("lt", NUMBER, ir.Const(count))], extents)


def test_elements_in_turns_fill_a_box() -> None:
    assert box(rows_of(3), 9, EXTENTS) == [(0, 2), (0, 2)]
    assert box(rows_of(5), 10, EXTENTS) == [(0, 1), (0, 4)]


def test_a_row_that_ends_early_is_a_gap() -> None:
    assert box(rows_of(3), 8, EXTENTS) is None
    assert box([ir.Binary("mul", NUMBER, ir.Const(2))], 12, EXTENTS) is None


def test_what_is_not_a_few_iterations_is_not_listed() -> None:
    assert box(rows_of(3), 0, EXTENTS) is None
    assert box(rows_of(3), 9, {"turn": 3}) is None
    assert box(rows_of(3), 9, {"turn": ir.Var("n"), "thread": 4}) is None
    assert box(rows_of(3), 9, {"turn": 1 << 20, "thread": 4}) is None
    assert box([ir.Load("a", (NUMBER,))], 9, EXTENTS) is None
