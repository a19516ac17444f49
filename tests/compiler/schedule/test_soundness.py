# SPDX-License-Identifier: Apache-2.0
"""Rewrites that the fuzzer found to be accepted though they lose a value: each is refused, with its
reason."""

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.analysis import block_path, replace_at
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule, ScheduleError

A = te.placeholder((4,), "int32", "a")


def padded():
    b = te.compute((4,), lambda i: A[i] + 1, "b")
    c = te.compute((6,), lambda i: te.select((i >= 1) & (i < 5), b[i - 1], 7), "c")
    return Schedule(te.create_function([A], [c], "f"))


def outer_sum():
    b = te.compute((4,), lambda i: A[i] + 1, "b")
    return Schedule(te.create_function([A], [te.compute((4, 4), lambda i, j: b[i] * b[j], "c")], "f"))


def alone():
    return Schedule(te.create_function([A], [te.compute((4,), lambda i: A[i] + 1, "c")], "f"))


def recurrence():
    start = te.full((4,), 0, "int32", "start")
    h = te.scan(3, lambda t, h: te.compute((4,), lambda i: h[i] + A[i], "h"), start)
    return Schedule(te.create_function([A], [te.compute((3, 4), lambda t, i: h[t, i] * 2, "c")], "f"))


def symbolic_rows():
    x = te.placeholder((4, te.var("n")), "int32", "x")
    b = te.compute(x.shape, lambda i, j: x[i, j] + 1, "b")
    return Schedule(te.create_function([x], [te.compute(x.shape, lambda i, j: b[i, j] * 2, "c")], "f"))


def cut():
    b = te.compute((6,), lambda i: te.cast("int32", i), "b")
    s = Schedule(te.create_function([A], [te.compute((4,), lambda i: b[i + 1] + A[i], "c")], "f"))
    s.reverse_compute_at("c", "i")
    return s


def uneven_partial_sums():
    k = te.reduce_axis(3, "k")
    x = te.placeholder((4, 3), "int32", "x")
    s = Schedule(te.create_function([x], [te.compute((4,), lambda i: te.sum(x[i, k], axis=k), "c")], "f"))
    s.split("k", factor=2)
    s.rfactor("k_i")
    return s


def read_after_the_last_term():
    s = Schedule(sums_of_rows())
    s.reverse_compute_at("c", "k")
    s.split("k", factor=2)
    return s


def fused_and_cut():
    x = te.placeholder((6, 4), "int32", "x")
    b = te.compute((6, 4), lambda i, j: x[i, j] + 1, "b")
    s = Schedule(te.create_function([x], [te.compute((6, 4), lambda i, j: b[i, j] * 2, "c")], "f"))
    s.fuse("i", "j", name="f")
    s.split("f", factor=3)
    return s


def blockized():
    s = alone()
    s.split("i", factor=2)
    s.blockize("i_i")
    return s


@pytest.mark.parametrize(
    ("make", "rewrite", "message"),
    [
        (
            padded,
            lambda s: s.reverse_compute_at("c", "i"),
            "reverse_compute_at of c at i: c must compute all of its output inside it, "
            "got dimension 0 of c: reads 0..5, computed 1..4",
        ),
        (
            alone,
            lambda s: s.reverse_compute_at("c", "i"),
            "reverse_compute_at of c at i: the loop must lie around a producer, got a loop of c alone",
        ),
        (
            outer_sum,
            lambda s: s.reverse_compute_at("c", "i"),
            "reverse_compute_at of c at i: c must read only what b computes in the same iteration of i, "
            "got dimension 0 of b: reads 0..3, computed i..i",
        ),
        (
            recurrence,
            lambda s: s.reverse_inline("c"),
            "reverse_inline of c: the producer h must not read its own results, got a recurrence",
        ),
        (
            symbolic_rows,
            lambda s: s.storage_align("b", 0, 8, 1),
            "storage_align of b: the dimensions behind must be numbers, got n",
        ),
        (
            cut,
            lambda s: s.blockize("c_i"),
            "blockize of c_i: the binding of vi must not begin before 0, got i - 1, cut by a condition inside",
        ),
        (
            uneven_partial_sums,
            lambda s: s.compute_at("c_rf", s.loops("c")[-1]),
            "compute_at of c_rf at c_k_i: the terms that c_rf sums must not depend on several axes, "
            "got the condition k_o * 2 + k_i < 3",
        ),
        (
            uneven_partial_sums,
            lambda s: s.reverse_compute_at("c", "k_i"),
            "reverse_compute_at of c at k_i: c_rf must have a term in the last iteration of k_o, "
            "got terms where k_o * 2 + k_i < 3",
        ),
        (
            blockized,
            lambda s: s.full_extent("c", "vi"),
            "full_extent of c over vi: the axis must be driven by a loop of its own, got vi_o * 2 + i_i",
        ),
        (
            read_after_the_last_term,
            lambda s: s.reorder("k_i", "k_o"),
            "reorder of k_i, k_o: the loops over which t reduces must keep their order, "
            "as c inside reads it after its last term, got k_i, k_o",
        ),
        (
            fused_and_cut,
            lambda s: s.reverse_compute_at("c", "f_o"),
            "reverse_compute_at of c at f_o: c must read a region of b that is computed without gaps, "
            "got (f_o * 3 + f_i) // 4",
        ),
        (
            blockized,
            lambda s: s.split("i_i", factor=1, names=("vi_o", "q")),
            "split of i_i: a loop name must be new in the function, got vi_o",
        ),
    ],
)
def test_a_rewrite_that_loses_a_value_is_refused(make, rewrite, message):
    schedule = make()
    before = schedule.fn
    with pytest.raises(ScheduleError) as error:
        rewrite(schedule)
    assert str(error.value) == message
    assert schedule.fn is before


def test_axes_of_a_copy_do_not_shadow_symbols():
    n = te.var("n")
    x = te.placeholder((n, n), "int32", "x")
    c = te.compute((n,), lambda i: x[i, n - 1 - i], "c")
    schedule = Schedule(te.create_function([x], [c], "f"))
    schedule.cache_read("c", "x", "global")
    a = np.arange(9, dtype=np.int32).reshape(3, 3)
    np.testing.assert_array_equal(interpret(schedule.fn, {"x": a})["c"], a[[0, 1, 2], [2, 1, 0]])


def test_partial_sums_have_their_own_storage():
    schedule = Schedule(sums_of_rows())
    schedule.storage_align("t", 0, 8, 1)
    schedule.rfactor("k")
    notes = {s.name: s.annotations for s in ir.walk(schedule.fn.body) if isinstance(s, ir.Block)}
    assert "storage_align" in notes["t"] and "storage_align" not in notes["t_rf"]


def sums_of_rows():
    k = te.reduce_axis(3, "k")
    x = te.placeholder((4, 5, 3), "int32", "x")
    t = te.compute((4, 5), lambda i, j: te.sum(x[i, j, k], axis=k), "t")
    return te.create_function([x], [te.compute((4, 5), lambda i, j: t[i, j] * 2, "c")], "f")


def test_reverse_inline_keeps_symbols():
    n = te.var("n")
    x = te.placeholder((n,), "int32", "x")
    b = te.compute((n,), lambda i: x[i] + 1, "b")
    schedule = Schedule(te.create_function([x], [te.compute((n,), lambda i: b[i] * n, "c")], "f"))
    schedule.reverse_inline("c")
    np.testing.assert_array_equal(interpret(schedule.fn, {"x": np.arange(3, dtype=np.int32)})["c"], [3, 6, 9])


def test_reordering_keeps_the_consumer_after_the_last_term():
    schedule = Schedule(sums_of_rows())
    schedule.split("k", factor=1)
    schedule.reverse_compute_at("c", "k_i")
    schedule.reorder("k_i", "k_o")
    x = np.arange(60, dtype=np.int32).reshape(4, 5, 3)
    np.testing.assert_array_equal(interpret(schedule.fn, {"x": x})["c"], x.sum(axis=2) * 2)


def test_axes_of_a_blockized_block_do_not_shadow_loops():
    schedule = alone()
    schedule.split("i", factor=2, names=("p", "vi_o"))
    schedule.blockize("vi_o")
    assert "block c_o(c_vi_o=p):" in str(schedule.fn)
    np.testing.assert_array_equal(interpret(schedule.fn, {"a": np.arange(4, dtype=np.int32)})["c"], [1, 2, 3, 4])


@pytest.mark.parametrize(("symbol", "term"), [("vp", "vq"), ("vq", "vp"), ("n", "vi")])
def test_axes_of_partial_sums_do_not_shadow_symbols_or_axes(symbol, term):
    n, k = te.var(symbol), te.reduce_axis(6, "k")
    x = te.placeholder((n, 6), "int32", "x")
    total = te.compute((n,), lambda i: te.sum(x[n - 1 - i, k] * n, axis=k), "c")
    schedule = Schedule(te.create_function([x], [total], "f"))
    schedule.split("i", factor=1, names=("a", "b"))
    schedule.split("k", factor=2, names=("q", term.removeprefix("v") if term == "vi" else "p"))
    schedule.rfactor(schedule.loops("c")[-1])
    a = np.arange(18, dtype=np.int32).reshape(3, 6)
    np.testing.assert_array_equal(interpret(schedule.fn, {"x": a})["c"], a[::-1].sum(axis=1) * 3)


def test_fused_and_split_loops_compute_the_whole_region():
    schedule = fused_and_cut()
    schedule.split("f_o", nparts=1)
    schedule.reverse_compute_at("c", "f_o_o")
    x = np.arange(24, dtype=np.int32).reshape(6, 4)
    np.testing.assert_array_equal(interpret(schedule.fn, {"x": x})["c"], x * 2 + 2)


def test_loops_are_fused_to_no_more_iterations_than_an_int32_counts():
    fn = te.create_function([], [te.compute((1 << 16, 1 << 16), lambda i, j: i + j, "c")], "f")
    with pytest.raises(ScheduleError) as error:
        Schedule(fn).fuse("i", "j")
    rule = "both loops must have at most 2147483648 iterations together"
    assert str(error.value) == f"fuse of i and j: {rule}, got 4294967296"


def fused_copy(rows, read):
    """A copy of the first `read` of `rows` rows, whose loops were fused and cut where the rows that
    are read end."""
    x = te.placeholder((rows, 5), "int32", "x")
    schedule = Schedule(te.create_function([x], [te.compute((read, 5), lambda i, j: x[i, j] * 2, "c")], "f"))
    copy = schedule.cache_read("c", "x", "stack")
    schedule.split(schedule.fuse(*schedule.loops(copy), name="f"), factor=4)
    return schedule


def test_rows_excluded_by_a_condition_do_not_count_as_computed():
    schedule = fused_copy(rows=7, read=6)
    with pytest.raises(ScheduleError) as error:
        schedule.cache_write("x_stack", "heap")
    assert str(error.value) == (
        "cache_write of x_stack: x_stack_copy must read only what x_stack computes before it, "
        "got dimension 0 of x_stack_heap: reads 0..6, computed 0..5"
    )


def test_a_condition_that_holds_for_all_rows_changes_nothing():
    schedule = fused_copy(rows=6, read=6)
    schedule.cache_write("x_stack", "heap")
    x = np.arange(30, dtype=np.int32).reshape(6, 5)
    np.testing.assert_array_equal(interpret(schedule.fn, {"x": x})["c"], x * 2)


def test_rows_cut_by_a_condition_are_not_a_region():
    schedule = fused_copy(rows=6, read=6)
    path = block_path(schedule.fn, "x_stack", "test")
    place = ir.Binary("add", ir.Binary("mul", ir.Var("f_o"), ir.Const(4)), ir.Var("f_i"))
    cut = replace(path[-1], predicate=ir.Binary("lt", place, ir.Const(28)))
    with pytest.raises(ScheduleError) as error:
        Schedule(replace_at(schedule.fn, path, cut)).cache_write("x_stack", "heap")
    assert str(error.value) == (
        "cache_write of x_stack: x_stack_copy must read a region of x_stack_heap that is computed without gaps, "
        "got where f_o * 4 + f_i < 28"
    )
