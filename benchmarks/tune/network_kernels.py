"""Kernels of compiled networks as tuning tasks: those of most multiply-adds, each once."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.benchmarks.networks.registry import network
from vdla.compiler.graph import Graph
from vdla.compiler.graph.macs import macs_of
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.graph.rules.graph_function import graph_function
from vdla.compiler.target import Target, host
from vdla.compiler.tune import CpuTask, kernel_task
from vdla.compiler.tune.cpu_task import kernel_key
from vdla.runtime.network import kernel_graphs


@dataclass(frozen=True, slots=True)
class NetworkKernel:
    """A kernel of a network: `uses` steps run it, `macs` are the multiply-adds of one of them."""

    network: str
    task: CpuTask
    uses: int
    macs: int


def largest_kernels(name: str, count: int, seed: int = 0, **parameters: object) -> list[NetworkKernel]:
    """The `count` different kernels of a network at batch 1 with most multiply-adds over all uses.

    `parameters` are those of the network.
    """
    target = host()
    graphs = kernel_graphs(network(name).build(seed=seed, **parameters), target)
    uses: dict[str, list[Graph]] = {}
    for graph in graphs:
        key = _key(graph, target)
        if key:
            uses.setdefault(key, []).append(graph)
    found = [_kernel(name, number, same, target) for number, same in enumerate(uses.values(), 1)]
    return sorted(found, key=lambda kernel: -kernel.uses * kernel.macs)[:count]


def _key(graph: Graph, target: Target) -> str:
    """The key of a kernel's task; empty without an expression."""
    try:
        return kernel_key(graph_function(graph, target).function, target)
    except DeclinedError:
        return ""


def _kernel(name: str, number: int, same: list[Graph], target: Target) -> NetworkKernel:
    """The kernel that equal graphs share; `number` is its place among those of the network."""
    graph = same[0]
    operators = "+".join(node.op.removeprefix("vdla.Blocked") for node in graph.nodes)
    task = kernel_task(graph, target, f"{name} {number} {operators}")
    return NetworkKernel(name, task, len(same), sum(macs_of(graph, node) for node in graph.nodes))
