# SPDX-License-Identifier: Apache-2.0
"""Vector loops move inwards to single stores."""

from helpers.loop_nests import SERIAL, VECTORIZE, at, function, load, loop, op, store, text

from vdla.compiler import ir
from vdla.compiler.lowering.vectorize import vectorize


def add(buffer, *indices, value):
    return store(buffer, *indices, value=ir.Binary("add", load(buffer, *indices), value))


def test_vector_loops_move_into_reductions_and_sequences():
    body = [store("c", "j", value=0), loop("k", 4, add("c", "j", value=load("a", "k", "j")))]
    fn = function(loop("j", 8, *body, kind=VECTORIZE), a=(4, 8), c=(8,))
    assert (
        text(vectorize(fn))
        == """
for j in vectorize(8):
    c[j] = 0
for k in range(4):
    for j in vectorize(8):
        c[j] = c[j] + a[k, j]
"""
    )


def test_statements_independent_of_the_lane_run_once():
    body = [store("t", 0, value=load("a", "i")), store("c", "i", "j", value=load("t", 0))]
    fn = function(loop("i", 2, loop("j", 8, *body, kind=VECTORIZE)), a=(2,), t=(1,), c=(2, 8))
    assert (
        text(vectorize(fn))
        == """
for i in range(2):
    t[0] = a[i]
    for j in vectorize(8):
        c[i, j] = t[0]
"""
    )


def test_only_conditions_on_lanes_become_masks():
    stores = ir.seq(store("b", "j", value=0), store("c", "j", value=1))
    inner = ir.If(op("lt", "i", 3), ir.If(op("lt", at("i", "j"), 9), stores))
    fn = function(loop("i", 4, loop("j", 8, inner, kind=VECTORIZE)), b=(8,), c=(8,))
    assert (
        text(vectorize(fn))
        == """
for i in range(4):
    if i < 3:
        for j in vectorize(8):
            if i + j < 9:
                b[j] = 0
        for j in vectorize(8):
            if i + j < 9:
                c[j] = 1
"""
    )


def test_a_range_of_lanes_becomes_a_shorter_vector():
    inner = ir.If(op("and", op("ge", "j", 2), op("lt", at("j", 8), 14)), store("c", at("j", 8), value=0))
    fn = function(loop("j", 8, inner, kind=VECTORIZE), c=(16,))
    assert (
        text(vectorize(fn))
        == """
for j in vectorize(4):
    c[j + 10] = 0
"""
    )


def test_the_outer_of_two_vector_loops_becomes_serial():
    fn = function(loop("i", 4, loop("j", 8, store("c", "i", "j", value=0), kind=VECTORIZE), kind=VECTORIZE), c=(4, 8))
    assert (
        text(vectorize(fn))
        == """
for i in range(4):
    for j in vectorize(8):
        c[i, j] = 0
"""
    )


def test_a_long_loop_is_split_into_vectors():
    fn = function(loop("j", 150, store("c", "j", value=load("a", "j")), kind=VECTORIZE), a=(150,), c=(150,))
    assert (
        text(vectorize(fn))
        == """
for j_v in range(2):
    for j in vectorize(64):
        c[j_v * 64 + j] = a[j_v * 64 + j]
for j in vectorize(22):
    c[j + 128] = a[j + 128]
"""
    )


def test_the_loop_over_vectors_has_a_fresh_name():
    copies = [loop("j", 128, store("c", "j_v", "j", value=n), kind=VECTORIZE) for n in range(2)]
    fn = function(loop("j_v", 2, *copies), c=(2, 128))
    assert (
        text(vectorize(fn))
        == """
for j_v in range(2):
    for j_j_v in range(2):
        for j in vectorize(64):
            c[j_v, j_j_v * 64 + j] = 0
    for j_j_v in range(2):
        for j in vectorize(64):
            c[j_v, j_j_v * 64 + j] = 1
"""
    )


def test_a_symbolic_loop_becomes_serial():
    n = ir.Var("n")
    fn = function(loop("j", n, store("c", "j", value=0), kind=VECTORIZE), ("n",), c=(n,))
    assert vectorize(fn).body.kind is SERIAL


def test_lanes_that_store_to_one_element_become_serial():
    fn = function(loop("j", 8, store("c", 0, value=load("a", "j")), kind=VECTORIZE), a=(8,), c=(1,))
    assert vectorize(fn).body.kind is SERIAL


def test_a_condition_changed_by_the_body_is_evaluated_once():
    cond = ir.Binary("lt", load("c", "j"), ir.Const(5))
    body = ir.seq(store("c", "j", value=9), store("b", "j", value=load("c", "j")))
    fn = function(loop("j", 8, ir.If(cond, body), kind=VECTORIZE), b=(8,), c=(8,))
    assert vectorize(fn).body.kind is SERIAL
