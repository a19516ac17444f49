# SPDX-License-Identifier: Apache-2.0
"""The benchmark of certificates: faults in loop nests and kernels, and how they are judged."""

from __future__ import annotations

import pytest
from numpy.random import default_rng

from vdla.benchmarks import certify_nests
from vdla.benchmarks.certify_nest_faults import (
    KERNEL_KINDS,
    NEST_KINDS,
    cpu_schedules,
    grid_schedules,
    kernel_faults,
    nest_faults,
)
from vdla.benchmarks.certify_nests import judged_nest
from vdla.benchmarks.fault_counts import FaultCounts, verdict
from vdla.compiler.certificates.nest_certificate import NestCertificate


def test_faults_in_nests_and_kernels_are_never_accepted() -> None:
    """One of each kind, in a window of integers and in a stencil."""
    window, stencil = list(cpu_schedules())[1], list(grid_schedules())[4]
    counts = FaultCounts()
    for schedule, made in ((window, nest_faults), (stencil, kernel_faults)):
        for fault in made(schedule, 1, default_rng(0)):
            assert fault.kind in (*NEST_KINDS, *KERNEL_KINDS)
            counts.add(fault.kind, judged_nest(fault.nest, schedule.unscheduled, 0))
    assert counts.total()["planted"] >= 10
    assert counts.total()["accepted"] == 0
    assert counts.kinds >= 8


def test_a_schedule_without_a_fault_is_equal() -> None:
    schedule = next(cpu_schedules())
    assert judged_nest(schedule.fn, schedule.unscheduled, 0) == "equal"


def test_a_certificate_for_a_fault_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = list(cpu_schedules())[1]
    fault = next(one for one in nest_faults(schedule, 1, default_rng(0)) if one.kind == "lowered: another operation")
    assert judged_nest(fault.nest, schedule.unscheduled, 0) == "refused"
    right = NestCertificate(name="window", nest="", function="", seed=0, results=9, differing=0)
    monkeypatch.setattr(certify_nests, "certify_nest", lambda *_, **__: right)
    assert judged_nest(fault.nest, schedule.unscheduled, 0) == "accepted"


def test_verdicts_are_of_runs_in_order() -> None:
    assert verdict(True, iter([True, True])) == "equal"
    assert verdict(True, iter([True, False])) == "accepted"
    assert verdict(False, iter([False, True])) == "refused"
    assert verdict(False, iter([True, False])) == "hidden"
    assert verdict(False, iter([True, True])) == "hidden always"
