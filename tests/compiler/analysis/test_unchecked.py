# SPDX-License-Identifier: Apache-2.0
"""Schedules without checks are those with checks, or what checks refuse."""

from __future__ import annotations

import pytest

from vdla.compiler import te
from vdla.compiler.schedule import Schedule, ScheduleError, unchecked


def sums() -> Schedule:
    """b[i] = sum over k of a[i, k]; c[i] = b[7 - i]."""
    a = te.placeholder((8, 4), "int32", "a")
    k = te.reduce_axis(4, "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), "b")
    c = te.compute((8,), lambda i: b[7 - i], "c")
    return Schedule(te.create_function([a], [c], "sums"))


def test_an_illegal_schedule_is_refused_outside_of_the_context_only() -> None:
    with unchecked():
        wrong = sums()
        wrong.reverse_compute_at("c", "i")
    assert wrong.loops("c")[0] == "i"
    with pytest.raises(ScheduleError, match="c must read only what b computes"):
        sums().reverse_compute_at("c", "i")


def test_a_legal_schedule_is_the_same() -> None:
    def scheduled() -> Schedule:
        s = sums()
        _, inner = s.split("i", factor=4)
        s.reorder("k", inner)
        s.unroll(inner)
        return s

    checked = scheduled()
    with unchecked():
        assert scheduled().fn == checked.fn
