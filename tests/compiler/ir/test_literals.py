# SPDX-License-Identifier: Apache-2.0
"""Literals of results leave blanks, which fill again; indices and conditions stay."""

from __future__ import annotations

import pytest

from vdla.compiler import ir, te
from vdla.compiler.ir.literals import Blank, integer, with_literals, without_literals


def function(add: int, most: int, shift: int = 1, bound: int = 5, start: int = 0) -> ir.Function:
    x = te.placeholder((8,), "int32", "x")
    padded = te.compute((8,), lambda i: te.select(i < bound, x[i - shift + 1], 7), "padded")
    total = te.compute((8,), lambda i: te.minimum(padded[i] + add, most), "y")
    return te.create_function([x], [total], f"f{start}")


def test_functions_that_differ_in_literals_have_one_form() -> None:
    blank, literals = without_literals(function(3, 100))
    other, others = without_literals(function(-4, 3))
    assert [one.value for one in literals] == [3, 100]
    assert [one.value for one in others] == [-4, 3]
    assert str(blank) == str(other)
    assert with_literals(blank, others) == function(-4, 3)
    assert with_literals(other, literals) == function(3, 100)


@pytest.mark.parametrize("given", [{"shift": 2}, {"bound": 6}, {"start": 1}])
def test_indices_conditions_and_names_are_part_of_the_form(given: dict[str, int]) -> None:
    forms = [str(without_literals(function(3, 100, **more))[0]) for more in ({}, given)]
    assert forms[0] != forms[1]


def test_types_of_literals_are_part_of_the_form() -> None:
    def cast(dtype: str) -> ir.Function:
        x = te.placeholder((8,), "int32", "x")
        y = te.compute((8,), lambda i: te.cast("int32", te.cast(dtype, x[i]) * 3), "y")
        return te.create_function([x], [y], "f")

    forms = [without_literals(cast(dtype)) for dtype in ("int16", "int64")]
    assert forms[0][1] != forms[1][1]
    assert str(forms[0][0]) != str(forms[1][0])


def test_a_shared_expression_stays_shared() -> None:
    x = ir.Load("x", (ir.Var("i"),))
    part = ir.Binary("add", x, ir.Const(3))
    store = ir.Store("y", (ir.Var("i"),), ir.Binary("mul", part, part))
    block = ir.Block(name="y", axes=(ir.Axis("i", 8),), values=(ir.Var("l"),), body=store)
    buffers = {name: ir.Buffer(name, (8,), "int32") for name in "xy"}
    blank, literals = without_literals(ir.Function("f", ("x", "y"), buffers, ir.For("l", 8, block)))
    assert literals == (ir.Const(3),)
    (filled,) = ir.find(with_literals(blank, [ir.Const(5)]).body, ir.Store)
    assert isinstance(filled.value, ir.Binary)
    assert filled.value.a is filled.value.b == ir.Binary("add", x, ir.Const(5))


def test_nothing_is_computed_with_a_blank() -> None:
    blank = Blank(2)
    assert integer(blank) is blank
    assert integer(True) == 1
    assert blank == Blank(2) != Blank(3)
    for question in (bool, int, lambda value: value == 0, lambda value: value < 3, lambda value: value + 1):
        with pytest.raises(TypeError):
            question(blank)
