# SPDX-License-Identifier: Apache-2.0
"""parallel, vectorize and bind: accepted loops carry no dependence (against a naive model), refused
ones say which."""

import random

import pytest
from helpers.iterations import conflict
from helpers.random_schedules import FUNCTIONS, random_step
from helpers.refused_parallel import REFUSED, blur
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler import ir, te
from vdla.compiler.schedule import Schedule, ScheduleError


def test_overlapping_producer_regions_are_private_to_iterations():
    s = blur()
    s.compute_at("rows", "i")
    s.parallel("i")
    assert "for i in parallel(8):" in str(s)


@pytest.mark.parametrize(("rewrite", "message"), REFUSED)
def test_loops_that_carry_a_dependence_are_refused(rewrite, message):
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
        s.compute_once(copy, "i")
    assert str(error.value) == (
        "compute_once of w_local: y must read what its own iteration of i computes, got w_local computed where "
        "i == 0 only"
    )
    assert "i == 0" not in str(s)


def test_quotients_and_remainders_identify_the_iteration():
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
