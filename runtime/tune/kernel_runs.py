# SPDX-License-Identifier: Apache-2.0
"""Runs that tune kernels of a CPU into a log: trials, then what is faster when measured again.

A run is the one interface to all searches; the default schedule is tried first. A cost model learns
from the logs of other tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from vdla.compiler.tune import CpuTask, TuningTask
from vdla.compiler.tune.cost_model import Group
from vdla.compiler.tune.searches import DEFAULT_SEARCH
from vdla.runtime.tune.confirm import (
    AGAIN,
    ConfirmedSchedule,
    MakeWorkers,
    confirmed_in,
    one_process,
    tried,
)
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.log import LoggedTrial, TaskRun, TrialIndex, TuningLog, feature_set
from vdla.runtime.tune.trial import TuningError
from vdla.runtime.tune.tune import Show, TuningProgress, TuningReport
from vdla.runtime.tune.workers import TIMEOUT_S
from vdla.support.integers import is_int


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


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class NetworkKernel:
    """A kernel: `uses` steps of a network run it, `macs` are the multiply-adds of one of them."""

    task: CpuTask
    uses: int
    macs: int


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """A kernel, its run, and what was confirmed: a faster schedule, or the default one."""

    kernel: NetworkKernel
    report: TuningReport
    schedule: ConfirmedSchedule

    @property
    def speedup(self) -> float:
        """Of the schedule over the default one."""
        return self.schedule.speedup


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """How each kernel is tuned: by up to `trials` trials of `timeout_s` seconds at most.

    `search` proposes points; one with a cost model learns from the trials of other kernels in
    `prior`. Kernels run on as many threads as their tasks have.

    Raises:
        TuningError: `trials` is out of range.
    """

    trials: int = 64
    search: str = DEFAULT_SEARCH
    seed: int = 0
    timeout_s: float = TIMEOUT_S
    prior: TrialIndex | None = None

    def __post_init__(self) -> None:
        check_count("trials", self.trials)


def check_count(name: str, value: object) -> None:
    """TuningError unless an option of `tune_kernels` is a positive integer."""
    if not is_int(value) or value < 1:
        raise TuningError(f"tune_kernels: {name} must be an integer from 1, got {value!r}")


def tune_into(
    log: str | Path, kernels: Sequence[NetworkKernel], options: KernelOptions, progress: Progress
) -> list[TunedKernel]:
    """Tune kernels one after the other and append all trials to a log.

    Raises:
        TuneError: an unknown search.
        TuningError: this CPU cannot run the kernels, or the log cannot be written.
    """
    total, kernels_tuned = options.trials * len(kernels), []
    with TuningLog(log) as opened:
        for number, kernel in enumerate(kernels):
            run = _KernelRun(kernel, opened, options, partial(one_process, timeout_s=options.timeout_s))
            kernels_tuned.append(run.tuned(partial(_show, progress, kernel.task.name, options.trials * number, total)))
    progress("done", total, total)
    return kernels_tuned


def _show(progress: Progress, name: str, before: int, total: int, now: TuningProgress) -> None:
    """Report a trial among those of all kernels."""
    best = "" if now.best is None else f", best {1e6 * now.best.cost:,.1f} us"
    progress(f"{name}{best}", before + now.done, total)


@dataclass(frozen=True, slots=True)
class _KernelRun:
    """The run of a kernel."""

    kernel: NetworkKernel
    log: TuningLog
    options: KernelOptions
    make_workers: MakeWorkers

    def tuned(self, show: Show) -> TunedKernel:
        """Tries schedules, then measures the best again unless the log already has that
        measurement.
        """
        task, options = self.kernel.task, self.options
        run = TaskRun(task.key, task.name, task.target.cpu, task.space.name, options.search, options.seed)
        prior = () if options.prior is None else prior_of(task, options.prior)
        workers = self.make_workers(task, CpuMeasurer(threads=task.threads))
        report = tried(task, run, workers, trials=options.trials, log=self.log, show=show, prior=prior)
        again = replace(AGAIN, threads=task.threads)
        return TunedKernel(self.kernel, report, confirmed_in(self.log, task, run, again, self.make_workers))
