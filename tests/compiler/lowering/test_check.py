# SPDX-License-Identifier: Apache-2.0
"""The errors for malformed functions."""

from dataclasses import replace

import pytest
from helpers.loop_nests import PARALLEL, UNROLL, VECTORIZE, at, expr, function, load, loop, op, store

from vdla.compiler import ir
from vdla.compiler.arith import TRUE
from vdla.compiler.ir import Match
from vdla.compiler.lowering import Level, PassError, check

TEMPORARY = {"temporaries": ("t",), "t": (4,), "c": (4,)}
NEST = ir.Block(
    name="c",
    axes=(ir.Axis("vi", 4),),
    values=(expr("i"),),
    body=store("c", "vi", value=0),
    init=store("c", "vi", value=1),
)
FLOAT = ir.Const(1.0, "float32")


def step(entries=None, conditions=None):
    """An intrinsic call with the given operands."""
    return ir.IntrinsicCall(Match(None, {}, entries or {}, {}, conditions or {}), store("c", 0, value=0))


ERRORS = {
    "f: a variable must be bound by an enclosing loop, got j": (
        loop("i", 4, store("c", "j", value=0)), Level.SCHEDULED),
    "f: loop i must have a unique name, got a nested loop of that name": (
        loop("i", 4, loop("i", 4, store("c", "i", value=0))), Level.SCHEDULED),
    "f: a store to d must name a buffer of the function, got another name": (store("d", 0, value=0), Level.SCHEDULED),
    "f: a store to c must have 1 indices, got 2": (store("c", 0, 0, value=0), Level.SCHEDULED),
    "f: a value of c must be int32, got float32 1.0": (store("c", 0, value=FLOAT), Level.SCHEDULED),
    "f: an index of c must be int32, got float32 1.0": (store("c", FLOAT, value=0), Level.SCHEDULED),
    "f: both sides of 1 + 1.0 must have one type, got int32 and float32": (
        store("c", 0, value=ir.Binary("add", expr(1), FLOAT)), Level.SCHEDULED),
    "f: both sides of select(True, 1, 1.0) must have one type, got int32 and float32": (
        store("c", 0, value=ir.Select(TRUE, expr(1), FLOAT)), Level.SCHEDULED),
    "f: a condition must be bool, got int32 1": (ir.If(expr(1), store("c", 0, value=0)), Level.LOOPS),
    "f: a condition must be bool, got int32 2": (
        store("c", 0, value=ir.Select(expr(2), expr(1), expr(1))), Level.SCHEDULED),
    "f: a load from d must name a buffer of the function, got another name": (
        store("c", 0, value=load("d", 0)), Level.SCHEDULED),
    "f: a prefetch of c must have 1 indices, got 0": (ir.Prefetch("c", ()), Level.PLACED),
    "f: the extent of loop i must be int32, got float32 1.0": (loop("i", FLOAT, store("c", 0, value=0)), Level.LOOPS),
    "f: a variable must be bound by an enclosing loop, got i": (
        loop("i", 4, loop("j", ir.Var("i"), store("c", "j", value=0))), Level.LOOPS),
    "f: axis vi of block c must be int32, got float32 1.0": (replace(NEST, values=(FLOAT,)), Level.SCHEDULED),
    "f: the predicate of block c must be bool, got int32 3": (
        loop("i", 4, replace(NEST, predicate=expr(3))), Level.SCHEDULED),
    "f: the entry of acc must be int32, got float32 1.0": (step(entries={"acc": (FLOAT,)}), Level.LOOPS),
    "f: the condition some must be bool, got int32 4": (step(conditions={"some": expr(4)}), Level.LOOPS),
    "f: block c must have no init, got level DECOMPOSED": (loop("i", 4, NEST), Level.DECOMPOSED),
    "f: block c must be removed, got level LOOPS": (loop("i", 4, NEST), Level.LOOPS),
    "f: a load from t must be inside an alloc of it, got an access outside": (
        store("c", 0, value=load("t", 0)), Level.PLACED),
    "f: alloc of t must not be nested, got an alloc inside another": (
        ir.Alloc(("t",), ir.Alloc(("t",), store("t", 0, value=0))), Level.PLACED),
    "f: a store to t must be inside an alloc of it, got an access outside": (
        ir.seq(ir.HeapAlloc((("t",),), store("t", 0, value=0)), store("t", 0, value=0)), Level.LOWERED),
    "f: alloc of d must name an intermediate buffer, got another name": (
        ir.HeapAlloc((("d",),), store("c", 0, value=0)), Level.LOWERED),
    "f: alloc of c must name an intermediate buffer, got another name": (
        ir.Alloc(("c",), store("c", 0, value=0)), Level.PLACED),
    "f: loop i must not be unroll at this level, got level UNROLLED": (
        loop("i", 4, store("c", "i", value=0), kind=UNROLL), Level.UNROLLED),
    "f: loop i must not be vthread at this level, got level LOOPS": (
        loop("i", 4, store("c", "i", value=0), kind=ir.LoopKind.VTHREAD), Level.LOOPS),
    "f: parallel loop i must contain no other, got j": (
        loop("i", 4, loop("j", 4, store("c", "i", value=0), kind=PARALLEL), kind=PARALLEL), Level.LOWERED),
    "f: vector loop i must contain a single store, got Seq": (
        loop("i", 4, *[store("c", "i", value=0)] * 2, kind=VECTORIZE), Level.LOWERED),
    "f: vector loop i must have a constant extent, got n": (
        loop("i", ir.Var("n"), store("c", "i", value=0), kind=VECTORIZE), Level.LOWERED),
}  # fmt: skip


@pytest.mark.parametrize("message", ERRORS)
def test_a_malformed_function_is_rejected(message):
    body, level = ERRORS[message]
    with pytest.raises(PassError) as error:
        check(function(body, ("n",), **TEMPORARY), level)
    assert str(error.value) == message


def test_block_axes_are_bound_only_inside_the_block():
    check(function(loop("i", 4, NEST), **TEMPORARY), Level.SCHEDULED)
    outside = ir.seq(loop("i", 4, NEST), store("c", "vi", value=0))
    with pytest.raises(PassError, match="a variable must be bound by an enclosing loop, got vi"):
        check(function(outside, **TEMPORARY), Level.SCHEDULED)


def test_a_shared_expression_is_checked_in_each_scope():
    shared = at("i", 1)
    body = ir.seq(loop("i", 3, store("c", shared, value=0)), store("c", shared, value=1))
    with pytest.raises(PassError, match="a variable must be bound by an enclosing loop, got i"):
        check(function(body, **TEMPORARY), Level.SCHEDULED)


def test_the_lowered_form_is_accepted():
    lanes = loop("j", 4, ir.If(op("lt", "j", 3), store("t", "j", value=load("c", "j"))), kind=VECTORIZE)
    check(function(loop("i", 4, ir.Alloc(("t",), lanes), kind=PARALLEL), **TEMPORARY), Level.LOWERED)
