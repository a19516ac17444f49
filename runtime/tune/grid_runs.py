# SPDX-License-Identifier: Apache-2.0
"""Runs that tune a function for a grid of threads, on a device or by the cost model.

tuned = tune_grid(function, "grid.jsonl", trials=64)
kernel = vdla.compile(function, "opencl", tuned="grid.jsonl")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from vdla.compiler import ir
from vdla.compiler.target import GridLimits
from vdla.compiler.tune import Point
from vdla.compiler.tune.grid import MEASURED, MODELLED, GridTask, grid_task
from vdla.compiler.tune.searches import DEFAULT_SEARCH
from vdla.runtime.grid.registry import GRID_DEVICES, open_grid_device
from vdla.runtime.tune.confirm import (
    MakeWorkers,
    confirmed_in,
    one_process,
    tried,
)
from vdla.runtime.tune.grid_measurer import MODEL_LIMITS, MODEL_LIMITS_CUDA, GridMeasurer, GridModelMeasurer
from vdla.runtime.tune.kernel_runs import KernelOptions, Progress, prior_of
from vdla.runtime.tune.log import TaskRun, TuningLog, read_logs
from vdla.runtime.tune.trial import TuningError
from vdla.runtime.tune.tune import TuningProgress, TuningReport
from vdla.runtime.tune.workers import TIMEOUT_S

_AGAIN_ROUNDS = 15


@dataclass(frozen=True, slots=True)
class TunedGrid:
    """A task, its run, and the best tiles; `default_cost` is that of the default ones."""

    task: GridTask
    report: TuningReport
    point: Point
    cost: float
    default_cost: float
    unit: str

    @property
    def speedup(self) -> float:
        """Over the default tiles; at least 1."""
        return self.default_cost / self.cost

    @property
    def built(self) -> ir.Function:
        """The function with the best tiles."""
        return self.task.build(self.point)


def tune_grid(
    function: ir.Function,
    log: str | Path,
    *,
    target: str = "opencl",
    costs: str = MEASURED,
    trials: int = 64,
    search: str = DEFAULT_SEARCH,
    prior: Sequence[str | Path] = (),
    seed: int = 0,
    timeout_s: float = TIMEOUT_S,
    progress: Progress = lambda what, done, total: None,
) -> TunedGrid:
    """The best of up to `trials` choices of tiles for the block of a function with the most work.

    With `costs` "measured", kernels run on the device of `target`, as in `vdla.compile`, in a
    separate process, which a driver may crash; the default tiles stay unless others are faster when
    both are measured again. With "modelled", a GPU model gives the cost of lowered kernels, and no
    device is needed; for the target "cuda" it has tensor cores. Trials that the log has are not
    repeated. `progress` is called with the best so far, the number of trials done and of all.

    Raises:
        TuneError: an unknown search or kind of costs, or nothing to choose.
        TuningError: another target, an option out of range, or every trial failed.
        GridDeviceError: there is no such device.
    """
    options = KernelOptions(trials, search, seed, timeout_s, read_logs(*prior) if prior else None)
    _check_target(target)
    limits = _model_limits(target) if costs == MODELLED else open_grid_device(target).limits
    task = grid_task(function, limits, costs=costs)
    run = TaskRun(task.key, task.name, limits.name, task.space.name, search, seed)
    measurer = GridModelMeasurer() if costs == MODELLED else GridMeasurer(target)
    make_workers: MakeWorkers = partial(one_process, timeout_s=timeout_s)
    with TuningLog(log) as opened:
        groups = () if options.prior is None else prior_of(task, options.prior)
        workers, show = make_workers(task, measurer), partial(_show, progress)
        report = tried(task, run, workers, trials=trials, log=opened, show=show, prior=groups)
        return _modelled(task, report) if costs == MODELLED else _confirmed(task, report, opened, target, make_workers)


def _check_target(target: str) -> None:
    """TuningError unless a target is a device with a grid."""
    if target.partition(":")[0] not in GRID_DEVICES:
        known = " or ".join(f"{kind}[:NAME]" for kind in GRID_DEVICES)
        raise TuningError(f"tune: target of a grid must be {known}, got {target!r}")


def _model_limits(target: str) -> GridLimits:
    """The limits of the modelled GPU for a target."""
    return MODEL_LIMITS_CUDA if target.partition(":")[0] == "cuda" else MODEL_LIMITS


def _modelled(task: GridTask, report: TuningReport) -> TunedGrid:
    """The least modelled cycles; they are exact."""
    best, first = report.best, report.trials[0]
    return TunedGrid(task, report, best.point, best.cost, first.cost, best.unit)


def _confirmed(
    task: GridTask, report: TuningReport, log: TuningLog, target: str, make_workers: MakeWorkers
) -> TunedGrid:
    """What was faster than the default tiles when measured again, or these."""
    again = replace(GridMeasurer(target), rounds=_AGAIN_ROUNDS)
    confirmed = confirmed_in(log, task, report.run, again, make_workers)
    return TunedGrid(task, report, confirmed.point, confirmed.seconds, confirmed.default_seconds, report.best.unit)


def _show(progress: Progress, now: TuningProgress) -> None:
    """Report the best so far, seconds in microseconds."""
    if now.best is None:
        return progress("none has succeeded", now.done, now.total)
    is_time = now.best.unit == "seconds"
    best = f"best {1e6 * now.best.cost:,.1f} us" if is_time else f"best {now.best.cost:,.0f} {now.best.unit}"
    return progress(best, now.done, now.total)
