# SPDX-License-Identifier: Apache-2.0
"""Workers on a real Ray cluster of two processes, and what a machine without Ray is told."""

from __future__ import annotations

import sys

import pytest
from helpers.toy_tuning import ToyMeasurer, ToyTask

from vdla.runtime.tune.ray_workers import RayWorkers
from vdla.runtime.tune.trial import TuningError

TASK = ToyTask()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray
def test_deaths_hangs_and_refusals_cost_their_trials() -> None:
    pytest.importorskip("ray")
    workers = RayWorkers(ToyMeasurer(dies=3, hangs=9, refused=4), count=2, timeout_s=3)
    try:
        workers.begin(TASK)
        for number, a in enumerate((3, 9, 4, 5, 6)):
            workers.submit(number, {"a": a, "b": 7})
        trials = dict(workers.take() for _ in range(5))
    finally:
        workers.close()
    assert trials[0].error.startswith("trial: its worker must not end, got ActorDiedError: ")
    assert trials[1].error == "trial: it must end within 3 s, got none; its worker was started again"
    assert trials[2].error == "toy: a must not be 4, got it"
    assert [trials[number].cost for number in (3, 4)] == [100.0, 101.0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray
def test_a_task_that_no_actor_can_measure_ends_the_run() -> None:
    pytest.importorskip("ray")
    workers = RayWorkers(ToyMeasurer(lacking="processor must have avx512f, got none"), count=1)
    try:
        workers.begin(TASK)
        workers.submit(0, {"a": 1, "b": 1})
        with pytest.raises(TuningError) as raised:
            workers.take()
    finally:
        workers.close()
    assert str(raised.value) == "tune toy: worker 0: processor must have avx512f, got none"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TuningError) as raised:
        RayWorkers(ToyMeasurer())
    assert str(raised.value) == "tune: workers on Ray need the package ray, got none (pip install 'vdla[ray]')"
