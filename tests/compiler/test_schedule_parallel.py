"""parallel, vectorize and bind: accepted loops carry no dependence (against a naive model), refused ones say which."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from iterations import conflict
from test_schedule_random import FUNCTIONS, random_step

from vdla.compiler import ir, te
from vdla.compiler.schedule import Schedule, ScheduleError


def blur() -> Schedule:
    """y[i, j] = sum over 3 rows of x."""
    x = te.placeholder((10, 8), "int16", "x")
    k = te.reduce_axis(3, "k")
    rows = te.compute((10, 8), lambda r, c: x[r, c] * 2, "rows")
    y = te.compute((8, 8), lambda i, j: te.sum(rows[i + k, j], axis=k), "y")
    return Schedule(te.create_function([x], [y], "blur"))


def test_overlapping_parts_of_a_producer_are_an_iterations_own():
    s = blur()
    s.compute_at("rows", "i")
    s.parallel("i")
    assert "for i in parallel(8):" in str(s)


def overlapping_lanes(s):
    s.compute_at("rows", "i")
    s.vectorize("i")


def stored_outside(s):
    s.compute_at("rows", "i")
    s.store_at("rows", None)
    s.parallel("i")


def broken_later(s):
    s.parallel("i")
    s.compute_at("rows", "i")
    s.store_at("rows", None)


def nested_vectors(s):
    s.vectorize("j")
    s.vectorize("i")


def same_axis(s):
    s.bind("i", "threadIdx.x")
    s.bind("j", "threadIdx.x")


REFUSED = [
    (lambda s: s.parallel("k"), "parallel of k: the loop must be spatial in block y, got reduce"),
    (lambda s: s.bind("k", "threadIdx.x"), "bind of k: the loop must be spatial in block y, got reduce"),
    (overlapping_lanes,
     "vectorize of i: the loop must write other elements of rows in each iteration of block rows, got rows[i + r, c]"),
    (stored_outside,
     "parallel of i: the loop must write other elements of rows in each iteration of block rows, got rows[i + r, c]"),
    (broken_later,
     "store_at of rows: the parallel loop i must write other elements of rows in each iteration of block rows, "
     "got rows[i + r, c]"),
    (nested_vectors, "vectorize of i: no other vectorized loop must lie around it or inside, got j"),
    (lambda s: s.bind("i", "warp"),
     "bind of i: the thread must be one of blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, "
     "got 'warp'"),
    (same_axis, "bind of j: threadIdx.x must bind one loop around a block, got i too"),
    (lambda s: (s.bind("i", "threadIdx.x"), s.bind("r", "threadIdx.x")),
     "bind of r: the extent of threadIdx.x must be that of i, 8, got 10"),
    (lambda s: (s.bind("i", "threadIdx.x"), s.bind("i", "threadIdx.y")),
     "bind of i: the loop must not be bound yet, got threadIdx.x"),
    (lambda s: (s.bind("i", "threadIdx.x"), s.parallel("i")),
     "parallel of i: the loop must not be bound, got threadIdx.x"),
    (lambda s: (s.unroll("i"), s.bind("i", "threadIdx.x")), "bind of i: the loop must be serial, got unroll"),
]  # fmt: skip


@pytest.mark.parametrize(("rewrite", "message"), REFUSED)
def test_refused(rewrite, message):
    s = blur()
    with pytest.raises(ScheduleError) as error:
        rewrite(s)
    assert str(error.value) == message


def test_a_value_kept_from_the_first_iteration_is_refused():
    x, w = te.placeholder((4,), "int16", "x"), te.placeholder((6,), "int16", "w")
    s = Schedule(te.create_function([x, w], [te.compute((4, 6), lambda i, j: x[i] * w[j], "y")], "outer"))
    copy = s.cache_read("y", "w", "local")
    s.compute_at(copy, "i")
    s.parallel("i")
    with pytest.raises(ScheduleError) as error:
        s.keep(copy, "i")
    assert str(error.value) == (
        "keep of w_local: y must read what its own iteration of i computes, got w_local computed where i == 0 only"
    )
    assert "i == 0" not in str(s)


def test_quotients_and_remainders_tell_the_iteration():
    s = blur()
    s.vectorize(s.split(s.fuse("r", "c"), factor=16)[1])
    s.parallel(s.fuse("i", "j"))
    assert "parallel(64)" in str(s)
    assert "vectorize(16)" in str(s)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 40), st.sampled_from(sorted(FUNCTIONS)))
def test_accepted_loops_carry_no_dependence(seed, name):
    rng, s = random.Random(seed), Schedule(FUNCTIONS[name])
    for _ in range(rng.randint(1, 8)):
        step, *args = random_step(rng, s)
        attempt(s, step, *args)
    for loop in [stmt.var for stmt in ir.walk(s.fn.body) if isinstance(stmt, ir.For)]:
        for step in ("parallel", "vectorize"):
            trial = Schedule(s.fn)
            if attempt(trial, step, loop):
                assert conflict(s.fn, loop, private=step == "parallel") == "", f"{step} of {loop}\n{s.fn}"


def attempt(s, step, *args):
    try:
        getattr(s, step)(*args)
    except ScheduleError:
        return False
    return True
