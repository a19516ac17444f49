# SPDX-License-Identifier: Apache-2.0
"""Reductions with a given start value: results, errors, schedules."""

import numpy as np
import pytest

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.runtime.native import build


def biased(doubled=False):
    """A matrix-vector product that starts from `b`, or from a stage that doubles `b`."""
    a, b = te.placeholder((5, 12), "float32", "a"), te.placeholder((5,), "float32", "b")
    k = te.reduce_axis(12, "k")
    start = te.compute((5,), lambda i: b[i] * 2.0, "start") if doubled else b
    c = te.compute((5,), lambda i: te.sum(a[i, k], axis=k, init=start[i]), "c")
    return te.create_function([a, b], [c], "biased")


def check(fn, factor=1):
    rng = np.random.default_rng(0)
    arrays = {"a": rng.integers(-9, 9, (5, 12)).astype(np.float32), "b": rng.integers(-9, 9, 5).astype(np.float32)}
    expected = arrays["a"].sum(axis=1) + factor * arrays["b"]
    np.testing.assert_array_equal(interpret(fn, arrays)["c"], expected)
    np.testing.assert_array_equal(build(fn)(arrays["a"], arrays["b"]), expected)


def test_a_sum_starts_from_its_init():
    check(biased())
    check(biased(doubled=True), factor=2)


@pytest.mark.parametrize("primitive", ["reorder", "decompose", "cache_write", "compute_at"])
def test_schedules_preserve_the_start_value(primitive):
    s = Schedule(biased())
    if primitive == "reorder":
        s.reorder("k", "i")
        s.vectorize("i")
    elif primitive == "decompose":
        s.split("i", factor=2)
        s.decompose_reduction("c", "k")
    else:
        copy = s.cache_write("c", "stack")
        if primitive == "compute_at":
            s.reverse_compute_at(copy, "i")
    check(s.fn)


def test_inline_and_cache_read_apply_to_the_start_value():
    s = Schedule(biased(doubled=True))
    s.inline("start")
    assert "start" not in s.fn.buffers
    check(s.fn, factor=2)
    copy = s.cache_read("c", "b", "stack")
    assert f"{copy}[vi] * 2.0" in str(s)
    check(s.fn, factor=2)


def test_rfactor_rejects_a_given_start():
    s = Schedule(biased())
    with pytest.raises(ScheduleError) as error:
        s.rfactor("k")
    assert str(error.value) == (
        "rfactor of k: the sums must start from their identity, as each partial sum does, got b[vi]"
    )


def test_a_given_identity_counts_as_the_identity():
    a, k = te.placeholder((6,), "int32", "a"), te.reduce_axis(6, "k")
    fn = te.create_function([a], [te.compute((1,), lambda i: te.sum(a[k], axis=k, init=0), "y")], "f")
    s = Schedule(fn)
    s.split("k", factor=2)
    s.rfactor("k_i")
    assert interpret(s.fn, {"a": np.arange(6, dtype=np.int32)})["y"].tolist() == [15]


def test_a_sum_in_a_recurrence_starts_from_the_state():
    x, k = te.placeholder((3, 4), "int32", "x"), te.reduce_axis(4, "k")

    def cell(t, h):
        twice = te.compute((2,), lambda i: h[i] * 2, "twice")
        return te.compute((2,), lambda i: te.sum(x[t, k] * (i + 1), axis=k, init=h[1 - i] + twice[i]), "h")

    fn = te.create_function([x], [te.scan(3, cell, te.full((2,), 1, "int32", "start"))], "f")
    assert "h[vt, vi] = select(vt == 0, start[1 - vi], h[vt - 1, 1 - vi]) + twice[vt, vi]" in str(fn)
    arrays, state, expected = {"x": np.arange(12, dtype=np.int32).reshape(3, 4)}, np.ones(2, np.int32), []
    for row in arrays["x"]:
        state = state[::-1] + 2 * state + row.sum() * np.array([1, 2])
        expected.append(state)
    np.testing.assert_array_equal(interpret(fn, arrays)["h"], expected)
    np.testing.assert_array_equal(build(fn)(arrays["x"]), expected)


def test_invalid_start_values_are_rejected():
    k = te.reduce_axis(4, "k")
    a = te.placeholder((4,), "int32", "a")
    with pytest.raises(te.TeError) as error:
        te.sum(a[k], axis=k, init=te.cast("int8", a[0]))
    fix = 'write te.cast("int32", ...)'
    assert str(error.value) == f"te.sum: init must be int32 as the value is, got int8; {fix}"
    with pytest.raises(te.TeError) as error:
        te.sum(a[k], axis=k, init=a[k])
    assert str(error.value) == "te.sum: init must not depend on the reduce axes, got k"
    with pytest.raises(te.TeError) as error:
        te.compute((4,), lambda i: te.sum(a[k], axis=k, init=a[i + 1]), "y")
    assert str(error.value) == "te.compute y: index 0 of a must satisfy 0 <= index < 4, got 1 to 4"


def test_start_values_obey_the_limits_of_size():
    k, a = te.reduce_axis(4, "k"), te.placeholder((4,), "int32", "a")
    deep = a[0]
    for _ in range(200):
        deep = deep + a[0]
    with pytest.raises(te.TeError) as error:
        te.compute((4,), lambda i: te.sum(a[k], axis=k, init=deep), "y")
    message = "the value must nest at most 160 operations deep, got 202; split it into several stages"
    assert str(error.value) == f"te.compute y: {message}"
