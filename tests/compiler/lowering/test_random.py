# SPDX-License-Identifier: Apache-2.0
"""Random schedules: every lowering pass preserves results and gives a valid function."""

import random

import numpy as np
import pytest
from helpers.random_schedules import pooling, random_names, started
from helpers.schedule_cases import random_case

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.lowering import PIPELINE, check
from vdla.compiler.schedule import Schedule, ScheduleError


def matmul():
    a, b = te.placeholder((5, 6), "float32", "a"), te.placeholder((6, 4), "float32", "b")
    k = te.reduce_axis(6, "k")
    wide = te.compute((5, 6), lambda i, j: a[i, j] * 2, "wide")
    c = te.compute((5, 4), lambda i, j: te.sum(wide[i, k] * b[k, j], axis=k), "c")
    return te.create_function([a, b], [te.compute((5, 4), lambda i, j: te.maximum(c[i, j], 0.0), "d")], "matmul")


def softmax():
    x = te.placeholder((4, 7), "float32", "x")
    k, m = te.reduce_axis(7, "k"), te.reduce_axis(7, "m")
    top = te.compute((4,), lambda i: te.max(x[i, m], axis=m), "top")
    power = te.compute((4, 7), lambda i, j: te.call("exp", x[i, j] - top[i]), "power")
    total = te.compute((4,), lambda i: te.sum(power[i, k], axis=k), "total")
    return te.create_function([x], [te.compute((4, 7), lambda i, j: power[i, j] / total[i], "y")], "softmax")


def recurrence():
    x, a = te.placeholder((5, 4), "float32", "x"), te.placeholder((4,), "float32", "a")
    b = te.placeholder((4, 4), "float32", "b")
    k = te.reduce_axis(4, "k")

    def cell(t, h):
        gate = te.compute((4,), lambda j: te.sum(h[k] * b[j, k], axis=k), "gate")
        return te.compute((4,), lambda j: te.maximum(gate[j] + x[t, j], h[j]), "state")

    states = te.scan(5, cell, [a])
    return te.create_function([x, a, b], [te.compute((5, 4), lambda t, j: states[t, j] * 2, "y")], "recurrence")


def largest():
    x = te.placeholder((5, 7), "int8", "x")
    k = te.reduce_axis(7, "k")
    value, place = te.compute((5,), lambda i: te.argmax(x[i, k], k), ("value", "place"))
    found = te.compute((5,), lambda i: te.cast("int32", value[i]) + place[i] * 1000, "found")
    return te.create_function([x], [found], "largest")


FUNCTIONS = {fn.name: fn for fn in (matmul(), pooling(), started(), softmax(), recurrence(), largest())}


def inputs(fn):
    rng = np.random.default_rng(3)
    given = [fn.buffers[name] for name in fn.params if name in "abx"]
    return {b.name: rng.integers(-99, 99, b.shape).astype(b.dtype) / np.array(7, b.dtype) if b.dtype == "float32"
            else rng.integers(-99, 99, b.shape).astype(b.dtype) for b in given}  # fmt: skip


def random_step(rng, s):
    """A random primitive on random names, which are often legal."""
    block, loop, buffer, own, position = random_names(rng, s)
    steps = [
        ("split", loop, rng.randint(1, 5)),
        ("reorder", *rng.sample(own, rng.randint(1, len(own)))),
        ("fuse", *own[position : position + 2]),
        ("unroll", loop),
        ("vectorize", rng.choice([loop, own[-1]])),
        (rng.choice(["vthread", "parallel", "parallel"]), loop),
        ("compute_at", block, loop),
        ("reverse_compute_at", block, loop),
        ("inline", block),
        ("cache_read", block, buffer, "near"),
        ("cache_write", block, "near"),
        ("compute_once", block, loop),
        ("blockize", loop),
        ("store_at", block, rng.choice([None, *own])),
        ("prefetch", block, buffer, rng.choice(own), rng.randint(1, 3)),
    ]
    weights = [5, 4, 1, 3, 3, 2, 8, 5, 1, 2, 2, 2, 1, 1, 3]
    return rng.choices(steps, weights)[0]


def random_schedule(seed, fn):
    """A schedule of `fn`, and the steps that were accepted."""
    rng, s, done = random.Random(seed), Schedule(fn), []
    for _ in range(rng.randint(1, 16)):
        step, *args = random_step(rng, s)
        try:
            getattr(s, step)(*args)
        except ScheduleError:
            continue
        done.append((step, *args))
    return s, done


def assert_lowers(fn, arrays, note):
    lowered = fn
    for step in PIPELINE:
        lowered = step.run(lowered)
        check(lowered, step.level)
    got = interpret(lowered, arrays)
    for name, array in interpret(fn, arrays).items():
        np.testing.assert_array_equal(got[name], array, err_msg=f"{note}\n{fn}\nlowered:\n{lowered}")


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("block", range(4))
def test_lowering_preserves_results(name, block):
    for seed in range(block * 10, block * 10 + 10):
        s, done = random_schedule(seed, FUNCTIONS[name])
        assert_lowers(s.fn, inputs(s.fn), f"seed {seed}: {done}")


@pytest.mark.parametrize("seed", range(4, 14))
def test_lowering_preserves_results_of_accelerator_schedules(seed):
    case = random_case(seed)
    assert_lowers(case.schedule.fn, case.problem.arrays, str(case))
