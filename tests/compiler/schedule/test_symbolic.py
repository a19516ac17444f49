# SPDX-License-Identifier: Apache-2.0
"""Schedules of functions with symbolic extents: right for all values of the symbols, or refused
with one named."""

import random

import numpy as np
import pytest
from helpers.random_schedules import random_step
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler import te
from vdla.compiler.arith import specialise
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule, ScheduleError

SIZES = (1, 3, 8, 13)


def rows():
    """d[i, j] = max(sum over k of 2 a[i, k] b[k, j], 0), of n rows."""
    n = te.var("n")
    a, b = te.placeholder((n, 6), "int32", "a"), te.placeholder((6, 4), "int32", "b")
    k = te.reduce_axis(6, "k")
    wide = te.compute((n, 6), lambda i, j: a[i, j] * 2, "wide")
    c = te.compute((n, 4), lambda i, j: te.sum(wide[i, k] * b[k, j], axis=k), "c")
    return te.create_function([a, b], [te.compute((n, 4), lambda i, j: te.maximum(c[i, j], 0), "d")], "rows")


def sums():
    """e[i] = x[i] summed over n + 2 columns, next to its neighbour's, of m + 1 rows."""
    n, m = te.var("n"), te.var("m")
    x, y = te.placeholder((m, n), "int32", "x"), te.placeholder((n,), "int32", "a")
    k = te.reduce_axis(n + 2, "k")
    padded = te.pad(x, (0, 1), (1, 1), 5, "padded")
    s = te.compute((m + 1,), lambda i: te.sum(padded[i, k], axis=k), "s")
    e = te.compute((m,), lambda i: s[i] + s[i + 1] + y[0], "e")
    return te.create_function([x, y], [e], "sums")


FUNCTIONS = {fn.name: fn for fn in (rows(), sums())}


def inputs(fn, values):
    rng = np.random.default_rng(3)
    special = specialise(fn, values)
    given = [special.buffers[name] for name in fn.params if name in "abx"]
    return {b.name: rng.integers(-99, 99, b.shape).astype(b.dtype) for b in given}


def values_of(fn, seed):
    rng = random.Random(seed)
    return {name: rng.choice(SIZES) for name in fn.scalars}


def check(s, seeds=range(4)):
    original = FUNCTIONS[s.fn.name]
    for seed in seeds:
        values = values_of(original, seed)
        arrays = inputs(original, values)
        expected = interpret(specialise(original, values), arrays)
        got = interpret(specialise(s.fn, values), arrays)
        for output, array in expected.items():
            np.testing.assert_array_equal(got[output], array, err_msg=f"{values}\n{s.python()}\n{s.fn}")


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 40), st.sampled_from(sorted(FUNCTIONS)))
def test_symbolic_schedules_preserve_results_at_every_size(seed, name):
    rng, s = random.Random(seed), Schedule(FUNCTIONS[name])
    for _ in range(rng.randint(1, 10)):
        step, *args = random_step(rng, s)
        before = s.fn
        try:
            getattr(s, step)(*args)
        except ScheduleError as error:
            assert s.fn is before
            assert str(error).startswith(step)
    check(s)
    assert str(Schedule.replay(FUNCTIONS[name], s.python())) == str(s)


def window(s):
    s.split("e_i", 4)
    s.compute_at("s", "e_i_o")
    s.compute_at("padded", "e_i_o")


def test_a_producer_follows_a_split_consumer():
    s = Schedule(FUNCTIONS["sums"])
    window(s)
    check(s, range(8))
    assert "for e_i_o in range((m + 3) // 4):" in str(s)
    assert "for i in range(5):" in str(s)
    assert "where e_i_o * 4 + i < m + 1:" in str(s)


def test_symbolic_loops_run_in_lanes_and_threads():
    s = Schedule(FUNCTIONS["rows"])
    outer, inner = s.split("c_i", 8)
    s.reorder(outer, "c_j", "k", inner)
    s.vectorize(inner)
    s.reverse_compute_at("d", outer)
    s.compute_at("wide", outer)
    s.parallel(outer)
    check(s, range(8))
    assert "for c_i_o in parallel((n + 7) // 8):" in str(s)


def test_a_multiple_of_the_factor_needs_no_condition():
    n = te.var("n")
    x = te.placeholder((n,), "int32", "x")
    s = Schedule(te.create_function([x], [te.compute((n * 8,), lambda i: x[i // 8] + 1, "y")], "scaled"))
    s.split("i", 4)
    assert "where" not in str(s)
    s.fuse("i_o", "i_i")
    assert "for i_o_i_i in range(n * 8):" in str(s)


def copied():
    """c[j] = b[j] + y[j] of m elements, where b has n: only the caller knows which is more."""
    n, m = te.var("n"), te.var("m")
    x, y = te.placeholder((n,), "int32", "x"), te.placeholder((m,), "int32", "y")
    b = te.compute((n,), lambda i: x[i] * 2, "b")
    return te.create_function([x, y], [te.compute((m,), lambda j: b[j] + y[j], "c")], "copied")


def test_a_bound_that_is_not_decided_stays_a_minimum():
    s = Schedule(copied())
    outer, _ = s.split("j", 4)
    s.compute_at("b", outer)
    assert "block b(vi=j_o * 4 + i) where j_o * 4 + i < min(m - 1, n - 1) + 1:" in str(s)
    for values in ({"n": 9, "m": 5}, {"n": 7, "m": 7}):
        x, y = (np.arange(values[name], dtype=np.int32) for name in "nm")
        got = interpret(specialise(s.fn, values), {"x": x, "y": y})["c"]
        np.testing.assert_array_equal(got, 2 * x[: values["m"]] + y)


def test_a_comparison_that_is_not_decided_is_refused():
    with pytest.raises(ScheduleError) as error:
        Schedule(copied()).reverse_compute_at("c", "i")
    assert str(error.value) == (
        "reverse_compute_at of c at i: c must compute all of its output inside it, "
        "got dimension 0 of c: reads 0..m - 1, computed 0..min(n - 1, m - 1)"
    )


REFUSED = [
    ("rows", lambda s: s.vthread("i"), "vthread of i: the extent must be a number, got n"),
    ("rows", lambda s: s.unroll("i"), "unroll of i: the extent must be a number, got n"),
    ("rows", lambda s: s.vectorize("i"), "vectorize of i: the extent must be a number, got n"),
    ("rows", lambda s: s.split("i", nparts=4),
     "split of i: nparts must be of an extent that is a number, got n; give the factor"),
    ("sums", lambda s: s.fuse("i0", "i1"), "fuse of i0 and i1: the extent of i1 must be a number, got n + 2"),
    ("sums", lambda s: s.blockize("k"), "blockize of k: every extent of s must be a number, got n + 2"),
    ("sums", lambda s: s.parallel("k"), "parallel of k: the loop must be spatial in block s, got reduce"),
    ("sums", lambda s: s.reverse_compute_at("s", "i1"),
     "reverse_compute_at of s at i1: s must read only what padded computes in the same iteration of i1, "
     "got dimension 1 of padded: reads 0..n + 1, computed i1..i1"),
    ("sums", lambda s: s.reverse_compute_at("e", "i"),
     "reverse_compute_at of e at i: e must read only what s computes in the same iteration of i, "
     "got dimension 0 of s: reads i..i + 1, computed i..i"),
    ("rows", lambda s: (s.bind("c_i", "blockIdx.x"), s.bind("c_j", "blockIdx.x")),
     "bind of c_j: the extent of blockIdx.x must be that of c_i, n, got 4"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rewrite", "message"), REFUSED)
def test_primitives_that_need_constant_extents_are_refused(name, rewrite, message):
    s = Schedule(FUNCTIONS[name])
    with pytest.raises(ScheduleError) as error:
        rewrite(s)
    assert str(error.value) == message


def test_new_loops_do_not_shadow_symbols() -> None:
    """An axis may be named as a symbol is; the loop that computes a region along it may not."""
    n = te.var("n")
    x = te.placeholder((n, 8), "int32", "x")
    a = te.compute((n, 8), lambda n, j: x[n, j] + 1, "a")
    s = Schedule(te.create_function([x], [te.compute((n, 8), lambda n, j: a[n, j] * 2, "b")], "doubled"))
    s.compute_at("a", s.loops("b")[0])
    assert "n" not in s.loops("a")
    array = np.arange(24, dtype=np.int32).reshape(3, 8)
    np.testing.assert_array_equal(interpret(s.fn, {"x": array})["b"], (array + 1) * 2)
