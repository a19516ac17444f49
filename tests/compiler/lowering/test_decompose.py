# SPDX-License-Identifier: Apache-2.0
"""The init of a reduction as a nest of its own."""

import numpy as np
from helpers.loop_nests import expr, function, load, loop, op, store, text

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret
from vdla.compiler.lowering.blocks import decompose
from vdla.compiler.schedule import Schedule


def sums():
    a = te.placeholder((10, 6), "int32", "a")
    k = te.reduce_axis(6, "k")
    return Schedule(te.create_function([a], [te.compute((10,), lambda i: te.sum(a[i, k], axis=k), "c")], "sums"))


def test_the_init_precedes_the_outermost_reduction_loop():
    s = sums()
    s.split("i", factor=4, names=("io", "ii"))
    s.split("k", factor=4, names=("ko", "ki"))
    s.reorder("io", "ko", "ii", "ki")
    s.unroll("ii")
    assert (
        text(decompose(s.fn))
        == """
for io in range(3):
    for ii_init in unroll(4):
        block c_init(vi=io * 4 + ii_init) where io * 4 + ii_init < 10:
            c[vi] = 0
    for ko in range(2):
        for ii in unroll(4):
            for ki in range(4):
                block c(vi=io * 4 + ii, vk=reduce ko * 4 + ki) where io * 4 + ii < 10 and ko * 4 + ki < 6:
                    c[vi] = c[vi] + a[vi, vk]
"""
    )


def test_nested_blocks_are_flattened():
    s = sums()
    s.split("i", factor=5, names=("io", "ii"))
    s.reorder("io", "k", "ii")
    s.blockize("ii")
    assert (
        text(decompose(s.fn))
        == """
for io in range(2):
    for ii_init in range(5):
        block c_init(vi=io * 5 + ii_init):
            c[vi] = 0
    for k in range(6):
        for ii in range(5):
            block c(vi=io * 5 + ii, vk=reduce k):
                c[vi] = c[vi] + a[vi, k]
""".replace("a[vi, k]", "a[vi, vk]")
    )


def block(binding, predicate=None):
    """`for i in 4: for k in 6:` around a sum over k, bound to the given value."""
    axes = (ir.Axis("vi", 8), ir.Axis("vk", 6, ir.AxisKind.REDUCE))
    body = store("c", "vi", value=ir.Binary("add", load("c", "vi"), load("a", "vk")))
    nest = ir.Block(
        name="c", axes=axes, values=(binding, expr("k")), body=body, init=store("c", "vi", value=0), predicate=predicate
    )
    return function(loop("k", 6, loop("i", 4, nest)), a=(6,), c=(8,))


def test_a_predicate_excluding_the_first_iteration_keeps_init_inside():
    fn = block(expr("i"), op("ge", "k", 2))
    assert (
        text(decompose(fn))
        == """
for k in range(6):
    for i in range(4):
        block c(vi=i, vk=reduce k) where k >= 2:
            if vk == 0:
                c[vi] = 0
            c[vi] = c[vi] + a[vk]
"""
    )


def test_an_element_initialised_repeatedly_keeps_the_init_inside():
    fn = block(op("floordiv", "i", 2))
    assert "if vk == 0:" in text(decompose(fn))


def test_a_reduction_of_one_term_is_initialised_before_its_block():
    a = te.placeholder((4, 1), "int32", "a")
    k = te.reduce_axis(1, "k")
    fn = te.create_function([a], [te.compute((4,), lambda i: te.sum(a[i, k], axis=k), "c")], "one")
    assert (
        text(decompose(fn))
        == """
for i in range(4):
    for k in range(1):
        block c_init(vi=i):
            c[vi] = 0
        block c(vi=i, vk=reduce k):
            c[vi] = c[vi] + a[vi, vk]
"""
    )


def test_multi_stores_are_initialised_together():
    x = te.placeholder((3, 7), "int8", "x")
    k = te.reduce_axis(7, "k")
    value, place = te.compute((3,), lambda i: te.argmax(x[i, k], k), ("value", "place"))
    fn = te.create_function([x], [value, place], "largest")
    assert text(decompose(fn)).startswith("""
for i in range(3):
    block value_init(vi=i):
        value[vi], place[vi] = -128, 2147483647
    for k in range(7):
        block value(""")


def test_a_nested_reduction_is_initialised_at_its_own_loops():
    a = te.placeholder((4, 5), "int32", "a")
    i, k = te.reduce_axis(4, "i"), te.reduce_axis(5, "k")
    rows = te.compute((4,), lambda r: te.sum(a[r, k], axis=k), "rows")
    total = te.compute((1,), lambda z: te.sum(rows[i] + z, axis=i), "total")
    s = Schedule(te.create_function([a], [total], "nested"))
    s.compute_at("rows", "i")
    lowered = decompose(s.fn)
    arrays = {"a": np.arange(20, dtype="int32").reshape(4, 5)}
    np.testing.assert_array_equal(interpret(lowered, arrays)["total"], [190])
    assert text(lowered).index("total_init") < text(lowered).index("for i ") < text(lowered).index("rows_init")


def test_an_init_that_reads_results_of_its_loops_stays_inside():
    a, b = te.placeholder((3, 4), "int32", "a"), te.placeholder((3,), "int32", "b")
    first = te.compute((3,), lambda i: b[i] * 2, "first")
    k = te.reduce_axis(4, "k")
    c = te.compute((3,), lambda i: te.sum(a[i, k], axis=k, init=first[i]), "c")
    s = Schedule(te.create_function([a, b], [c], "sums"))
    s.compute_at("first", "k")
    lowered = decompose(s.fn)
    assert "if vk == 0:" in text(lowered)
    arrays = {"a": np.arange(12, dtype=np.int32).reshape(3, 4), "b": np.array([10, 20, 30], np.int32)}
    assert interpret(lowered, arrays)["c"].tolist() == [26, 62, 98]
