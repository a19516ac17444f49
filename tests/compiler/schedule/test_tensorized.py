# SPDX-License-Identifier: Apache-2.0
"""Rewrites of nests that were tensorized: for the accelerator they stay what was matched, or the
rewrite is refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from helpers.tensorized_matmul import ready, step

from vdla.compiler.schedule import Schedule, ScheduleError


@pytest.mark.parametrize(
    ("where", "rewrite"),
    [
        ("inline of a_inp", lambda s: s.inline("a_inp")),
        ("set_scope of c_acc", lambda s: s.set_scope("c_acc", "out")),
        ("cache_read of c", lambda s: s.cache_read("c", "a_inp", "inp")),
        ("cache_write of c", lambda s: s.cache_write("c", "acc")),
        ("split of i", lambda s: s.split("i", factor=8)),
        ("reorder of i", lambda s: s.reorder("i", "k")),
        ("compute_at of c", lambda s: s.compute_at("c", "c_copy_n")),
        ("decompose_reduction of c", lambda s: s.decompose_reduction("c", "k")),
    ],
)
def test_rewrites_that_break_a_tensorized_nest_are_refused(where: str, rewrite: Callable[[Schedule], object]) -> None:
    s = ready()
    step(s)
    before = s.fn
    message = f"{where}: c must stay a step of gemm, as it was tensorized, got another nest; tensorize it last"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        rewrite(s)
    assert s.fn is before


def test_loops_around_a_tensorized_nest_may_be_scheduled() -> None:
    s = ready()
    step(s)
    n, m, k = s.loops("c")[:3]
    s.split(m, factor=2)
    s.reorder(k, n)
    s.unroll(n)
    s.store_at("c", None)
    s.compute_at("b_wgt", k)
    assert s.loops("c")[0] == k


def test_messages_name_keyword_arguments() -> None:
    s = ready()
    step(s)
    with pytest.raises(ScheduleError, match=r"^inline of a_inp: c must stay a step of gemm"):
        s.inline(block="a_inp")
