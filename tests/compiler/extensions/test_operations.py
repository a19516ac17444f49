# SPDX-License-Identifier: Apache-2.0
"""The operations of a step, counted from its expression and checked by hand."""

from __future__ import annotations

from typing import Any

import pytest

import vdla
from vdla import te
from vdla.compiler.extensions import StepOperation, step_operations

TINY = vdla.Config.preset("tiny")
BATCH, INPUTS, OUTPUTS = TINY.batch, TINY.block_in, TINY.block_out
LANES = BATCH * OUTPUTS


def wide(value: Any) -> Any:
    return te.cast("int32", value)


def declared(term: Any, reduced: bool = True) -> vdla.Extension:
    """A step of inputs and weights with a sum over the terms, or of entries of inputs alone."""
    inp = te.placeholder((BATCH, INPUTS if reduced else OUTPUTS), "int8", "inp")
    wgt = te.placeholder((OUTPUTS, INPUTS), "int8", "wgt")
    i = te.reduce_axis(INPUTS, "i")
    if reduced:
        output = te.compute((BATCH, OUTPUTS), lambda b, o: te.sum(term(inp[b, i], wgt[o, i]), axis=i), "acc")
        return vdla.Extension(
            name="mine", doc="Mine.", output=output, scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"}
        )
    output = te.compute((BATCH, OUTPUTS), lambda b, o: term(inp[b, o]), "acc")
    return vdla.Extension(name="mine", doc="Mine.", output=output, scopes={"inp": "inp", "acc": "acc"})


def counted(term: Any, reduced: bool = True) -> dict[tuple[str, int, int], int]:
    found = step_operations(declared(term, reduced))
    return {(one.op, one.bits, one.other_bits): count for one, count in found.items()}


def test_a_product_is_one_of_its_operands() -> None:
    tree = 8 + 8 - 1 + (INPUTS - 1).bit_length()  # products are up to 2**14, which has 16 bits
    found = counted(lambda x, w: wide(x) * wide(w))
    assert found == {
        ("mul", 8, 8): LANES * INPUTS,
        ("add", tree + 1, tree + 1): LANES * (INPUTS - 1),
    }


def test_differences_have_a_bit_more() -> None:
    found = counted(lambda x, w: te.abs(wide(x) - wide(w)))
    sums = 8 + (INPUTS - 1).bit_length()
    assert found == {
        ("sub", 8, 8): LANES * INPUTS,
        ("abs", 9, 9): LANES * INPUTS,
        ("add", sums, sums): LANES * (INPUTS - 1),
    }


def test_what_lanes_share_counts_once() -> None:
    found = counted(lambda x, w: te.abs(wide(x)) * wide(w))
    assert found["abs", 8, 8] == BATCH * INPUTS
    assert found["mul", 8, 8] == LANES * INPUTS


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (lambda x: wide(x) << 2, {}),
        (lambda x: wide(x) * 4, {}),
        (lambda x: wide(x) * 3, {("mul", 8, 2): LANES}),
        (lambda x: wide(x) // 8, {}),
        (lambda x: wide(x) // 5, {("floordiv", 8, 3): LANES}),
        (lambda x: te.maximum(wide(x), 0), {("max", 8, 1): LANES}),
        (
            lambda x: te.select(x > 3, wide(x), 0),
            {("compare", 8, 2): LANES, ("select", 8, 8): LANES},
        ),
        (lambda x: wide(te.popcount(x)), {("popcount", 8, 8): LANES}),
        (lambda x: (wide(x) + 1) * (wide(x) + 1), {("add", 8, 1): LANES, ("mul", 9, 9): LANES}),
        (lambda x: (wide(x) >> 4) + (wide(x) & 15), {("and", 8, 4): LANES, ("add", 4, 4): LANES}),
    ],
)
def test_operations_of_elements(term: Any, expected: dict[tuple[str, int, int], int]) -> None:
    assert counted(term, reduced=False) == expected


def test_a_stage_is_counted_by_entry() -> None:
    old = te.placeholder((BATCH, OUTPUTS), "int8", "old")
    output = te.compute((BATCH, OUTPUTS), lambda b, o: te.maximum(old[b, o], 0), "new")
    stage = vdla.EmitStage(name="relu", doc="Rectifies.", output=output, scopes={"old": "out", "new": "out"})
    assert step_operations(stage) == {StepOperation("max", 8, 1): LANES}
