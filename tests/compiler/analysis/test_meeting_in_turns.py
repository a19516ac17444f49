# SPDX-License-Identifier: Apache-2.0
"""Halves of a tile that iterations use in turn: whether threads of two iterations meet."""

from __future__ import annotations

import pytest

from vdla.compiler import ir
from vdla.compiler.analysis.meeting import Meeting, MeetingSide

STEP = ir.Var("k")
PAIR = ir.Binary("floordiv", STEP, ir.Const(2))


def half(step: ir.Expr) -> ir.Expr:
    return ir.Binary("mod", step, ir.Const(2))


@pytest.mark.parametrize(("index", "meet"), [(half(STEP), False), (half(PAIR), True), (ir.Const(0), True)])
@pytest.mark.parametrize("terms", [4, 1 << 24])  # few elements to compare, and too many
def test_threads_of_two_iterations_meet_in_a_half_that_both_use(index: ir.Expr, meet: bool, terms: int) -> None:
    column = ir.Binary("mod", ir.Var("j"), ir.Const(2))
    side = MeetingSide((index, column), (), {"threadIdx.x": 4, "k": 8, "j": terms})
    assert Meeting(side, side, ("threadIdx.x",), frozenset(), carried="k").possible() == meet
