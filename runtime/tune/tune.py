# SPDX-License-Identifier: Apache-2.0
"""The tuning loop: a search proposes points, workers measure them, a log keeps every trial.

The search receives the costs of whole batches in the order of its proposals, one batch behind what
it proposes. So the same seed gives the same run whatever the number of workers and their speed, and
a run whose trials a log has is repeated from the log, without measuring.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from vdla.compiler.tune import Point, TuningTask
from vdla.runtime.tune.log import LoggedTrial, PointFeatures, TaskRun, TuningLog
from vdla.runtime.tune.trial import Trial, TuningError, best_trial
from vdla.runtime.tune.workers import Workers

BATCH = 8
_AHEAD = 2  # batches under way: while the last trials of one end, workers measure the next


class Search(Protocol):
    """What proposes points, each once, and learns from their costs."""

    def propose(self, count: int) -> list[Point]:
        """Up to `count` points; fewer where the space has no more."""
        ...

    def tell(self, points: Sequence[Point], costs: Sequence[float]) -> None:
        """The costs of points, infinite for failed trials."""
        ...


@dataclass(frozen=True, slots=True)
class TuningProgress:
    """How far a run is: trials that ended, of how many, and the best of them so far."""

    done: int
    total: int
    best: Trial | None


Show = Callable[[TuningProgress], None]


@dataclass(frozen=True, slots=True)
class TuningReport:
    """The trials of a run in the order of proposal; `reused` of them were in the log."""

    run: TaskRun
    trials: tuple[Trial, ...]
    reused: int

    @property
    def best(self) -> Trial:
        """The trial of least cost.

        Raises:
            TuningError: every trial failed.
        """
        result = best_trial(self.trials)
        if result is None:
            first = self.trials[0].error if self.trials else "none was made"
            raise TuningError(f"tune {self.run.name}: a trial must succeed, got {len(self.trials)} failed: {first}")
        return result

    @property
    def failed(self) -> int:
        """Trials without a cost."""
        return sum(not trial.ok for trial in self.trials)

    def best_so_far(self) -> list[float]:
        """The least cost after each trial; infinite before the first that succeeded."""
        return np.minimum.accumulate([trial.cost for trial in self.trials]).tolist() if self.trials else []


def tune(
    task: TuningTask,
    search: Search,
    run: TaskRun,
    workers: Workers,
    *,
    trials: int,
    log: TuningLog | None = None,
    first: Point | None = None,
    batch: int = BATCH,
    enough: float = 0.0,
    show: Show = lambda progress: None,
) -> TuningReport:
    """A run of up to `trials` trials; those of its task that the log has are not repeated.

    `first` is tried before what the search proposes. Trials of other runs of the task, of another
    seed or search, are told to the search at the start. Nothing is proposed once a trial of this
    run costs `enough` or less.

    Raises:
        TuningError: an option is out of range, or no worker can measure the task.
    """
    for name, value in (("trials", trials), ("batch", batch)):
        if value < 1:
            raise TuningError(f"tune {task.name}: {name} must be at least 1, got {value}")
    workers.begin(task)
    loop = _Loop(task=task, search=search, run=run, workers=workers, trials=trials, log=log, show=show, enough=enough)
    loop.tell_others()
    if first is not None:
        loop.begin([first])
        loop.tell_first()
    while loop.propose(batch):
        loop.tell_first()
    return TuningReport(run, tuple(loop.told), loop.reused)


@dataclass(slots=True)
class _Loop:
    """The state of a run. Trials are numbered in the order of proposal."""

    task: TuningTask
    search: Search
    run: TaskRun
    workers: Workers
    trials: int
    log: TuningLog | None
    show: Show
    enough: float
    known: dict[str, Trial] = field(default_factory=dict)
    ended: dict[int, Trial] = field(default_factory=dict)
    batches: deque[list[Point]] = field(default_factory=deque)
    told: list[Trial] = field(default_factory=list)
    proposed: int = 0
    reused: int = 0

    def tell_others(self) -> None:
        """Take up what the log has of the task."""
        entries = [] if self.log is None else logged(self.log, self.task)
        self.known = {_spelling(entry.trial.point): entry.trial for entry in entries}
        source = (self.run.search, self.run.seed)
        others = [entry.trial for entry in entries if (entry.run.search, entry.run.seed) != source]
        if others:
            self.search.tell([trial.point for trial in others], [trial.cost for trial in others])

    def propose(self, count: int) -> bool:
        """Begin batches of `count`, as many as may be under way; whether one is."""
        while len(self.batches) < _AHEAD and self.proposed < self.trials and not self._has_enough():
            points = self.search.propose(min(count, self.trials - self.proposed))
            if not points:
                break
            self.begin(points)
        return bool(self.batches)

    def _has_enough(self) -> bool:
        """By the trials told alone, which are the same whatever the number of workers."""
        return any(trial.cost <= self.enough for trial in self.told)

    def begin(self, points: list[Point]) -> None:
        """Begin a batch."""
        self.batches.append(points)
        for point in points:
            self._begin(point)

    def _begin(self, point: Point) -> None:
        known = self.known.get(_spelling(point))
        if known is None:
            self.workers.submit(self.proposed, point)
        else:
            self.ended[self.proposed] = known
            self.reused += 1
        self.proposed += 1

    def tell_first(self) -> None:
        """Wait for the first batch and tell the search."""
        points = self.batches[0]
        numbers = range(len(self.told), len(self.told) + len(points))
        while not all(number in self.ended for number in numbers):
            number, trial = self.workers.take()
            self.ended[number] = trial
            if self.log is not None:
                self.log.append(self.run, trial, self._features(trial.point))
            self._show()
        trials = [self.ended[number] for number in numbers]
        self.told += trials
        self.search.tell(points, [trial.cost for trial in trials])
        self.batches.popleft()
        self._show()

    def _features(self, point: Point) -> PointFeatures:
        row = self.task.features(np.array([self.task.space.index(point)]))[0]
        return PointFeatures.of(self.task.feature_names, row)

    def _show(self) -> None:
        self.show(TuningProgress(len(self.ended), self.trials, best_trial(self.ended.values())))


def logged(log: TuningLog, task: TuningTask) -> list[LoggedTrial]:
    """What searches tried of a task before, as points of its space."""
    entries = log.index.tried(task.key)
    return [replace(entry, trial=replace(entry.trial, point=task.of_log(entry.trial.point))) for entry in entries]


def _spelling(point: Point) -> str:
    """A point as text that does not depend on the order of its knobs."""
    return json.dumps(dict(point), sort_keys=True)
