"""A tuning run that is to be killed: it keeps a journal of what it began and what it had logged.

The journal outlives it: `run` when workers are ready, `begin POINT` before a point is measured,
`logged POINT` when its trial is on disk. Each is written at once.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from vdla.compiler.templates import conv2d
from vdla.compiler.tune import Point, TuningTask, VdlaTask, template_task
from vdla.compiler.tune.searches import new_search
from vdla.hardware.config import Config
from vdla.runtime.tune.log import PointFeatures, TaskRun, TuningLog
from vdla.runtime.tune.measurer import SimMeasurer
from vdla.runtime.tune.trial import Trial
from vdla.runtime.tune.tune import tune
from vdla.runtime.tune.workers import LocalWorkers

_SEARCH = "random"


def killed_task() -> VdlaTask:
    """A convolution whose trials take milliseconds."""
    shape = {"height": 6, "width": 6, "in_channels": 8, "out_channels": 8, "kernel": 3, "pads": 1}
    return template_task(conv2d, Config.preset("tiny"), batch=1, **shape)


def note(journal: Path, *words: str) -> None:
    """Append a line with one write."""
    handle = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(handle, (" ".join(words) + "\n").encode())
    os.close(handle)


def spelling(point: Point) -> str:
    """A point as text, in one way."""
    return json.dumps(dict(point), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class JournalMeasurer:
    """The simulator, with a journal."""

    journal: Path
    unit: str = "cycles"
    most_workers: int | None = None

    def missing(self, task: TuningTask) -> str:
        """Nothing; the worker can begin."""
        note(self.journal, "run")
        return ""

    def measure(self, task: TuningTask, point: Point) -> float:
        """The cycles."""
        note(self.journal, "begin", spelling(point))
        return SimMeasurer().measure(task, point)


class JournalLog(TuningLog):
    """A log that notes each trial once it is on disk."""

    def __init__(self, path: Path, journal: Path) -> None:
        super().__init__(path)
        self._journal = journal

    def append(self, run: TaskRun, trial: Trial, features: PointFeatures | None = None) -> None:
        """As `TuningLog`."""
        super().append(run, trial, features)
        note(self._journal, "logged", spelling(trial.point))


def run_until_killed(log: str, journal: str, trials: int, seed: int) -> None:
    """The run."""
    task = killed_task()
    run = TaskRun(task.key, task.name, task.config.name, task.space.name, _SEARCH, seed)
    workers = LocalWorkers(JournalMeasurer(Path(journal)), 2)
    try:
        with JournalLog(Path(log), Path(journal)) as opened:
            tune(task, new_search(_SEARCH, task, seed), run, workers, trials=trials, log=opened)
    finally:
        workers.close()
