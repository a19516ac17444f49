# SPDX-License-Identifier: Apache-2.0
"""Which of the nodes that the accelerator can run do run there, and why: the decision by cost.

The nodes of a region stay together: the time saved on the accelerator must exceed the time to pack
the inputs and to unpack the results of the region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vdla.compiler.graph.accelerator.cost import (
    PROGRAM_SECONDS,
    AcceleratorTime,
    CpuModel,
    cpu_seconds,
    handover_seconds,
    seconds_of,
)
from vdla.compiler.graph.accelerator.operator_call import reads_quantised
from vdla.compiler.graph.accelerator.partition import SCATTERED, AcceleratorCandidates, Regions, without_scattered_joins
from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.machine.attention_call import CACHED_ATTENTION
from vdla.compiler.graph.machine.call import OperatorCall
from vdla.compiler.graph.operators import RECORDS, Trait
from vdla.compiler.graph.operators.macs import macs_of
from vdla.compiler.operators.vdla import Operator, WrittenOperator
from vdla.hardware.config import Config


@dataclass(frozen=True, slots=True)
class RegionCost:
    """Connected operators that move to the accelerator together, and their seconds.

    `handover_seconds` is the time to pack the inputs, start the program and unpack the results;
    `host` names the device that runs the operators otherwise. `requirement` says why they are on
    the accelerator whatever the times; it is empty where the times decide.
    """

    operators: int
    accelerator_seconds: float
    handover_seconds: float
    host_seconds: float
    host: str
    requirement: str = ""

    @property
    def saved_seconds(self) -> float:
        """The seconds saved by the accelerator, packing included."""
        return self.host_seconds - self.accelerator_seconds - self.handover_seconds

    def __str__(self) -> str:
        accelerator, handover, host = map(
            milliseconds, (self.accelerator_seconds, self.handover_seconds, self.host_seconds)
        )
        times = f"{accelerator} on the accelerator and {handover} for packing, {host} on {self.host}"
        return times if self.operators == 1 else f"{times}, with the {self.operators} operators of its region"


@dataclass(frozen=True, slots=True)
class Decision:
    """The device of a node, the reason, what would change the choice; seconds on each device.

    Seconds of the accelerator are estimates until its program is timed. `extensions` are the
    instructions of extensions that run the node; `no_extension` says what it must do to have some,
    on a machine with extensions.
    """

    device: str
    because: str | RegionCost
    change: str = ""
    accelerator_seconds: float | None = None
    cpu_seconds: float | None = None
    gpu_seconds: float | None = None
    extensions: tuple[str, ...] = ()
    no_extension: str = ""

    @property
    def seconds(self) -> float | None:
        """The time on the device that was chosen."""
        if self.device == "gpu":
            return self.gpu_seconds
        return self.accelerator_seconds if self.device == "vdla" else self.cpu_seconds

    @property
    def reason(self) -> str:
        """The reason for the device: the times of the node, or of its region if that decided."""
        region, accelerator, host = self.because, self.accelerator_seconds, self.cpu_seconds
        if isinstance(region, str) or accelerator is None or host is None:
            return str(region)
        if accelerator < host:
            return f"{milliseconds(accelerator)} on the accelerator, {milliseconds(host)} on {region.host}"
        return f"less time in all: {region}"


CycleCounter = Callable[[Operator | WrittenOperator], int]


@dataclass(frozen=True, eq=False)
class Choice:
    """The operators on the accelerator, and the decision for each node, by first result."""

    calls: Mapping[str, OperatorCall]
    decisions: Mapping[str, Decision]


def choose(
    graph: Graph,
    config: Config,
    candidates: AcceleratorCandidates,
    cpu: CpuModel,
    forced: Mapping[str, str] | None = None,
    on_gpu: Mapping[str, float] | None = None,
    count_cycles: CycleCounter | None = None,
) -> Choice:
    """The cheapest choice that moves whole groups of connected nodes.

    `forced` names devices, "cpu", "vdla" or "gpu", by the name of a node or of its result. `on_gpu`
    has the seconds on the GPU of the nodes that it would run in place of the CPU, by first result.
    `count_cycles` times the programs of operators whose estimates are too coarse for the choice.
    """
    return _Choosing(
        graph=graph,
        config=config,
        candidates=candidates,
        cpu=cpu,
        forced=forced or {},
        on_gpu=on_gpu or {},
        count_cycles=count_cycles,
    ).run()


@dataclass
class _Choosing:
    graph: Graph
    config: Config
    candidates: AcceleratorCandidates
    cpu: CpuModel
    forced: Mapping[str, str]
    on_gpu: Mapping[str, float]
    count_cycles: CycleCounter | None

    def __post_init__(self) -> None:
        self.nodes = {node.outputs[0]: node for node in self.graph.nodes}
        self.times = {name: AcceleratorTime.of(call, self.config) for name, call in self.candidates.calls.items()}
        self.timed: dict[Operator | WrittenOperator, AcceleratorTime] = {}
        self.regions: Regions | None = None
        self.on_cpu = {
            n: self.on_gpu.get(n, cpu_seconds(self.graph, self.nodes[n], call.macs, self.cpu))
            for n, call in self.candidates.calls.items()
        }

    def run(self) -> Choice:
        """Drop groups that do not pay until all remaining ones do; time groups where estimates are
        too coarse.
        """
        calls: Mapping[str, OperatorCall] = {
            name: call for name, call in self.candidates.calls.items() if self._force(name) not in ("cpu", "gpu")
        }
        dropped: dict[str, str] = {}
        while True:
            calls = self._joined(calls, dropped)
            groups = self._groups(calls)
            if self._time(name for group in groups if self._is_open(group, calls) for name in group):
                continue
            poor = [
                group for group in groups if not self._requirement(group) and self._cost(group, calls).saved_seconds < 0
            ]
            if not poor:
                break
            for group in poor:
                why = f"on the accelerator it must take less time, got {self._cost(group, calls)}"
                dropped |= dict.fromkeys(group, why)
            calls = {name: call for name, call in calls.items() if name not in dropped}
        costs = [(group, self._cost(group, calls)) for group in groups]
        regions = {name: cost for group, cost in costs for name in group}
        return Choice(calls, {name: self._decision(name, regions, dropped) for name in self.nodes})

    def _time(self, names: Iterable[str]) -> bool:
        """Time the programs of estimated operators; whether there were any."""
        estimated = [name for name in names if self.times[name].error > 1]
        for name in estimated:
            operator = self.candidates.calls[name].operator
            assert operator is not None and self.count_cycles is not None
            if operator not in self.timed:  # equal layers share an operator
                self.timed[operator] = AcceleratorTime(seconds_of(self.count_cycles(operator), self.config))
            self.times[name] = self.timed[operator]
        return bool(estimated)

    def _is_open(self, group: set[str], calls: Mapping[str, OperatorCall]) -> bool:
        """Whether a group may not pay within the errors of its estimates; also true for a group
        that surely does not, since its exact times are printed as the reason.
        """
        if self.count_cycles is None or self._requirement(group):
            return False
        cost = self._cost(group, calls)
        longest = sum(self.times[name].seconds * self.times[name].error for name in group)
        return cost.saved_seconds < longest - cost.accelerator_seconds

    def _joined(self, calls: Mapping[str, OperatorCall], dropped: dict[str, str]) -> Mapping[str, OperatorCall]:
        """The operators without the concatenations that would cost a copy."""
        kept = without_scattered_joins(self.graph, self.config, calls)
        dropped |= {name: f"on the accelerator it must {SCATTERED}" for name in calls if name not in kept}
        return kept

    def _force(self, name: str) -> str | None:
        return self.forced.get(name) or self.forced.get(self.nodes[name].name)

    def _regions(self, calls: Mapping[str, OperatorCall]) -> Regions:
        """The regions of these operators, which are the same for all groups."""
        if self.regions is None or self.regions.calls is not calls:
            self.regions = Regions(self.graph, self.config, calls)
        return self.regions

    def _groups(self, calls: Mapping[str, OperatorCall]) -> list[set[str]]:
        """The connected nodes of each region."""
        regions = self._regions(calls)
        group_of: dict[str, set[str]] = {}
        for name, call in calls.items():
            group = {name}
            for value, layout in call.inputs.values():
                root = regions.root(value)
                if root in calls and regions.level[root] == regions.level[name] and regions.is_packed(value, layout):
                    group |= group_of[root]
            for member in group:
                group_of[member] = group
        return list({id(group): group for group in group_of.values()}.values())

    def _requirement(self, group: set[str]) -> str:
        """Why a group is on the accelerator whatever it costs, or ""."""
        if any(self.nodes[name].op == CACHED_ATTENTION for name in group):
            return "keys and values stay in the accelerator's memory"
        return "placed there by the user" if any(self._force(name) == "vdla" for name in group) else ""

    def _cost(self, group: set[str], calls: Mapping[str, OperatorCall]) -> RegionCost:
        return RegionCost(
            operators=len(group),
            accelerator_seconds=sum(self.times[name].seconds for name in group),
            handover_seconds=self._handover(group, calls) + PROGRAM_SECONDS,
            host_seconds=sum(self.on_cpu[name] for name in group),
            host="the GPU" if any(name in self.on_gpu for name in group) else self.cpu.name,
            requirement=self._requirement(group),
        )

    def _handover(self, group: set[str], calls: Mapping[str, OperatorCall]) -> float:
        """The seconds to pack the inputs of a group and to unpack its results."""
        regions = self._regions(calls)
        inputs = {
            (value, layout)
            for name in group
            for value, layout in calls[name].inputs.values()
            if not regions.is_packed(value, layout)
        }
        results = [calls[name].output for name in group if regions.read_by_host(name)]
        layouts = [*(layout for _, layout in inputs), *results]
        return sum(handover_seconds(layout, self.cpu) for layout in layouts)

    def _decision(self, name: str, regions: Mapping[str, RegionCost], dropped: Mapping[str, str]) -> Decision:
        made = self._decided(name, regions, dropped)
        used = self._extensions(name) if made.device == "vdla" else ()
        return replace(made, extensions=used, no_extension="" if used else self.candidates.no_extension.get(name, ""))

    def _extensions(self, name: str) -> tuple[str, ...]:
        """The instructions or the stage of extensions that run a node on the accelerator."""
        operator = self.candidates.calls[name].operator
        if isinstance(operator, WrittenOperator):
            return operator.extensions
        stage = self.config.stage if self.nodes[name].op == "vdla.QTable" else None
        return () if stage is None else (stage.name,)

    def _decided(self, name: str, regions: Mapping[str, RegionCost], dropped: Mapping[str, str]) -> Decision:
        node = self.nodes[name]
        cpu = self.on_cpu.get(name)
        if cpu is None:
            cpu = cpu_seconds(self.graph, node, macs_of(self.graph, node), self.cpu)
        time = self.times.get(name)
        times: dict[str, Any] = {"accelerator_seconds": None if time is None else time.seconds, "cpu_seconds": cpu}
        if name in regions:
            region = regions[name]
            because = region if region.saved_seconds >= 0 else f"{region.requirement}: {region}"
            return Decision("vdla", because, "--place NODE=cpu", **times)
        if name in dropped:
            is_join = self.candidates.calls[name].operator is None
            more = "more work for each packed tensor, or --place NODE=vdla"
            change = "other readers of its operands" if is_join else more
            return Decision("cpu", dropped[name], change, **times)
        if name in self.candidates.calls:
            return Decision("cpu", "placed on the CPU by the user", "leaving out --place", **times)
        return Decision("cpu", self.candidates.reasons[name], self._change(node), **times)

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
