"""Which of the nodes that the accelerator can run do run there, and why: the decision by cost.

The nodes of a region stay together: what is saved by computing on the accelerator must pay for
packing what goes in and unpacking what comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vdla.compiler.graph.accelerator.cost import (
    PROGRAM_SECONDS,
    CpuModel,
    accelerator_seconds,
    cpu_seconds,
    handover_seconds,
)
from vdla.compiler.graph.accelerator.operator_call import reads_quantised
from vdla.compiler.graph.accelerator.partition import SCATTERED, AcceleratorCandidates, Regions, without_scattered_joins
from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.machine.call import OperatorCall
from vdla.compiler.graph.operators import RECORDS, Trait
from vdla.compiler.graph.operators.macs import macs_of
from vdla.hardware.config import Config


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a node runs, why, what would move it elsewhere; estimated seconds on each device."""

    device: str
    reason: str
    change: str = ""
    accelerator_seconds: float | None = None
    cpu_seconds: float | None = None
    gpu_seconds: float | None = None

    @property
    def seconds(self) -> float | None:
        """The estimate for the device that was chosen."""
        if self.device == "gpu":
            return self.gpu_seconds
        return self.accelerator_seconds if self.device == "vdla" else self.cpu_seconds


@dataclass(frozen=True, eq=False)
class Choice:
    """The operators that run on the accelerator, and the decision on each node, by first result."""

    calls: Mapping[str, OperatorCall]
    decisions: Mapping[str, Decision]


def choose(
    graph: Graph,
    config: Config,
    found: AcceleratorCandidates,
    cpu: CpuModel,
    forced: Mapping[str, str] | None = None,
    on_gpu: Mapping[str, float] | None = None,
) -> Choice:
    """The cheapest choice that moves whole groups of connected nodes.

    `forced` names devices, "cpu", "vdla" or "gpu", by name of a node or of its result. `on_gpu` has
    the seconds of nodes that a GPU would run in place of the CPU, by first result.
    """
    return _Choosing(graph, config, found, cpu, forced or {}, on_gpu or {}).run()


@dataclass
class _Choosing:
    graph: Graph
    config: Config
    found: AcceleratorCandidates
    cpu: CpuModel
    forced: Mapping[str, str]
    on_gpu: Mapping[str, float]

    def __post_init__(self) -> None:
        self.nodes = {node.outputs[0]: node for node in self.graph.nodes}
        self.on_accelerator = {n: accelerator_seconds(call, self.config) for n, call in self.found.calls.items()}
        self.on_cpu = {
            n: self.on_gpu.get(n, cpu_seconds(self.graph, self.nodes[n], call.macs, self.cpu))
            for n, call in self.found.calls.items()
        }

    def run(self) -> Choice:
        """Drops groups that do not pay until all do."""
        calls: Mapping[str, OperatorCall] = {
            name: call for name, call in self.found.calls.items() if self._force(name) not in ("cpu", "gpu")
        }
        dropped: dict[str, str] = {}
        while True:
            calls = self._joined(calls, dropped)
            poor = [group for group in self._groups(calls) if self._saved(group, calls) < 0]
            if not poor:
                break
            for group in poor:
                why = self._why_dropped(group, calls)
                dropped |= dict.fromkeys(group, why)
            calls = {name: call for name, call in calls.items() if name not in dropped}
        return Choice(calls, {name: self._decision(name, calls, dropped) for name in self.nodes})

    def _joined(self, calls: Mapping[str, OperatorCall], dropped: dict[str, str]) -> Mapping[str, OperatorCall]:
        """The operators but for concatenations that would not be free."""
        kept = without_scattered_joins(self.graph, self.config, calls)
        dropped |= {name: f"on the accelerator it must {SCATTERED}" for name in calls if name not in kept}
        return kept

    def _force(self, name: str) -> str | None:
        return self.forced.get(name) or self.forced.get(self.nodes[name].name)

    def _groups(self, calls: Mapping[str, OperatorCall]) -> Iterable[set[str]]:
        """The connected nodes of each region."""
        regions = Regions(self.graph, self.config, calls)
        group_of: dict[str, set[str]] = {}
        for name, call in calls.items():
            group = {name}
            for value, layout in call.inputs.values():
                root = regions.root(value)
                if root in calls and regions.level[root] == regions.level[name] and regions.is_packed(value, layout):
                    group |= group_of[root]
            for member in group:
                group_of[member] = group
        return {id(group): group for group in group_of.values()}.values()

    def _saved(self, group: set[str], calls: Mapping[str, OperatorCall]) -> float:
        """The seconds that a group saves there; infinite for what the user put there."""
        if any(self._force(name) == "vdla" for name in group):
            return float("inf")
        saved = sum(self.on_cpu[name] - self.on_accelerator[name] for name in group)
        return saved - self._handover(group, calls) - PROGRAM_SECONDS

    def _handover(self, group: set[str], calls: Mapping[str, OperatorCall]) -> float:
        """The seconds to pack the inputs of a group and to unpack its results."""
        regions = Regions(self.graph, self.config, calls)
        inputs = {
            (value, layout)
            for name in group
            for value, layout in calls[name].inputs.values()
            if not regions.is_packed(value, layout)
        }
        results = [calls[name].output for name in group if regions.read_by_host(name)]
        layouts = [*(layout for _, layout in inputs), *results]
        return sum(handover_seconds(layout, self.cpu) for layout in layouts)

    def _why_dropped(self, group: set[str], calls: Mapping[str, OperatorCall]) -> str:
        times = (sum(self.on_cpu[name] for name in group), sum(self.on_accelerator[name] for name in group))
        cpu, accelerator = map(milliseconds, times)
        handover = milliseconds(self._handover(group, calls) + PROGRAM_SECONDS)
        took = f"{accelerator} there and {handover} to hand over, {cpu} on {self._without(group)}"
        return f"on the accelerator it must take less time, got {took}"

    def _without(self, names: Iterable[str]) -> str:
        """What runs nodes if the accelerator does not."""
        return "the GPU" if any(name in self.on_gpu for name in names) else self.cpu.name

    def _decision(self, name: str, calls: Mapping[str, OperatorCall], dropped: Mapping[str, str]) -> Decision:
        node = self.nodes[name]
        cpu = self.on_cpu.get(name)
        if cpu is None:
            cpu = cpu_seconds(self.graph, node, macs_of(self.graph, node), self.cpu)
        times = {"accelerator_seconds": self.on_accelerator.get(name), "cpu_seconds": cpu}
        if name in calls:
            fast, slow = milliseconds(self.on_accelerator[name]), milliseconds(self.on_cpu[name])
            return Decision("vdla", f"{fast} there, {slow} on {self._without([name])}", "--place NODE=cpu", **times)
        if name in dropped:
            is_join = self.found.calls[name].operator is None
            more = "more work for each tensor handed over, or --place NODE=vdla"
            change = "other readers of its operands" if is_join else more
            return Decision("cpu", dropped[name], change, **times)
        if name in self.found.calls:
            return Decision("cpu", "named to stay on the CPU", "leaving out --place", **times)
        return Decision("cpu", self.found.reasons[name], self._change(node), **times)

    def _change(self, node: Node) -> str:
        """What would let the accelerator run a node."""
        if node.op.startswith("vdla.Q"):
            return "a template"
        kind = self.graph.types.get(node.outputs[0])
        is_float = isinstance(kind, TensorType) and kind.dtype.startswith("float")
        if not _is_quantisable(node) or not is_float or reads_quantised(self.graph, node):
            return ""
        return "quantisation, as with --calibration FILE"


def _is_quantisable(node: Node) -> bool:
    """Whether quantisation makes an integer operator of a float one."""
    record = RECORDS.get(node.op)
    if record is None or record.has(Trait.CONVERSION):
        return False
    return record.integer is not None or record.has(Trait.BOUND | Trait.POOL)


def milliseconds(seconds: float) -> str:
    """A time as text."""
    return f"{1e3 * seconds:.3g} ms"
