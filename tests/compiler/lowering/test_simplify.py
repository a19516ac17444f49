# SPDX-License-Identifier: Apache-2.0
"""Simplified indices, conditions and statements."""

from helpers.loop_nests import VECTORIZE, at, expr, function, load, loop, op, store, text

from vdla.compiler import ir
from vdla.compiler.lowering.simplify import EMPTY, simplify_function


def test_index_terms_cancel_and_follow_loop_order():
    index = at("k", ("i", 6), "j", ("i", -6), 3, ("i", 8))
    fn = function(loop("i", 4, loop("j", 2, loop("k", 3, store("c", index, value=load("a", index))))), a=(99,), c=(99,))
    assert (
        text(simplify_function(fn))
        == """
for i in range(4):
    for j in range(2):
        for k in range(3):
            c[i * 8 + j + k + 3] = a[i * 8 + j + k + 3]
"""
    )


def test_fused_pixels_are_contiguous():
    index = op("add", op("mul", op("floordiv", "p", 7), 7), op("mod", "p", 7))
    fn = function(loop("p", 49, store("c", "p", value=load("a", index))), a=(49,), c=(49,))
    assert text(simplify_function(fn)) == "\nfor p in range(49):\n    c[p] = a[p]\n"


def test_loops_of_one_iteration_are_removed():
    fn = function(loop("i", 1, loop("j", 4, store("c", at("i", "j"), value=at("i", "j")))), c=(4,))
    assert text(simplify_function(fn)) == "\nfor j in range(4):\n    c[j] = 0 + j\n"


def test_decided_conditions_are_removed():
    always = ir.If(op("lt", at(("i", 4), "j"), 16), store("c", "i", value=1))
    never = ir.If(op("ge", "j", 4), store("c", "i", value=2))
    fn = function(loop("i", 4, loop("j", 4, always, never)), c=(4,))
    assert (
        text(simplify_function(fn))
        == """
for i in range(4):
    for j in range(4):
        c[i] = 1
"""
    )


def test_a_function_without_effect_is_empty():
    fn = function(loop("i", 0, store("c", "i", value=1)), c=(4,))
    assert simplify_function(fn).body == EMPTY


def test_invariant_conditions_are_hoisted():
    cond = op("and", op("eq", "k", 7), op("lt", "j", 3))
    fn = function(loop("k", 8, loop("i", 4, loop("j", 4, ir.If(cond, store("c", "i", "j", value=1))))), c=(4, 4))
    assert (
        text(simplify_function(fn))
        == """
for k in range(8):
    if k == 7:
        for i in range(4):
            for j in range(4):
                if j < 3:
                    c[i, j] = 1
"""
    )


def test_a_condition_that_loads_is_not_hoisted():
    cond = ir.Binary("lt", load("a", 0), expr(3))
    fn = function(loop("i", 4, ir.If(cond, store("c", "i", value=1))), a=(1,), c=(4,))
    assert simplify_function(fn) == fn


def test_a_condition_narrows_bounds_inside():
    inner = ir.If(op("lt", "i", 6), ir.If(op("ge", "i", 2), store("c", "i", value=1)))
    known = ir.If(op("lt", at("i", "j"), 5), ir.If(op("lt", at("i", "j"), 5), store("c", "j", value=2)))
    fn = function(loop("i", 8, loop("j", 4, ir.If(op("lt", "i", 4), inner), known)), c=(8,))
    assert (
        text(simplify_function(fn))
        == """
for i in range(8):
    for j in range(4):
        if i < 4 and i >= 2:
            c[i] = 1
        if i + j < 5:
            c[j] = 2
"""
    )


def test_decided_selects_are_removed():
    value = ir.Select(op("ge", "i", 0), load("a", "i"), expr(7))
    fn = function(loop("i", 4, store("c", "i", value=value)), a=(4,), c=(4,))
    assert text(simplify_function(fn)) == "\nfor i in range(4):\n    c[i] = a[i]\n"


def test_arithmetic_on_data_keeps_its_form():
    value = ir.Binary("sub", ir.Binary("add", load("a", "i"), expr(1)), expr(1))
    cond = ir.Binary("gt", ir.Binary("add", load("a", "i"), expr(1)), load("a", "i"))
    fn = function(loop("i", 4, store("c", "i", value=ir.Select(cond, value, expr(0)))), a=(4,), c=(4,))
    assert simplify_function(fn) == fn


def test_a_comparison_that_could_wrap_is_not_decided():
    cond = op("gt", op("mul", "i", 1 << 30), -1)
    fn = function(loop("i", 4, store("c", "i", value=ir.Select(cond, expr(1), expr(0)))), c=(4,))
    assert simplify_function(fn) == fn


def test_vector_loops_keep_their_kind():
    fn = function(loop("i", 2, loop("j", 8, store("c", at(("i", 8), "j"), value=0), kind=VECTORIZE)), c=(16,))
    assert simplify_function(fn) == fn
