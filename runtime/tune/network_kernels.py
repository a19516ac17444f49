"""The kernels of a network on a CPU as tuning tasks, and runs that tune them into a log.

tune_kernels("model.onnx", "kernels.jsonl", trials=64)
model = vdla.compile("model.onnx", "host", tuned="kernels.jsonl")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.graph import Graph
from vdla.compiler.graph.macs import macs_of
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.graph.rules.graph_function import graph_function
from vdla.compiler.target import Target
from vdla.compiler.tune import CpuTask, kernel_task
from vdla.compiler.tune.cpu_task import kernel_key
from vdla.compiler.tune.searches import DEFAULT_SEARCH, new_search
from vdla.runtime.network import kernel_graphs
from vdla.runtime.network.targets import target_of
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.errors import TuningError
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.tune import TuningReport, tune
from vdla.runtime.tune.workers import LocalWorkers, Workers

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
    """A kernel and its run. `speedup` is the cost of the default schedule over that of the best."""

    kernel: NetworkKernel
    report: TuningReport

    @property
    def speedup(self) -> float:
        """By the costs of the trials, the least of which is a little too low."""
        default = dict(self.kernel.task.default)
        costs = (trial.cost for trial in self.report.trials if dict(trial.point) == default)
        return next(costs, self.report.best.cost) / self.report.best.cost


def network_kernels(
    source: ModelProto | Graph | bytes | str | Path,
    cpu: Target | str = "host",
    extents: Mapping[str, int] | None = None,
) -> list[NetworkKernel]:
    """The different kernels of a model on a CPU alone, from most multiply-adds over all uses down.

    Raises:
        OnnxError, UnsupportedError: the model is not valid.
        ModelError: an unknown CPU, or wrong extents.
    """
    target = target_of(cpu, TuningError)
    uses: dict[str, list[Graph]] = {}
    graphs = kernel_graphs(source, cpu, extents)
    assert isinstance(target, Target)  # or `kernel_graphs` had refused it
    for graph in graphs:
        key = _key(graph, target)
        if key:
            uses.setdefault(key, []).append(graph)
    found = [_kernel(f"kernel {number}", same, target) for number, same in enumerate(uses.values(), 1)]
    return sorted(found, key=lambda kernel: -kernel.uses * kernel.macs)


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
    progress: Progress = lambda what, done, total: None,
) -> list[TunedKernel]:
    """Tune the kernels of a model that multiply, the largest first, and append all trials to a log.

    Each has up to `trials` trials; those that the log has are not repeated. `most` limits the
    number of kernels. `extents` gives numbers to symbols in the shapes of inputs. `progress` is
    called with the kernel that is next, the number of kernels done and of all.

    Raises:
        OnnxError, UnsupportedError: the model is not valid.
        ModelError: an unknown CPU, or wrong extents.
        TuningError: this CPU cannot run the kernels, or an option is out of range.
    """
    kernels = [kernel for kernel in network_kernels(source, cpu, extents) if kernel.macs][:most]
    workers = LocalWorkers(CpuMeasurer(), 1)
    found = []
    try:
        with TuningLog(log) as opened:
            for done, kernel in enumerate(kernels):
                progress(kernel.task.name, done, len(kernels))
                found.append(TunedKernel(kernel, _run(kernel.task, workers, opened, trials, seed)))
    finally:
        workers.close()
    progress("done", len(kernels), len(kernels))
    return found


def _run(task: CpuTask, workers: Workers, log: TuningLog, trials: int, seed: int) -> TuningReport:
    """A run of the default search."""
    run = TaskRun(task.key, task.name, task.target.cpu, task.space.name, DEFAULT_SEARCH, seed)
    return tune(task, new_search(DEFAULT_SEARCH, task, seed), run, workers, trials=trials, log=log)
