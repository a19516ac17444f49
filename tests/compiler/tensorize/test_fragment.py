# SPDX-License-Identifier: Apache-2.0
"""The layouts of fragments, against the formulas of the PTX manual and a model of ldmatrix."""

from __future__ import annotations

from itertools import product

import pytest

from vdla.compiler import ir
from vdla.compiler.arith import evaluate
from vdla.compiler.codegen.llvm.intrinsics.mma import RowsOfB, mma
from vdla.compiler.tensorize import LANES, Fragment, IntrinsicError

FORMS = tuple(product(("float16", "bfloat16", "int8"), RowsOfB))
Place = tuple[int, int]


def numbers(exprs: tuple[ir.Expr, ...]) -> tuple[int, ...]:
    return tuple(evaluate(expr, {}) for expr in exprs)


def places(fragment: Fragment, lane: int) -> list[tuple[int, ...]]:
    """The row and the column of each element of a lane."""
    return [numbers(fragment.element(ir.Const(lane), number)) for number in range(fragment.size)]


def of_manual(operand: str, lane: int, terms: int) -> list[Place]:
    """PTX manual, fragments of mma.m16n8k16 and mma.m16n8k32: `b` as (term, column)."""
    group, thread = lane >> 2, lane % 4
    if operand == "c":
        return [(group if i < 2 else group + 8, thread * 2 + (i & 1)) for i in range(4)]
    if terms == 16 and operand == "a":
        rows = [group if 0 <= i < 2 or 4 <= i < 6 else group + 8 for i in range(8)]
        return [(rows[i], thread * 2 + (i & 1) + (8 if i >= 4 else 0)) for i in range(8)]
    if terms == 16:
        return [(thread * 2 + (i & 1) + (8 if i >= 2 else 0), group) for i in range(4)]
    if operand == "a":
        rows = [group if 0 <= i < 4 or 8 <= i < 12 else group + 8 for i in range(16)]
        return [(rows[i], thread * 4 + (i & 3) + (16 if i >= 8 else 0)) for i in range(16)]
    return [(thread * 4 + (i & 3) + (16 if i >= 4 else 0), group) for i in range(8)]


@pytest.mark.parametrize(("dtype", "rows"), FORMS)
def test_lanes_hold_what_the_manual_says(dtype: str, rows: RowsOfB) -> None:
    fragments = mma(dtype, rows).fragments
    terms = fragments["a"].shape[1]
    for operand, lane in product("abc", range(LANES)):
        wanted = of_manual(operand, lane, terms)
        if operand == "b" and rows is RowsOfB.COLUMNS:
            wanted = [(column, term) for term, column in wanted]
        assert places(fragments[operand], lane) == wanted


@pytest.mark.parametrize(("dtype", "rows"), FORMS)
def test_each_element_has_one_owner(dtype: str, rows: RowsOfB) -> None:
    for fragment in mma(dtype, rows).fragments.values():
        held = {place: (lane, n) for lane in range(LANES) for n, place in enumerate(places(fragment, lane))}
        assert len(held) == fragment.shape[0] * fragment.shape[1]
        for (row, column), owner in held.items():
            assert numbers(fragment.owner(ir.Const(row), ir.Const(column))) == owner


@pytest.mark.parametrize(("dtype", "rows"), FORMS)
def test_ldmatrix_gives_each_lane_its_elements(dtype: str, rows: RowsOfB) -> None:
    fragments = mma(dtype, rows).fragments
    assert fragments["c"].matrices == 0
    for fragment in (fragments["a"], fragments["b"]):
        if fragment.transposed and dtype == "int8":
            assert fragment.matrices == 0  # ldmatrix transposes elements of two bytes
            continue
        assert fragment.matrices == fragment.registers
        starts = [numbers(fragment.matrix_row(ir.Const(lane))) for lane in range(LANES)]
        for lane in range(LANES):
            assert loaded(fragment, starts, lane) == places(fragment, lane)


def loaded(fragment: Fragment, starts: list[tuple[int, ...]], lane: int) -> list[tuple[int, ...]]:
    """What ldmatrix leaves in the registers of a lane, as rows and columns of the tile."""
    found: list[tuple[int, ...]] = []
    count = fragment.per_register
    for matrix in range(fragment.matrices):
        for n in range(count):
            line, across = lane // 4, lane % 4 * count + n
            row, column = starts[matrix * 8 + (across if fragment.transposed else line)]
            found.append((row, column + (line if fragment.transposed else across)))
    return found


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(IntrinsicError) as error:
        mma("float64")
    assert str(error.value) == "intrinsic mma: dtype must be one of float16, bfloat16, int8, got 'float64'"
