# SPDX-License-Identifier: Apache-2.0
"""Unrolled loops."""

import pytest
from helpers.loop_nests import UNROLL, VECTORIZE, at, function, load, loop, op, store, text

from vdla.compiler import ir
from vdla.compiler.lowering import PassError
from vdla.compiler.lowering.unroll import UNROLL_LIMIT, unroll


def test_indices_and_conditions_are_folded():
    index = at(("i", 4), "j")
    body = ir.If(op("lt", index, 10), store("c", index, value=load("a", "j", "i")))
    fn = function(loop("j", 4, loop("i", 3, body, kind=UNROLL)), a=(4, 3), c=(12,))
    assert (
        text(unroll(fn))
        == """
for j in range(4):
    c[j] = a[j, 0]
    c[j + 4] = a[j, 1]
    if j + 8 < 10:
        c[j + 8] = a[j, 2]
"""
    )


def test_nested_loops_unroll_and_substitute_values():
    inner = loop("j", 2, store("c", "i", "j", value=at(("i", 2), "j")), kind=UNROLL)
    fn = function(loop("i", 2, inner, kind=UNROLL), c=(2, 2))
    assert (
        text(unroll(fn))
        == """
c[0, 0] = 0 * 2 + 0
c[0, 1] = 0 * 2 + 1
c[1, 0] = 1 * 2 + 0
c[1, 1] = 1 * 2 + 1
"""
    )


def test_invariant_expressions_are_shared_by_copies():
    value = ir.Binary("add", load("a", at(("j", 3), 1)), load("a", "i"))
    fn = function(loop("j", 2, loop("i", 4, store("c", "j", "i", value=value), kind=UNROLL)), a=(9,), c=(2, 4))
    copies = unroll(fn).body.body.stmts
    assert len(copies) == 4
    assert len({id(copy.value.a) for copy in copies}) == 1


def test_empty_copies_are_removed():
    fn = function(loop("i", 4, ir.If(op("eq", "i", 2), store("c", "i", value=1)), kind=UNROLL), c=(4,))
    assert text(unroll(fn)) == "\nc[2] = 1\n"


def test_an_inner_vector_loop_is_kept():
    lanes = loop("j", 8, store("c", at(("i", 8), "j"), value=0), kind=VECTORIZE)
    fn = function(loop("i", 2, lanes, kind=UNROLL), c=(16,))
    assert (
        text(unroll(fn))
        == """
for j in vectorize(8):
    c[j] = 0
for j in vectorize(8):
    c[j + 8] = 0
"""
    )


def test_unrolling_beyond_the_limit_is_rejected():
    inner = loop("j", 100, store("c", "i", "j", value=0), kind=UNROLL)
    fn = function(loop("i", 1000, inner, kind=UNROLL), c=(1000, 100))
    with pytest.raises(PassError) as error:
        unroll(fn)
    assert str(error.value) == (
        f"unroll of i: the loop must expand to at most {UNROLL_LIMIT} stores, got 1000 iterations of 100"
    )


def test_a_symbolic_extent_is_rejected():
    fn = function(loop("i", ir.Var("n"), store("c", "i", value=0), kind=UNROLL), ("n",), c=(ir.Var("n"),))
    with pytest.raises(PassError) as error:
        unroll(fn)
    assert str(error.value) == "unroll of i: the extent must be a number, got n; split the loop first"
