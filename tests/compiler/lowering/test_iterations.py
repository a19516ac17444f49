# SPDX-License-Identifier: Apache-2.0
"""Parallel iterations after lowering: none accesses an element that another one writes."""

import random
from dataclasses import replace

import pytest
from helpers.iterations import race
from helpers.random_schedules import FUNCTIONS, random_step

from vdla.compiler import ir, te
from vdla.compiler.lowering import lower
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import TARGETS

TARGET = TARGETS["x86-64"]


def lowered(fn, *steps):
    s = Schedule(fn)
    for step, *args in steps:
        getattr(s, step)(*args)
    return lower(s.fn, TARGET)


def centred():
    """c[i, j] = x[i, j] - the sum of row i."""
    x = te.placeholder((4, 7), "int32", "x")
    k = te.reduce_axis(7, "k")
    total = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), "total")
    return te.create_function([x], [te.compute((4, 7), lambda i, j: x[i, j] - total[i], "c")], "centred")


def doubled():
    """c[i, j] = x[i, j] * 2 + 1."""
    x = te.placeholder((4, 8), "int32", "x")
    t = te.compute((4, 8), lambda i, j: x[i, j] * 2, "t")
    return te.create_function([x], [te.compute((4, 8), lambda i, j: t[i, j] + 1, "c")], "doubled")


def test_halves_of_a_double_buffer_do_not_race():
    steps = [("compute_at", "total", "c_i"), ("double_buffer", "total")]
    assert not race(lowered(centred(), *steps, ("parallel", "c_i")))


def test_a_buffer_stored_inside_a_parallel_loop_does_not_race():
    steps = [("store_at", "total", "i"), ("compute_at", "total", "j"), ("parallel", "j")]
    assert not race(lowered(centred(), *steps))
    assert not race(lowered(centred(), *steps, ("split", "i", 4)))


def test_vector_sums_around_a_parallel_loop_do_not_race():
    fn = lowered(centred(), ("compute_at", "total", "j"), ("parallel", "j"), ("vectorize", "c_i"))
    assert not race(fn)
    assert "parallel" not in str(fn)


def test_lanes_around_a_parallel_loop_have_separate_elements():
    fn = lowered(doubled(), ("compute_at", "t", "c_j"), ("parallel", "c_j"), ("vectorize", "c_i"))
    assert not race(fn)
    assert "for c_j in parallel(8):" in str(fn)


def test_sums_in_a_tail_do_not_race():
    steps = [("split", "j", 4), ("split", "j_o", 2), ("compute_at", "total", "j_i"), ("parallel", "j_o_i")]
    fn = lowered(centred(), *steps)
    assert not race(fn)
    assert "for j_o_i in parallel(2):" in str(fn)


def test_the_model_detects_a_race():
    good = lowered(doubled(), ("compute_at", "t", "c_i"), ("parallel", "c_i"))
    assert not race(good)
    assert race(without_alloc(good)).startswith("c_i: ('t', (0, ")


def without_alloc(fn):
    """`fn` with the allocations of its parallel loop moved outside."""
    inner = fn.body.body
    return replace(fn, body=replace(inner, body=replace(fn.body, body=inner.body)))


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_random_schedules_have_no_race_after_lowering(name):
    for seed in range(30):
        rng, s, done = random.Random(seed), Schedule(FUNCTIONS[name]), []
        for _ in range(rng.randint(1, 16)):
            loops = [stmt.var for stmt in ir.walk(s.fn.body) if isinstance(stmt, ir.For)]
            buffer, loop = rng.choice(sorted(s.fn.buffers)), rng.choice(loops)
            more = [("parallel", loop), ("double_buffer", buffer), ("vectorize", loop)]
            step, *args = rng.choice([random_step(rng, s), *more])
            try:
                getattr(s, step)(*args)
            except ScheduleError:
                continue
            done.append((step, *args))
        assert not race(lower(s.fn, TARGET)), f"seed {seed}: {done}"
