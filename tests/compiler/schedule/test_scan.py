# SPDX-License-Identifier: Apache-2.0
"""Schedules of recurrences and of reducers of several values: what is legal keeps the meaning, the
rest is refused."""

import numpy as np
import pytest
from helpers.random_schedules import EXPECTED, FUNCTIONS, inputs

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule, ScheduleError


def recurrence() -> Schedule:
    return Schedule(FUNCTIONS["recurrence"])


def carried() -> Schedule:
    return Schedule(FUNCTIONS["carried"])


def greatest() -> Schedule:
    return Schedule(FUNCTIONS["greatest"])


LEGAL = [
    ("recurrence", lambda s: s.split("t", 2)),
    ("recurrence", lambda s: s.compute_at("total", "gate_i")),
    ("recurrence", lambda s: s.parallel("i")),
    ("recurrence", lambda s: (s.reorder("k", "i"), s.vectorize("i"))),
    ("recurrence", lambda s: s.inline("wide")),
    ("recurrence", lambda s: s.inline("gate")),
    ("recurrence", lambda s: s.decompose_reduction("total", "i")),
    ("recurrence", lambda s: (s.rfactor("k", 2), s.vectorize("k"))),
    ("recurrence", lambda s: s.unroll("t")),
    ("recurrence", lambda s: (s.inline("wide"), s.reverse_compute_at("last", "t"))),
    ("recurrence", lambda s: s.reverse_compute_at("h", "gate_i")),
    ("recurrence", lambda s: s.reverse_compute_at("gate", "k")),
    ("recurrence", lambda s: (s.split("t", 3), s.split("gate_i", 3), s.reverse_compute_at("h", "gate_i_i"))),
    ("recurrence", lambda s: (s.split("t", 3), s.split("gate_i", 3), s.compute_at("total", "gate_i_i"))),
    ("recurrence", lambda s: s.inline("h")),
    ("recurrence", lambda s: s.inline("u")),
    ("carried", lambda s: (s.reorder("k", "i"), s.decompose_reduction("h", "k"), s.vectorize("i"))),
    ("carried", lambda s: (s.decompose_reduction("h", "i"), s.parallel("i"), s.parallel("h_init_i"))),
    ("carried", lambda s: s.cache_write("h", "local")),
    ("carried", lambda s: s.reverse_compute_at("y", "t")),
    ("greatest", lambda s: s.compute_at("value", "out_i")),
    ("greatest", lambda s: s.reverse_compute_at("out", "value_i")),
    ("greatest", lambda s: (s.split("k", 3), s.rfactor("k_i", 1), s.vectorize("k_i"))),
    ("greatest", lambda s: (s.split("k", 3), s.rfactor("k_o"), s.parallel("k_o"))),
    ("greatest", lambda s: s.decompose_reduction("value", "k")),
    ("greatest", lambda s: s.parallel("value_i")),
]


@pytest.mark.parametrize(("name", "rewrite"), LEGAL)
def test_legal_rewrites_of_recurrences_preserve_results(name, rewrite):
    s = Schedule(FUNCTIONS[name])
    rewrite(s)
    assert s.fn is not FUNCTIONS[name]
    got = interpret(s.fn, inputs(s.fn))
    for output, array in EXPECTED[name].items():
        np.testing.assert_array_equal(got[output], array, err_msg=str(s))


REFUSED = [
    (recurrence, lambda s: s.parallel("t"), "parallel of t: the loop must be spatial in block total, got scan"),
    (recurrence, lambda s: s.vectorize("t"), "vectorize of t: the loop must be spatial in block total, got scan"),
    (recurrence, lambda s: s.bind("t", "blockIdx.x"),
     "bind of t: the loop must be spatial in block total, got scan"),
    (recurrence, lambda s: s.vthread("t"), "vthread of t: the loop must be spatial or reduce in block total, got scan"),
    (recurrence, lambda s: (s.split("t", 2), s.reorder("t_i", "t_o")),
     "reorder of t_i, t_o: t_i must stay on its side of t_o, over which block total scans, got it outside"),
    (recurrence, lambda s: s.compute_at("total", "last_i"),
     "compute_at of total at last_i: every reader of total must lie inside last_i, got gate outside"),
    (recurrence, lambda s: s.compute_at("h", "last_i"),
     "compute_at of h at last_i: every reader of h must lie inside last_i, got total, u outside"),
    (recurrence, lambda s: s.compute_at("gate", "h_i"),
     "compute_at of gate at h_i: every reader of gate must lie inside h_i, got u outside"),
    (recurrence, lambda s: s.compute_at("u", "t"),
     "compute_at of u at t: every reader of u must lie inside t, got last outside"),
    (recurrence, lambda s: (s.split("t", 2), s.compute_at("total", "t_o")),
     "compute_at of total at t_o: total must stay inside of t_i, over which it scans, got a place outside"),
    (recurrence, lambda s: (s.split("t", 2), s.reverse_compute_at("u", "t_o")),
     "reverse_compute_at of u at t_o: u must stay inside of t_i, over which it scans, got a place outside"),
    (recurrence, lambda s: s.reverse_compute_at("last", "h_i"),
     "reverse_compute_at of last at h_i: last must come after u, which computes u, got it before"),
    (recurrence, lambda s: s.reverse_compute_at("total", "u_i"),
     "reverse_compute_at of total at u_i: a producer of a, b, h must lie inside u_i, got none"),
    (recurrence, lambda s: s.reverse_compute_at("total", "h_i"),
     "reverse_compute_at of total at h_i: total must compute the step t * -1 + 4 inside it, got t * -1 + 3"),
    (recurrence, lambda s: s.cache_write("h", "local"),
     "cache_write of h: total must come after h_copy, which computes h, got it before"),
    (recurrence, lambda s: s.cache_read("total", "h", "local"),
     "cache_read of h for total: h_local must come after h, which computes h, got it before"),
    (recurrence, lambda s: s.decompose_reduction("total", "t"),
     "decompose_reduction of total at t: the loop must lie inside of t, over which the block scans, got t"),
    (recurrence, lambda s: s.reverse_inline("h"),
     "reverse_inline of h: one computed buffer must be read by this block alone, all of it, at its own axes, "
     "got gate[vt, vi]"),
    (carried, lambda s: s.decompose_reduction("h", "t"),
     "decompose_reduction of h at t: the loop must lie inside of t, over which the block scans, got t"),
    (carried, lambda s: (s.split("i", 3), s.reorder("i_i", "i_o"), s.decompose_reduction("h", "i_o")),
     "decompose_reduction of h at i_o: h must read a region of h that is computed without gaps, got h_init_i_o * 3"),
    (carried, lambda s: s.rfactor("k"),
     "rfactor of k: the sums must start from their identity, as each partial sum does, "
     "got select(vt == 0, a[3 - vi], h[vt - 1, 3 - vi]) % 17"),
    (greatest, lambda s: s.cache_write("value", "local"),
     "cache_write of value: the block must compute one value, got 2 at once"),
    (greatest, lambda s: s.inline("value"), "inline of value: the block must not reduce, got a reduction"),
    (greatest, lambda s: s.vectorize("k"), "vectorize of k: the loop must be spatial in block value, got reduce"),
]  # fmt: skip


@pytest.mark.parametrize(("start", "rewrite", "message"), REFUSED)
def test_illegal_rewrites_of_recurrences_are_refused(start, rewrite, message):
    s = start()
    with pytest.raises(ScheduleError) as error:
        rewrite(s)
    assert str(error.value) == message


@pytest.mark.parametrize("reverse", [False, True])
def test_a_stage_may_not_precede_its_producer_of_the_same_step(reverse):
    x, start = te.placeholder((5, 4), "int32", "x"), te.placeholder((4,), "int32", "start")

    def cell(t, h):
        p = te.compute((4,), lambda i: h[3 - i] * 2, "p")
        q = te.compute((4,), lambda j: x[t, j] + p[j], "q")
        return te.compute((4,), lambda i: p[i] + q[i], "r")

    fn = te.create_function([x, start], [te.scan(5, cell, start, reverse=reverse)], "steps")
    s = Schedule(fn)
    with pytest.raises(ScheduleError) as error:
        s.reverse_compute_at("r", "i")
    assert str(error.value) == "reverse_compute_at of r at i: r must come after q, which computes q, got it before"
    s.reverse_compute_at("r", "j")
    arrays = {"x": np.arange(20, dtype=np.int32).reshape(5, 4), "start": np.arange(4, dtype=np.int32)}
    np.testing.assert_array_equal(interpret(s.fn, arrays)["r"], interpret(fn, arrays)["r"])


def test_a_transposed_consumer_merges_into_its_producer():
    x = te.placeholder((3, 5), "int32", "x")
    b = te.compute((3, 5), lambda i, j: x[i, j] * 2 + j, "b")
    c = te.compute((5, 3), lambda p, q: b[q, p] + 10 * p, "c")
    s = Schedule(te.create_function([x], [c], "turned"))
    s.reverse_inline("c")
    assert "block b(vj=j, vi=i):" in str(s)
    assert "c[vj, vi] = x[vi, vj] * 2 + vj + 10 * vj" in str(s)
    array = np.arange(15, dtype=np.int32).reshape(3, 5)
    expected = (array * 2 + np.arange(5)).T + 10 * np.arange(5)[:, None]
    np.testing.assert_array_equal(interpret(s.fn, {"x": array})["c"], expected)


def combined(combine, identity):
    x, k = te.placeholder((3, 8), "int32", "x"), te.reduce_axis(8, "k")
    total = te.reducer(combine, identity, "total")
    s = Schedule(te.create_function([x], [te.compute((3,), lambda i: total(x[i, k], axis=k), "y")], "combined"))
    s.split("k", 4)
    return s


def test_any_reducer_is_factored():
    s = combined(lambda a, b: te.select(a > b, a, b), -(1 << 31))
    s.rfactor("k_i", 1)
    x = np.random.default_rng(0).integers(-99, 99, (3, 8)).astype(np.int32)
    np.testing.assert_array_equal(interpret(s.fn, {"x": x})["y"], x.max(axis=1))


def test_a_reduction_that_scales_its_partial_sum_is_not_factored():
    with pytest.raises(ScheduleError) as error:
        combined(lambda a, b: a * 2 + b, 0).rfactor("k_i")
    assert str(error.value) == "rfactor of k_i: y must combine with one term, got y[vi] * 2 + x[vi, vk]"


def test_a_term_that_is_an_index_is_factored_as_a_value():
    x, k = te.placeholder((3,), "int32", "x"), te.reduce_axis(8, "k")
    fn = te.create_function([x], [te.compute((3,), lambda i: te.sum(i + x[0] * 0, axis=k), "y")], "indices")
    plain = te.create_function([x], [te.compute((3,), lambda i: te.sum(te.cast("int32", i), axis=k), "y")], "plain")
    for function in (fn, plain):
        s = Schedule(function)
        s.split("k", 4)
        s.rfactor("k_i", 1)
        got = interpret(s.fn, {"x": np.ones(3, np.int32)})["y"]
        np.testing.assert_array_equal(got, 8 * np.arange(3))
