# SPDX-License-Identifier: Apache-2.0
"""A user's schedule function with knobs, tuned by measurement.

    tuned = tune_schedule(schedule, "mine.jsonl", trials=40)
    kernel = vdla.compile(tuned.built, "host")

Programs are measured on the simulator, functions as kernels of this CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from vdla.compiler.tune import Built, Knobs, KnobTask, Point, knob_task
from vdla.compiler.tune.searches import DEFAULT_SEARCH
from vdla.hardware.program import Program
from vdla.runtime.tune.confirm import confirmed_in, tried
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.measurer import Measurer, SimMeasurer
from vdla.runtime.tune.trial import TuningError
from vdla.runtime.tune.tune import BATCH, TuningProgress, TuningReport
from vdla.runtime.tune.workers import TIMEOUT_S, LocalWorkers

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class TunedKnobs:
    """The best values of knobs, and what the schedule function makes of them.

    Costs are cycles of a program or seconds of a kernel; `default_cost` is that of the first values
    of the knobs.
    """

    point: Point
    built: Built
    cost: float
    default_cost: float
    unit: str
    report: TuningReport

    @property
    def speedup(self) -> float:
        """Over the first values of the knobs; at least 1."""
        return self.default_cost / self.cost


def tune_schedule(
    schedule: Callable[[Knobs], Built],
    log: str | Path,
    *,
    trials: int = 64,
    search: str = DEFAULT_SEARCH,
    seed: int = 0,
    timeout_s: float = TIMEOUT_S,
    progress: Progress = lambda what, done, total: None,
) -> TunedKnobs:
    """The best of up to `trials` points of the space that a schedule function's knobs define.

    The function returns a `Program` or the function of a `Schedule`. Trials run in processes that
    import its module; trials in the log are not repeated. The first values of the knobs are tried
    first. On a CPU, results must equal those of the first values, up to rounding, and other values
    are accepted if they are faster when both are measured again. `progress` is called with the best
    so far, the number of trials done and of all.

    Raises:
        TuneError: a knob has no legal value, no point is legal, an unknown search, or it returns
            something else.
        TuningError: the function is not in a module of its own, an option is out of range, or every
            trial failed.
        Error: the first values cannot be built.
    """
    task = knob_task(schedule)
    if getattr(schedule, "__module__", "__main__") == "__main__":
        rule = "schedule must be in a module, which processes can import"
        raise TuningError(f"tune {task.name}: {rule}, got a function of __main__")
    default = task.build(task.default)
    task = replace(task, content=f"{task.content}\n{_content(default, task)}")
    measurer: Measurer = SimMeasurer() if isinstance(default, Program) else CpuMeasurer()
    machine = default.config.name if isinstance(default, Program) else task.target.cpu
    run = TaskRun(task.key, task.name, machine, task.space.name, search, seed)
    few = 1 if min(trials, task.space.size) <= BATCH else None  # starting more would take longer
    with TuningLog(log) as opened:
        workers, show = LocalWorkers(measurer, few, timeout_s), partial(_show, progress)
        report = tried(task, run, workers, trials=trials, log=opened, show=show)
        return _of_program(task, report) if isinstance(default, Program) else _of_kernel(task, report, opened)


def _content(default: Built, task: KnobTask) -> str:
    """What is computed and where: by a program with its memory, or by a function on a CPU."""
    if isinstance(default, Program):
        return f"{default.hash} {default.config.dram}"
    return f"{default} {task.target}"


def _show(progress: Progress, now: TuningProgress) -> None:
    best = "no trial succeeded" if now.best is None else f"best {now.best.cost:.6g} {now.best.unit}"
    progress(best, now.done, now.total)


def _of_program(task: KnobTask, report: TuningReport) -> TunedKnobs:
    """The least cycles; they are exact."""
    best, first = report.best, report.trials[0]
    return TunedKnobs(best.point, task.build(best.point), best.cost, first.cost, best.unit, report)


def _of_kernel(task: KnobTask, report: TuningReport, log: TuningLog) -> TunedKnobs:
    """What was confirmed to be faster than the first values, or these."""
    confirmed = confirmed_in(log, task, report.run)
    return TunedKnobs(
        confirmed.point,
        task.build(confirmed.point),
        confirmed.seconds,
        confirmed.default_seconds,
        report.best.unit,
        report,
    )
