"""The kernels of a network on a CPU as tuning tasks, and runs that tune them into a log.

tune_kernels("model.onnx", "kernels.jsonl", trials=64)
model = vdla.compile("model.onnx", "host", tuned="kernels.jsonl")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.graph import Graph, TensorType
from vdla.compiler.graph.macs import macs_of
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.graph.rules.graph_function import graph_function
from vdla.compiler.target import Target
from vdla.compiler.tune import CpuTask, kernel_task
from vdla.compiler.tune.cpu_task import kernel_key
from vdla.compiler.tune.searches import DEFAULT_SEARCH, new_search
from vdla.runtime.network import kernel_graphs
from vdla.runtime.network.targets import target_of
from vdla.runtime.tune.confirm import (
    AGAIN,
    ConfirmedSchedule,
    MakeWorkers,
    confirmed,
    log_confirmed,
    logged_schedule,
    one_process,
)
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.errors import TuningError
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.tune import Show, TuningProgress, TuningReport, tune
from vdla.runtime.tune.workers import TIMEOUT_S
from vdla.support.integers import is_int

if TYPE_CHECKING:
    from onnx import ModelProto

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class NetworkKernel:
    """A kernel of a network: `uses` steps run it, `macs` are the multiply-adds of one of them."""

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


def network_kernels(
    source: ModelProto | Graph | bytes | str | Path,
    cpu: Target | str = "host",
    extents: Mapping[str, int] | None = None,
) -> list[NetworkKernel]:
    """The different kernels of a model on a CPU alone, from most multiply-adds over all uses down.

    Raises:
        OnnxError, UnsupportedError: the model is not valid.
        ModelError: an unknown CPU, or wrong extents.
        TuningError: an extent without a number.
    """
    target = target_of(cpu, TuningError)
    uses: dict[str, list[Graph]] = {}
    graphs = kernel_graphs(source, cpu, extents)
    assert isinstance(target, Target)  # or `kernel_graphs` had refused it
    for graph in graphs:
        _check_extents(graph)
        key = _key(graph, target)
        if key:
            uses.setdefault(key, []).append(graph)
    found = [_kernel(f"kernel {number}", same, target) for number, same in enumerate(uses.values(), 1)]
    return sorted(found, key=lambda kernel: -kernel.uses * kernel.macs)


def _check_extents(graph: Graph) -> None:
    """TuningError unless the extents of all inputs are numbers."""
    types = (graph.types[name] for name in graph.inputs)
    shapes = (type.shape for type in types if isinstance(type, TensorType))
    unknown = next((extent for shape in shapes for extent in shape or () if not is_int(extent)), None)
    if unknown is not None:
        raise TuningError(f"tune_kernels: extents must have a number for {unknown}, got none")


def _key(graph: Graph, target: Target) -> str:
    """The key of a kernel's task; empty without an expression."""
    try:
        return kernel_key(graph_function(graph, target).function, target)
    except DeclinedError:
        return ""


def _kernel(name: str, same: list[Graph], target: Target) -> NetworkKernel:
    """The kernel that equal graphs share, named after its operators."""
    graph = same[0]
    operators = "+".join(node.op.removeprefix("vdla.").removeprefix("Blocked") for node in graph.nodes)
    task = kernel_task(graph, target, f"{name} {operators}")
    return NetworkKernel(task, len(same), sum(macs_of(graph, node) for node in graph.nodes))


def tune_kernels(
    source: ModelProto | Graph | bytes | str | Path,
    log: str | Path,
    *,
    cpu: Target | str = "host",
    extents: Mapping[str, int] | None = None,
    trials: int = 64,
    most: int | None = None,
    seed: int = 0,
    timeout_s: float = TIMEOUT_S,
    progress: Progress = lambda what, done, total: None,
) -> list[TunedKernel]:
    """Tune the kernels of a model that multiply, the largest first, and append all trials to a log.

    Each has up to `trials` trials, of `timeout_s` seconds at most; those that the log has are not
    repeated. Then the best are measured again, and the default schedule stays unless one of them is
    faster. `most` limits the number of kernels. `extents` gives numbers to symbols in the shapes of
    inputs. `progress` is called with the kernel and its best so far, the number of trials done and
    of all.

    Raises:
        OnnxError, UnsupportedError: the model is not valid.
        ModelError: an unknown CPU, or wrong extents.
        TuningError: this CPU cannot run the kernels, or an option is out of range.
    """
    for name, value in (("trials", trials), ("most", most)):
        if value is not None and (not is_int(value) or value < 1):
            raise TuningError(f"tune_kernels: {name} must be an integer from 1, got {value!r}")
    kernels = [kernel for kernel in network_kernels(source, cpu, extents) if kernel.macs][:most]
    total, found = trials * len(kernels), []
    with TuningLog(log) as opened:
        for number, kernel in enumerate(kernels):
            run = _KernelRun(kernel, opened, seed, partial(one_process, timeout_s=timeout_s))
            shown = partial(_show, progress, kernel.task.name, trials * number, total)
            found.append(run.tuned(trials, shown))
    progress("done", total, total)
    return found


def _show(progress: Progress, name: str, before: int, total: int, now: TuningProgress) -> None:
    """Report a trial among those of all kernels."""
    best = "" if now.best is None else f", best {1e6 * now.best.cost:,.1f} us"
    progress(f"{name}{best}", before + now.done, total)


@dataclass(frozen=True, slots=True)
class _KernelRun:
    """A run of the default search; the default schedule is tried first."""

    kernel: NetworkKernel
    log: TuningLog
    seed: int
    make_workers: MakeWorkers

    def tuned(self, trials: int, show: Show) -> TunedKernel:
        """Try schedules, then measure the best again unless the log has what came of that."""
        task = self.kernel.task
        run = TaskRun(task.key, task.name, task.target.cpu, task.space.name, DEFAULT_SEARCH, self.seed)
        report = self._tried(run, trials, show)
        schedule = logged_schedule(self.log, task)
        if schedule is None:
            known = [entry.trial for entry in self.log.index.tried(task.key)]
            schedule = confirmed(task, known, AGAIN, self.make_workers)
            log_confirmed(self.log, run, schedule, task)
        return TunedKernel(self.kernel, report, schedule)

    def _tried(self, run: TaskRun, trials: int, show: Show) -> TuningReport:
        task = self.kernel.task
        workers = self.make_workers(task, CpuMeasurer())
        try:
            search = new_search(DEFAULT_SEARCH, task, self.seed)
            return tune(task, search, run, workers, trials=trials, log=self.log, first=task.default, show=show)
        finally:
            workers.close()
