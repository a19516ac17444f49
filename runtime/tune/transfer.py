"""Transfer: what the logs of other tasks teach a cost model."""

from __future__ import annotations

import numpy as np

from vdla.compiler.tune import TuningTask
from vdla.compiler.tune.cost_model import Group
from vdla.runtime.tune.errors import TuningError
from vdla.runtime.tune.log import LoggedTrial, TrialIndex, feature_set


def prior_of(task: TuningTask, index: TrialIndex) -> list[Group]:
    """[point, feature] and costs of the trials of every other task with the same features.

    Raises:
        TuningError: no other task has them.
    """
    wanted = feature_set(task.feature_names)
    groups = []
    for key, entries in index.by_key.items():
        rows = [entry for entry in entries if entry.features is not None and entry.features.names == wanted]
        if rows and key != task.key:
            groups.append(_group(rows))
    if not groups:
        raise TuningError(f"tune {task.name}: logs must have trials of other tasks with its features, got none")
    return groups


def _group(entries: list[LoggedTrial]) -> Group:
    rows = [entry.features.row for entry in entries if entry.features is not None]
    return np.stack(rows), np.array([entry.trial.cost for entry in entries])
