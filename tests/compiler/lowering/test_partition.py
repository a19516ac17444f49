# SPDX-License-Identifier: Apache-2.0
"""Loops split where their conditions change."""

import itertools

import numpy as np
import pytest
from helpers.loop_nests import PARALLEL, UNROLL, VECTORIZE, at, expr, function, load, loop, op, store, text

from vdla.compiler import ir
from vdla.compiler.ir import size_of
from vdla.compiler.lowering.partition import MAX_OPERATIONS, MIN_STORES, code_size, partition
from vdla.compiler.lowering.symbolic_parts import comparisons, undecided_range


def test_a_split_tail_is_split_off():
    index = at(("i", 4), "j")
    body = ir.If(op("lt", index, 10), store("c", index, value=0))
    fn = function(loop("i", 3, loop("j", 4, body, kind=VECTORIZE)), c=(10,))
    assert (
        text(partition(fn))
        == """
for i in range(2):
    for j in vectorize(4):
        c[i * 4 + j] = 0
for j in vectorize(2):
    c[j + 8] = 0
"""
    )


def test_image_padding_is_split_off():
    inside = op("and", op("and", op("ge", "y", 1), op("lt", "y", 9)), op("and", op("ge", "x", 1), op("lt", "x", 9)))
    value = ir.Select(inside, load("a", at("y", -1), at("x", -1)), expr(0))
    fn = function(loop("y", 10, loop("x", 10, store("c", "y", "x", value=value))), a=(8, 8), c=(10, 10))
    assert (
        text(partition(fn))
        == """
for x in range(10):
    c[0, x] = 0
for y in range(8):
    c[y + 1, 0] = 0
    for x in range(8):
        c[y + 1, x + 1] = a[y, x]
    c[y + 1, 9] = 0
for x in range(10):
    c[9, x] = 0
"""
    )


def test_a_condition_over_two_loops_splits_both():
    value = ir.Select(op("ge", at("y", "k"), 1), load("a", at("y", "k", -1)), expr(0))
    fn = function(loop("y", 8, loop("k", 3, store("c", "y", "k", value=value))), a=(9,), c=(8, 3))
    assert (
        text(partition(fn))
        == """
c[0, 0] = 0
for k in range(2):
    c[0, k + 1] = a[k]
for y in range(7):
    for k in range(3):
        c[y + 1, k] = a[y + k]
"""
    )


def test_the_last_iteration_of_a_sum_is_split_off():
    fn = function(
        loop("k", 8, store("c", 0, value="k"), ir.If(op("eq", "k", 7), store("b", 0, value=1))), b=(1,), c=(1,)
    )
    assert (
        text(partition(fn))
        == """
for k in range(7):
    c[0] = k
c[0] = 7
b[0] = 1
"""
    )


def test_the_iterations_of_a_parallel_loop_stay_together():
    inside = op("and", op("ge", "y", 1), op("lt", "y", 9))
    value = ir.Select(inside, load("a", at("y", -1), "x"), expr(0))
    fn = function(loop("y", 10, loop("x", 8, store("c", "y", "x", value=value)), kind=PARALLEL), a=(8, 8), c=(10, 8))
    assert (
        text(partition(fn))
        == """
for y in parallel(10):
    if y == 0:
        for x in range(8):
            c[0, x] = 0
    if y >= 1 and y < 9:
        for x in range(8):
            c[y, x] = a[y - 1, x]
    if y == 9:
        for x in range(8):
            c[9, x] = 0
"""
    )


def test_unrolled_loops_are_not_split():
    fn = function(loop("i", 4, ir.If(op("lt", "i", 3), store("c", "i", value=0)), kind=UNROLL), c=(4,))
    assert partition(fn) == fn


def test_the_growth_of_code_by_splits_is_limited():
    stores = [store("c", "i", n, value=0) for n in range(MIN_STORES)]
    body = loop("j", 9, *stores, *(ir.If(op("eq", "j", n), store("c", "i", n, value=1)) for n in (2, 4, 6)))
    fn = function(loop("i", 9, body), c=(9, MIN_STORES))
    assert partition(fn) == fn
    assert code_size(fn.body).stores == MIN_STORES + 3


def test_growth_of_large_values_is_limited():
    value: ir.Expr = ir.Load("c", (ir.Var("i"),))
    while size_of(value).nodes <= MAX_OPERATIONS // 4:
        value = ir.Binary("add", value, value)
    large, small = (
        function(loop("i", 9, ir.If(op("lt", "i", 6), ir.Store("c", (ir.Var("i"),), v))), c=(9,))
        for v in (ir.Binary("add", value, value), value)
    )
    assert partition(large) == large
    assert partition(small) != small


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_undecided_ranges_are_sound_and_tight(name):
    """Outside its undecided range a comparison is constant over the inner loop; ends are tight."""
    function_of = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
                   "eq": np.equal, "ne": np.not_equal}[name]  # fmt: skip
    j = np.arange(3)
    for step, inner, const in itertools.product((-3, -2, -1, 1, 2, 3), (-2, 0, 1), (-4, 0, 5)):
        found = undecided_range(ir.Binary(name, at(("i", step), ("j", inner)), expr(const)), "i", {"j": (0, 2)})
        assert found is not None
        for i in range(-8, 9):
            holds = function_of(step * i + inner * j, const)
            varies = holds.any() and not holds.all()
            assert not varies or found.first <= i < found.end
        for edge in (found.first, found.end):
            before, after = ([function_of(step * i + inner * j, const).tolist()] for i in (edge - 1, edge))
            assert name in ("eq", "ne") or before != after


def test_a_comparison_with_an_outer_loop_has_no_undecided_range():
    assert undecided_range(ir.Binary("lt", at("i", "outer"), expr(3)), "i", {}) is None


def test_comparisons_are_found_in_conditions_selects_and_indices():
    chosen = ir.Select(op("or", op("lt", "i", 1), op("eq", "i", 5)), expr(0), expr(1))
    stmt = ir.If(op("and", op("ge", "i", 2), op("ne", "i", 3)), store("c", chosen, value=chosen))
    assert sorted(c.op for c in comparisons(stmt)) == ["eq", "eq", "ge", "lt", "lt", "ne"]


def test_comparisons_that_load_split_no_loop():
    n = ir.Var("n")
    cond = ir.Binary("lt", ir.Var("k"), ir.Load("best", (ir.Binary("sub", n, ir.Const(1)),)))
    nest = loop("k", 8, ir.If(cond, store("best", at("n", -1), value="k")))
    fn = ir.Function("f", ("best",), {"best": ir.Buffer("best", (n,), "int32")}, nest, ("n",))
    assert partition(fn) == fn
