# SPDX-License-Identifier: Apache-2.0
"""The kernels of a network on a CPU as tuning tasks, and runs that tune them into a log.

tune_kernels("model.onnx", "kernels.jsonl", trials=64)
model = vdla.compile("model.onnx", "host", tuned="kernels.jsonl")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.graph import Graph, TensorType
from vdla.compiler.graph.operators.graph_function import graph_function
from vdla.compiler.graph.operators.macs import macs_of
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.target import Target
from vdla.compiler.tune import kernel_task
from vdla.compiler.tune.cpu_task import kernel_key
from vdla.compiler.tune.searches import DEFAULT_SEARCH
from vdla.runtime.network.compile_network import kernel_graphs
from vdla.runtime.network.targets import Shapes, target_of
from vdla.runtime.tune.kernel_runs import KernelOptions, NetworkKernel, Progress, TunedKernel, check_count, tune_into
from vdla.runtime.tune.log import read_logs
from vdla.runtime.tune.trial import TuningError
from vdla.runtime.tune.workers import TIMEOUT_S
from vdla.support.integers import is_int

if TYPE_CHECKING:
    from vdla.runtime.network.import_network import ModelSource


def network_kernels(
    source: ModelSource,
    cpu: Target | str = "host",
    extents: Mapping[str, int] | None = None,
    threads: int = 1,
    shapes: Shapes | None = None,
) -> list[NetworkKernel]:
    """The different kernels of a model on a CPU alone, from most multiply-adds over all uses down.

    Their tasks are for `threads` threads.

    Raises:
        OnnxError, UnsupportedError: the model is not valid.
        ModelError: an unknown CPU, or wrong extents.
        TuningError: an extent without a number.
    """
    target = target_of(cpu, TuningError)
    uses: dict[str, list[Graph]] = {}
    graphs = kernel_graphs(source, cpu, extents, shapes)
    assert isinstance(target, Target)  # or `kernel_graphs` had refused it
    for graph in graphs:
        _check_extents(graph)
        key = _key(graph, target)
        if key:
            uses.setdefault(key, []).append(graph)
    tasks = [_kernel(f"kernel {number}", same, target, threads) for number, same in enumerate(uses.values(), 1)]
    return sorted(tasks, key=lambda kernel: -kernel.uses * kernel.macs)


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


def _kernel(name: str, same: list[Graph], target: Target, threads: int) -> NetworkKernel:
    """The kernel that equal graphs share, named after its operators."""
    graph = same[0]
    operators = "+".join(node.op.removeprefix("vdla.").removeprefix("Blocked") for node in graph.nodes)
    task = kernel_task(graph, target, f"{name} {operators}", threads)
    return NetworkKernel(task, len(same), sum(macs_of(graph, node) for node in graph.nodes))


def tune_kernels(
    source: ModelSource,
    log: str | Path,
    *,
    cpu: Target | str = "host",
    extents: Mapping[str, int] | None = None,
    shapes: Shapes | None = None,
    trials: int = 64,
    most: int | None = None,
    search: str = DEFAULT_SEARCH,
    prior: Sequence[str | Path] = (),
    threads: int = 1,
    seed: int = 0,
    timeout_s: float = TIMEOUT_S,
    progress: Progress = lambda what, done, total: None,
) -> list[TunedKernel]:
    """Tune the kernels of a model that multiply, the largest first, and append all trials to a log.

    Each kernel has up to `trials` trials, proposed by `search`, of at most `timeout_s` seconds;
    trials in the log are not repeated. Then the best are measured again, and the default schedule
    stays unless one of them is faster. `most` limits the number of kernels. `prior` are logs of
    other kernels, or folders of them, which train the cost model of a search that has one. For
    several `threads` of the pool, the parallel loop and its number of parts are knobs, too; such
    schedules are logged separately from those for one thread. `extents` gives numbers to symbols in
    the shapes of inputs, `shapes` has shapes of inputs, as for `vdla.compile`.
    `progress` is called with the kernel and its best so far, the number of
    trials done and of all.

    Raises:
        OnnxError, UnsupportedError: the model is not valid.
        ModelError: an unknown CPU, or wrong extents.
        TuneError: an unknown search.
        TuningError: this CPU cannot run the kernels, or an option is out of range.
    """
    known = read_logs(*prior) if prior else None
    options = KernelOptions(trials=trials, search=search, seed=seed, timeout_s=timeout_s, prior=known)
    if most is not None:
        check_count("most", most)
    check_count("threads", threads)
    kernels = [kernel for kernel in network_kernels(source, cpu, extents, threads, shapes) if kernel.macs][:most]
    return tune_into(log, kernels, options, progress)
