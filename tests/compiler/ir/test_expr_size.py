# SPDX-License-Identifier: Apache-2.0
"""Expressions beyond the limits of size: rejected by te and by inline with a message."""

import numpy as np
import pytest

from vdla.compiler import te
from vdla.compiler.ir import size_of
from vdla.compiler.ir.traversal import MAX_DEPTH, ExprSize
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.te import TeError
from vdla.runtime.native import build


def repeated(times, step):
    x = te.placeholder((8,), "float32", "x")

    def body(i):
        total = x[i]
        for number in range(times):
            total = step(total, number)
        return total

    return te.create_function([x], [te.compute((8,), body, "y")], "f")


def chain(count, step):
    x = te.placeholder((8,), "float32", "x")
    stage = x
    for number in range(count):
        stage = te.compute((8,), lambda i, last=stage: step(last[i]), f"t{number}")
    return te.create_function([x], [stage], "f")


def test_size_counts_shared_subtrees_at_each_occurrence():
    a = te.placeholder((4,), "float32", "a")[0]
    assert size_of(a.expr) == ExprSize(2, 2)
    twice = a + a
    assert size_of((twice * twice).expr) == ExprSize(4, 11)


def test_the_deepest_expression_runs():
    fn = repeated(MAX_DEPTH - 2, lambda total, number: total + 1)
    np.testing.assert_array_equal(build(fn)(np.zeros(8, np.float32)), np.full(8, MAX_DEPTH - 2, np.float32))


@pytest.mark.parametrize(("times", "step", "message"), [
    (MAX_DEPTH - 1, lambda total, number: total + 1, "nest at most 160 operations deep, got 161"),
    (5000, lambda total, number: total + 2, "nest at most 160 operations deep, got 5002"),
    (40, lambda total, number: total * total, "have at most 65536 operations, got 3298534883327"),
])  # fmt: skip
def test_te_rejects_larger_expressions(times, step, message):
    with pytest.raises(TeError) as error:
        repeated(times, step)
    assert str(error.value) == f"te.compute y: the value must {message}; split it into several stages"


@pytest.mark.parametrize(("count", "step", "message"), [
    (200, lambda value: value + 1, "nest at most 160 operations deep, got 161"),
    (40, lambda value: value * value, "have at most 65536 operations, got 98303"),
])  # fmt: skip
def test_inline_rejects_larger_expressions(count, step, message):
    s = Schedule(chain(count, step))
    with pytest.raises(ScheduleError) as error:
        for number in range(count - 1):
            s.inline(f"t{number}")
    last = error.value.args[0].split()[2].rstrip(":")
    assert str(error.value) == f"inline of {last}: the value of t{int(last[1:]) + 1} must {message}"


def test_default_schedules_stay_within_the_limits():
    fn = chain(200, lambda value: value + 1)
    np.testing.assert_array_equal(build(default_schedule(fn).fn)(np.zeros(8, np.float32)), np.full(8, 200, np.float32))
