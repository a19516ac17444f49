# SPDX-License-Identifier: Apache-2.0
"""Heap slots: temporaries with disjoint live ranges share memory; stack use is bounded."""

import re

import numpy as np
import pytest
from helpers.loop_nests import PARALLEL, loop, store, text

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.interpret import interpret
from vdla.compiler.lowering import Level, PassError, check, lower
from vdla.compiler.lowering.heap_slots import STACK_LIMIT, heap_footprint, share_heap_slots
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import TARGETS
from vdla.runtime.native import build, set_threads

LARGE = 8192  # float32: too much for the stack
BYTES = 4 * LARGE


def chain(count, extent=LARGE, name="chain"):
    """Adds one `count` times, reversing the elements each time, so that none works in place."""
    a = te.placeholder((extent,), "float32", "a")
    stage = a
    for number in range(count):
        stage = te.compute((extent,), lambda i, last=stage: last[extent - 1 - i] + 1, f"t{number}")
    return te.create_function([a], [stage], name)


def slots(fn):
    found = [stmt for stmt in ir.walk(lower(fn, TARGETS["x86-64-avx2"]).body) if isinstance(stmt, ir.HeapAlloc)]
    return [stmt.slots for stmt in found]


def test_a_chain_needs_two_slots():
    assert slots(chain(6)) == [(("t0", "t2", "t4"), ("t1", "t3"))]


def test_slots_are_printed():
    lowered = lower(chain(4), TARGETS["x86-64-avx2"])
    assert text(lowered).startswith("\nwith heap_alloc(t0 t2, t1):\n    for i in range(8192):")


def test_a_live_buffer_keeps_its_slot():
    a = te.placeholder((LARGE,), "float32", "a")
    first = te.compute((LARGE,), lambda i: a[LARGE - 1 - i] * 2, "first")
    second = te.compute((LARGE,), lambda i: first[LARGE - 1 - i] * 3, "second")
    third = te.compute((LARGE,), lambda i: second[LARGE - 1 - i] + 4, "third")
    last = te.compute((LARGE,), lambda i: third[i] - first[i], "last")
    fn = te.create_function([a], [last], "kept")
    assert slots(fn) == [(("first",), ("second",), ("third",))]
    array = np.arange(LARGE, dtype=np.float32)
    np.testing.assert_array_equal(build(fn)(array), interpret(fn, {"a": array})["last"])


def test_the_largest_buffer_sizes_the_slot():
    a = te.placeholder((LARGE,), "float32", "a")
    small = te.compute((LARGE,), lambda i: a[LARGE - 1 - i] * 2, "small")
    copy = te.compute((LARGE,), lambda i: small[LARGE - 1 - i] + 1, "copy")
    large = te.compute((2 * LARGE,), lambda i: copy[i // 2], "large")
    fn = te.create_function([a], [te.compute((LARGE,), lambda i: large[2 * i + 1], "c")], "f")
    assert slots(fn) == [(("large", "small"), ("copy",))]
    assert compile_native(fn, cached=False).footprint.call == 3 * BYTES


def test_symbolic_buffers_of_one_shape_share_a_slot():
    n = te.var("n")
    a = te.placeholder((n,), "float32", "a")
    stage = a
    for number, factor in enumerate((1, 1, 1, 2)):
        shape = (n * factor,) if factor > 1 else (n,)
        stage = te.compute(shape, lambda i, last=stage, f=factor: last[i // f] + 1, f"t{number}")
    fn = te.create_function([a], [te.compute((n,), lambda i: stage[2 * i], "c")], "f")
    ((rows),) = slots(fn)
    assert sorted(rows) == [("t0", "t2"), ("t1",), ("t3",)]
    array = np.arange(9000, dtype=np.float32)
    np.testing.assert_array_equal(build(fn)(array), array + 4)


def test_a_parallel_body_allocates_once():
    a = te.placeholder((64, LARGE), "float32", "a")
    t = te.compute((64, LARGE), lambda i, j: a[i, j] * 2, "t")
    s = Schedule(te.create_function([a], [te.compute((64, LARGE), lambda i, j: t[i, LARGE - 1 - j], "c")], "f"))
    outer, _ = s.loops("c")
    s.compute_at("t", outer)
    s.parallel(outer)
    lowered = lower(s.fn, TARGETS["x86-64-avx2"])
    assert heap_footprint(lowered).call == 0
    assert heap_footprint(lowered).thread == BYTES
    built = compile_native(s.fn, cached=False)
    assert built.footprint == heap_footprint(lowered)
    piece = re.search(r"define internal void @\"f__body\.[^{]*\{(.*?)\n\}", built.llvm, re.S)[1]
    assert piece.index("aligned_alloc") < piece.index("phi")  # in front of the loop
    array = np.random.default_rng(0).random((64, LARGE), np.float32)
    for threads in (1, 2):
        set_threads(threads)
        np.testing.assert_array_equal(build(s.fn)(array), array[:, ::-1] * 2)
    set_threads(0)


def test_many_stages_do_not_overflow_the_stack():
    fn = chain(100, extent=4000)
    lowered = lower(fn, TARGETS["x86-64-avx2"])
    on_stack = [b for b in lowered.buffers.values() if b.scope == "stack"]
    assert 0 < len(on_stack) * 16000 <= STACK_LIMIT
    assert heap_footprint(lowered).call == 2 * 16000
    array = np.zeros(4000, np.float32)
    np.testing.assert_array_equal(build(fn)(array), array + 100)


def test_a_large_stack_buffer_moves_to_the_heap():
    s = Schedule(chain(2, extent=1 << 22))
    s.set_scope("t0", "stack")
    assert lower(s.fn, TARGETS["x86-64-avx2"]).buffers["t0"].scope == "heap"
    np.testing.assert_array_equal(build(s.fn)(np.zeros(1 << 22, np.float32)), np.full(1 << 22, 2, np.float32))


def test_a_buffer_moved_to_the_heap_is_moved_in_every_loop():
    loops = [
        loop(var, 2, ir.Alloc(held, ir.seq(*(store(name, 0, value=var) for name in held))), kind=PARALLEL)
        for var, held in (("i", ("t",)), ("j", ("t", "u")))
    ]
    large = {name: ir.Buffer(name, (STACK_LIMIT // 6,), "int32", "stack") for name in "tu"}
    shared = share_heap_slots(ir.Function("f", (), large, ir.seq(*loops)))
    check(shared, Level.LOWERED)
    assert (
        text(shared)
        == """
for i in parallel(2):
    with heap_alloc(t):
        t[0] = i
for j in parallel(2):
    with heap_alloc(t):
        with alloc(u):
            t[0] = j
            u[0] = j
"""
    )


def test_a_lowered_function_has_slots_for_the_heap():
    fn = chain(2)
    held = {**fn.buffers, "t0": ir.Buffer("t0", (LARGE,), "float32", "heap")}
    store = ir.Store("t0", (ir.Const(0),), ir.Const(0.0, "float32"))
    bare = ir.Function("f", fn.params, held, ir.Alloc(("t0",), store))
    with pytest.raises(PassError) as error:
        check(bare, Level.LOWERED)
    assert str(error.value) == "f: alloc of t0 must be on the stack, got a heap buffer outside heap_alloc"
    check(share_heap_slots(bare), Level.LOWERED)


def test_hundreds_of_stages_do_not_nest():
    fn = chain(300, extent=40)
    np.testing.assert_array_equal(build(fn)(np.zeros(40, np.float32)), np.full(40, 300, np.float32))
