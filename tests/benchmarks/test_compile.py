# SPDX-License-Identifier: Apache-2.0
"""The time of trials."""

from __future__ import annotations

import pytest

from vdla.benchmarks import compile as trial_time
from vdla.compiler.operators.workloads import SELF_TEST
from vdla.hardware.config import Config
from vdla.runtime.tune.measurer import SimMeasurer


def test_trials_at_low_estimates_and_at_random_points_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    measure = SimMeasurer.measure

    def counted(self: SimMeasurer, task: trial_time.VdlaTask, point: trial_time.Point) -> float:
        measured.append(task.space.index(point))
        return measure(self, task, point)

    monkeypatch.setattr(SimMeasurer, "measure", counted)
    found = trial_time.trial_time(SELF_TEST, Config.preset("tiny"), seed=3)
    assert len(measured) == 1 + 2 * trial_time.POINTS
    assert measured[0] == measured[1]
    assert len(set(measured[1:5])) == len(set(measured[5:])) == trial_time.POINTS
    assert min(found) > 0
