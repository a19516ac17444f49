# SPDX-License-Identifier: Apache-2.0
"""Logs of other tasks as groups of features and costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.toy_tuning import ShuffledSearch, ToyMeasurer, ToyTask, toy_run

from vdla.runtime.tune.kernel_runs import prior_of
from vdla.runtime.tune.log import TuningLog, read_logs
from vdla.runtime.tune.trial import TuningError
from vdla.runtime.tune.tune import tune
from vdla.runtime.tune.workers import InlineWorkers

TASK = ToyTask()


def test_each_other_task_with_the_same_features_is_a_group(tmp_path: Path) -> None:
    with TuningLog(tmp_path / "log.jsonl") as log:
        for key, trials, names in (("1" * 16, 5, ("a", "b")), ("2" * 16, 3, ("a", "b")), ("3" * 16, 4, ("c", "d"))):
            task = ToyTask(key=key, feature_names=names)
            run = replace(toy_run(), key=key)
            tune(task, ShuffledSearch(task), run, InlineWorkers(ToyMeasurer()), trials=trials, log=log)
        tune(TASK, ShuffledSearch(TASK), toy_run(), InlineWorkers(ToyMeasurer()), trials=2, log=log)
    groups = prior_of(TASK, read_logs(tmp_path))
    assert [features.shape for features, _ in groups] == [(5, 2), (3, 2)]
    for features, costs in groups:
        assert np.array_equal(costs, 100 + (features[:, 0] - 5) ** 2 + (features[:, 1] - 7) ** 2)


def test_logs_without_another_task_are_refused(tmp_path: Path) -> None:
    with TuningLog(tmp_path / "log.jsonl") as log:
        tune(TASK, ShuffledSearch(TASK), toy_run(), InlineWorkers(ToyMeasurer()), trials=2, log=log)
    with pytest.raises(TuningError) as raised:
        prior_of(TASK, read_logs(tmp_path))
    assert str(raised.value) == "tune toy: logs must have trials of other tasks with its features, got none"
