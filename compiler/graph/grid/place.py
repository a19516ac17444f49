# SPDX-License-Identifier: Apache-2.0
"""Which nodes run on a GPU and which on the CPU: the cheapest choice, copies included.

A value is copied at most once in each direction. The choice is a minimum cut: nodes on the source
side run on the GPU, and the cut edges are the costs of nodes and copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from vdla.compiler.graph.accelerator import CpuModel, Decision, cpu_seconds, milliseconds, tensor_bytes
from vdla.compiler.graph.attributes import declare_attributes
from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.groups import BODY, FUSED, fused_node
from vdla.compiler.graph.minimum_cut import source_side
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.operators.macs import macs_of
from vdla.compiler.graph.operators.table import alias_sources
from vdla.compiler.graph.passes import fuse

GPU, CPU = "gpu", "cpu"
_STEPS_PER_SECOND = 1e10  # capacities are integers


@dataclass(frozen=True, eq=False)
class GridPlacement:
    """The nodes on the GPU by their first results, and the decision for each node with a choice."""

    on_grid: frozenset[str]
    decisions: Mapping[str, Decision]


def place_on_grid(
    graph: Graph,
    reasons: Mapping[str, str],
    gpu: GpuModel,
    cpu: CpuModel | None,
    forced: Mapping[str, str] | None = None,
) -> GridPlacement:
    """The cheapest choice; without `cpu`, the GPU runs every node that it can.

    `reasons` says why nodes cannot run there, by first result. `forced` names devices, "cpu" or
    "gpu", by the name of a node or of its result.
    """
    choosing = _Choosing(graph=graph, reasons=reasons, gpu=gpu, cpu=cpu, forced=forced or {})
    return choosing.run()


@dataclass
class _Choosing:
    graph: Graph
    reasons: Mapping[str, str]
    gpu: GpuModel
    cpu: CpuModel | None
    forced: Mapping[str, str]
    capacities: dict[tuple[Any, Any], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.aliases = alias_sources(self.graph)
        self.nodes = {n.outputs[0]: n for n in self.graph.nodes if n.outputs[0] not in self.aliases}
        self.producer = {value: name for name, node in self.nodes.items() for value in node.outputs if value}

    def run(self) -> GridPlacement:
        """Nodes without a choice are merged with the source or the sink."""
        free = {name for name in self.nodes if self._fixed(name) is None}
        on_grid = {name for name in self.nodes if self._fixed(name) == GPU}
        if self.cpu is None:
            on_grid |= free
        else:
            on_grid |= self._cheapest(free, self.cpu)
        return GridPlacement(frozenset(on_grid), {name: self._decision(name, on_grid) for name in self.nodes})

    def _fixed(self, name: str) -> str | None:
        if name in self.reasons:
            return CPU
        device = self.forced.get(name) or self.forced.get(self.nodes[name].name)
        return None if device is None else (GPU if device == GPU else CPU)

    # --- the cut

    def _cheapest(self, free: set[str], cpu: CpuModel) -> set[str]:
        for name in free:
            self._edge(GPU, ("node", name), cpu_seconds(self.graph, self.nodes[name], self._macs(name), cpu))
            self._edge(("node", name), CPU, self._gpu_seconds(name))
        for value in (*self.graph.inputs, *self.producer):
            self._copies(value, free)
        side = source_side(self.capacities, GPU, CPU)
        return {name for name in free if ("node", name) in side}

    def _copies(self, value: str, free: set[str]) -> None:
        """The edges of the copies of a value: one for all readers on the other side."""
        made = self._end(self.producer.get(value), free)
        readers = {self._end(name, free) for name in self._readers(value)}
        readers |= {CPU for output in self.graph.outputs if self._root(output) == value}
        seconds = self.gpu.seconds_to_copy(tensor_bytes(self.graph, value))
        down, up = ("down", value), ("up", value)
        for reader in readers - {made}:
            self._edge(made, down, seconds, once=True)
            self._edge(down, reader, None)
            self._edge(reader, up, None)
            self._edge(up, made, seconds, once=True)

    def _readers(self, value: str) -> list[str]:
        names = [value, *(alias for alias, source in self.aliases.items() if source == value)]
        readers = [node for name in names for node in self.graph.consumers.get(name, ())]
        return [node.outputs[0] for node in readers if node.outputs[0] in self.nodes]

    def _end(self, name: str | None, free: set[str]) -> Any:  # noqa: ANN401  a vertex
        """The vertex of a node; the model's inputs and fixed nodes are the source or the sink."""
        if name is None:
            return CPU
        return ("node", name) if name in free else self._fixed(name)

    def _edge(self, tail: Any, head: Any, seconds: float | None, *, once: bool = False) -> None:  # noqa: ANN401
        """Seconds None: the edge is never cut."""
        if tail == head or (once and (tail, head) in self.capacities):
            return
        most = 1 << 60
        self.capacities[tail, head] = most if seconds is None else round(seconds * _STEPS_PER_SECOND)

    def _root(self, value: str) -> str:
        return self.aliases.get(value, value)

    # --- costs and reasons

    def _macs(self, name: str) -> int:
        return macs_of(self.graph, self.nodes[name])

    def _gpu_seconds(self, name: str) -> float:
        values = dict.fromkeys(value for value in (*self._node(name).inputs, *self._node(name).outputs) if value)
        return self.gpu.seconds(self._macs(name), sum(tensor_bytes(self.graph, value) for value in values))

    def _node(self, name: str) -> Node:
        return self.nodes[name]

    def _decision(self, name: str, on_grid: set[str]) -> Decision:
        forced = self.forced.get(name) or self.forced.get(self.nodes[name].name)
        if name in self.reasons:
            return Decision(CPU, f"on the GPU it must {self.reasons[name]}")
        gpu = self._gpu_seconds(name)
        cpu = None if self.cpu is None else cpu_seconds(self.graph, self.nodes[name], self._macs(name), self.cpu)
        times: dict[str, Any] = {"gpu_seconds": gpu, "cpu_seconds": cpu}
        if forced is not None:
            device = GPU if name in on_grid else CPU
            return Decision(device, f"placed on the {device.upper()} by the user", "leaving out --place", **times)
        if self.cpu is None or cpu is None:
            return Decision(GPU, "the target is the GPU", "--place NODE=cpu", **times)
        compared = f"{milliseconds(gpu)} on the GPU, {milliseconds(cpu)} on {self.cpu.name}"
        if name in on_grid:
            return Decision(GPU, compared, "--place NODE=cpu", **times)
        return Decision(
            CPU, f"{compared}, and copies between them", "more work for each value copied, or --place NODE=gpu", **times
        )


# --- kernels --------------------------------------------------------------------------------------


GRID = "vdla.Grid"
declare_attributes(GRID, {BODY: Graph})


def group_for_grid(graph: Graph, on_grid: Set[str]) -> Graph:
    """The graph with the nodes of these first results fused, each group a node of the GPU."""

    def here(node: Node) -> bool:
        return node.outputs[0] in on_grid

    fused = fuse(graph, lambda node: here(node) and not has_trait(node.op, Trait.RESHAPE))
    return fused.replace(nodes=tuple(_on_grid(fused, node) if here(node) else node for node in fused.nodes))


def _on_grid(graph: Graph, node: Node) -> Node:
    group = node if node.op == FUSED else replace(fused_node(graph, [node]), name=node.name)
    return replace(group, op=GRID)


# --- costs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuModel:
    """Rates of a GPU: products, bytes of its memory, one kernel; bytes between memories, one copy.

    `source` says where the numbers come from.
    """

    name: str
    macs_per_second: float
    bytes_per_second: float
    call_seconds: float
    copied_bytes_per_second: float
    copy_seconds: float
    source: str

    def seconds(self, macs: int, nbytes: int) -> float:
        """The time of one operator."""
        return self.call_seconds + max(macs / self.macs_per_second, nbytes / self.bytes_per_second)

    def seconds_to_copy(self, nbytes: int) -> float:
        """The time of a copy from one memory to the other."""
        return self.copy_seconds + nbytes / self.copied_bytes_per_second


GPU_MODEL = GpuModel(
    "the GPU",
    macs_per_second=2.0e12,
    bytes_per_second=2.0e11,
    call_seconds=8e-6,
    copied_bytes_per_second=8.0e9,
    copy_seconds=15e-6,
    source="data sheets of cards of 10 TFLOPS with 16 lanes of PCIe 3, 40 % of their peak",
)
"""The rates of any GPU; no figure of it was measured."""

HOST_MODEL = CpuModel("the CPU", 1.0e11, 1.0e10, 1e-6, "data sheet of 4 cores of 3 GHz with AVX2, 25 % of their peak")
"""The rates of a workstation's CPU beside a GPU."""
