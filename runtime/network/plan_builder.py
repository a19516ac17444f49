# SPDX-License-Identifier: Apache-2.0
"""Builds a plan from a graph with one step for each node; bodies become plans inside it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from vdla.compiler.graph import Array, Graph, GraphError, Node, TensorType, ValueType
from vdla.compiler.graph.accelerator import (
    ACCELERATED,
    REGION,
    AcceleratedRegion,
    Decision,
    cpu_seconds,
    modelled_cpu,
    seconds_of,
)
from vdla.compiler.graph.accelerator.least_work import least_cycles_of, least_steps
from vdla.compiler.graph.grid import GRID
from vdla.compiler.graph.groups import BODY, FUSED, body_of, without_groups
from vdla.compiler.graph.operators.graph_function import GraphFunction
from vdla.compiler.graph.operators.macs import macs_of
from vdla.compiler.graph.operators.table import is_alias
from vdla.compiler.graph.passes import REPACK
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.ir import DTYPES
from vdla.compiler.memory_plan import ValueLife, plan_memory
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.executor.artifact import stored_array
from vdla.runtime.executor.operator_cycles import OperatorCycles, operator_cycles
from vdla.runtime.executor.plan import (
    ARENA_ALIGNMENT,
    DEVICE_ALIGNMENT,
    ControlStep,
    DeviceValue,
    GridStep,
    KernelStep,
    NumpyStep,
    PlacedOperator,
    Placement,
    Plan,
    PlannedValue,
    ProgramStep,
    Step,
    size_bytes,
)
from vdla.runtime.network.evaluate_nodes import layouts_of
from vdla.runtime.network.kernels import GridKernelTable, KernelTable, constant_name
from vdla.runtime.network.plan_copies import CopyPlan, plan_copies
from vdla.runtime.numpy_operators import CONTROL_FLOW, FUNCTIONS
from vdla.runtime.numpy_operators.blocked import ChannelBlocks
from vdla.simulator.stats import RunStats

TimeProgram = Callable[[Program], RunStats]


@dataclass
class ArtifactParts:
    """What the plans of an artifact share; `refused` says why nodes run on no device.

    `kernels` are those of the CPU, `time` times a program, `on_grid` has the kernels of a GPU,
    `symbols` are the extents that can be given numbers.
    """

    kernels: KernelTable
    time: TimeProgram | None
    on_grid: GridKernelTable | None = None
    symbols: frozenset[str] = frozenset()
    programs: list[Program] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._contents: dict[bytes, str] = {}

    def constant(self, base: str, value: Array) -> str:
        """The name of a constant by its content: `base`, or one that begins with it."""
        free = base
        while free in self.constants:
            free += "_"
        name = constant_name(value, self._contents, free)
        if name not in self.constants:
            self.constants[name] = stored_array(value)
        return name


@dataclass
class PlanBuilder:
    """The steps of a graph; names of its values are unique in the graph and all bodies.

    `decisions` are the reasons for devices by first results and names of nodes.
    """

    graph: Graph
    parts: ArtifactParts
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    placed: dict[int, Step] = field(default_factory=dict)  # by the position of their node
    aliases: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A group with a node that has no kernel, such as one of float16, becomes its nodes."""
        groups = [node for node in self.graph.nodes if node.op == FUSED]
        declined = [node for node in groups if not self.parts.kernels.has(body_of(self.graph, node))]
        if declined:
            self.graph = without_groups(self.graph, declined)

    # --- steps

    @property
    def steps(self) -> list[Step]:
        """The steps in the order of their nodes."""
        return [self.placed[position] for position in sorted(self.placed)]

    def add(self, position: int, node: Node) -> None:
        """The step of a node; none for a reshape."""
        if is_alias(self.graph, node):
            self.aliases[node.outputs[0]] = self.aliases.get(node.inputs[0], node.inputs[0])
            return
        if node.op == ACCELERATED:
            self.placed[position] = self._program_step(node)
            return
        if node.op == GRID:
            self.placed[position] = self._grid_step(node)
            return
        if node.op in CONTROL_FLOW:
            self.placed[position] = self._control_step(node)
            return
        try:
            self.placed[position] = self._kernel_step(node)
        except DeclinedError as error:
            if node.op not in FUNCTIONS:
                self.parts.refused.append(str(error))
                return
            self.placed[position] = self._numpy_step(node, str(error).removeprefix(f"{node.label}: "))

    def _kernel_step(self, node: Node) -> KernelStep:
        self._require_kernel_types(node)
        index, made = self.parts.kernels.add(body_of(self.graph, node))
        return KernelStep(
            name=node.name or node.outputs[0],
            kernel=index,
            arguments=self._arguments(node, made),
            inputs=made.inputs,
            outputs=made.outputs,
            placement=self._placement(node, "cpu"),
        )

    def _grid_step(self, node: Node) -> GridStep:
        """The step of a kernel of the GPU, with the values of the graph: copies come later."""
        assert self.parts.on_grid is not None
        index, made = self.parts.on_grid.add(node.attributes[BODY])
        return GridStep(
            name=node.name or node.outputs[0],
            kernel=index,
            arguments=self._arguments(node, made),
            inputs=made.inputs,
            outputs=made.outputs,
            placement=self._placement(node, "gpu"),
        )

    def _arguments(self, node: Node, made: GraphFunction) -> tuple[str, ...]:
        """The values and constants that a function takes."""
        constants = [self.parts.constant(f"{node.outputs[0]}.{name}", value) for name, value in made.constants.items()]
        return (*made.inputs, *constants, *made.outputs)

    def _program_step(self, node: Node) -> ProgramStep:
        region: AcceleratedRegion = node.attributes[REGION]
        program = region.chain.program
        self.parts.programs.append(program)
        lines = region.lines
        stats = None if self.parts.time is None else self.parts.time(program)
        spent = None if stats is None else operator_cycles(program, stats, lines)
        placement = self._placement(node, "vdla", spent=spent or ())
        if stats is not None:
            placement = self._bounded(node, placement, stats)
        names = dict(zip(region.operands, node.inputs, strict=True))  # which passes may have renamed
        values = [(names[value], tensor) for value, tensor in region.inputs.items()]
        tensors = {tensor: self._input(value) for value, tensor in (*values, *region.outputs.items())}
        for tensor, array in region.constants.items():
            tensors[tensor] = self.parts.constant(f"{node.name}.{tensor}", array)
        return ProgramStep(
            name=node.name,
            program=len(self.parts.programs) - 1,
            tensors=tensors,
            lines=lines,
            inputs=self._inputs(node),
            outputs=node.outputs,
            placement=placement,
            offsets={part: self._input(names[value]) for part, value in region.offsets.items()},
        )

    def _bounded(self, node: Node, placement: Placement, stats: RunStats) -> Placement:
        """The placement of a region with the cycles of its program, and what these could be."""
        body, config = node.attributes[BODY], node.attributes[REGION].chain.program.config
        pairs = zip(body.nodes, placement.operators, strict=True)
        free = {item.outputs[0] for item, operator in pairs if operator.extensions}
        least = least_cycles_of(body, config, free)
        waits = {name: count for name, count in stats.counters["compute"].items() if name != "busy" and count}
        most = max(waits, key=waits.__getitem__, default="")
        return replace(
            placement,
            cycles=stats.total_cycles,
            least_cycles=least.cycles,
            limited_by=least.limited_by,
            waits={most: waits[most]} if most else {},
        )

    def _control_step(self, node: Node) -> ControlStep:
        """The step of an If, Loop or Scan; its bodies become plans."""
        rows = [] if node.op == "If" else [_row(node.bodies["body"], name) for name in node.bodies["body"].outputs]
        return ControlStep(
            name=node.name or node.outputs[0],
            op=node.op,
            attributes={key: value for key, value in node.attributes.items() if key not in node.bodies},
            bodies={key: _body_plan(body, self.parts) for key, body in node.bodies.items()},
            rows=tuple(rows),
            inputs=self._inputs(node),
            outputs=node.outputs,
            placement=self._placement(node, "cpu", "its body runs on the CPU"),
        )

    def _require_kernel_types(self, node: Node) -> None:
        for name in filter(None, (*node.inputs, *node.outputs)):
            kind = self.graph.types[name]
            if not isinstance(kind, TensorType) or not kind.static:
                raise DeclinedError(f"{node.label}: extents must be known, got {kind} for {name}")
            if kind.dtype not in DTYPES:
                raise DeclinedError(f"{node.label}: element types must be those of kernels, got {kind} for {name}")
            if 0 in kind.extents:
                raise DeclinedError(f"{node.label}: values must have elements, got {kind} for {name}")

    def _numpy_step(self, node: Node, reason: str) -> NumpyStep:
        return NumpyStep(
            name=node.name or node.outputs[0],
            op=node.op,
            attributes=dict(node.attributes),
            inputs=self._inputs(node),
            outputs=node.outputs,
            placement=self._placement(node, "numpy", reason),
            layouts=self._layouts(node),
        )

    def _layouts(self, node: Node) -> dict[str, ChannelBlocks]:
        """The layouts of values in blocks of channels, by their names in the artifact."""
        names = [*zip(self._inputs(node), node.inputs, strict=True), *zip(node.outputs, node.outputs, strict=True)]
        layouts = layouts_of([self.graph.types.get(name) for _, name in names])
        return {name: layout for (name, _), layout in zip(names, layouts, strict=True) if layout is not None}

    def _inputs(self, node: Node) -> tuple[str, ...]:
        """The inputs of a node, constants by the names that they have in the artifact."""
        return tuple(map(self._input, node.inputs))

    def _input(self, name: str) -> str:
        value = self.graph.constants.get(name)
        return name if value is None else self.parts.constant(f"{name}.constant", value)

    def _placement(self, node: Node, device: str, reason: str = "", spent: Sequence[OperatorCycles] = ()) -> Placement:
        """Where a node runs; `reason` is for nodes without a decision, or without a kernel.

        `spent` is what each operator of a region takes, if its program was timed.
        """
        group = node.attributes[BODY] if node.op in (FUSED, ACCELERATED, GRID) else None
        inner = (node,) if group is None else group.nodes
        operators = tuple(self._placed(group or self.graph, item, device, reason) for item in inner)
        if spent:
            config, graph = node.attributes[REGION].chain.program.config, group or self.graph
            triples = zip(inner, operators, spent, strict=True)
            operators = tuple(self._timed(graph, item, operator, took, config) for item, operator, took in triples)
        values = dict.fromkeys(name for name in (*node.inputs, *node.outputs) if name)
        return Placement(device=device, operators=operators, nbytes=sum(map(self._bytes, values)))

    def _decision(self, node: Node) -> Decision | None:
        """By its result, or by its name where the result is now made of another value."""
        return self.decisions.get(node.outputs[0]) or self.decisions.get(node.name)

    def _unpacks(self, node: Node, device: str) -> bool:
        """Whether a node makes a result of the accelerator a plain value."""
        decision = self.decisions.get(node.outputs[0])
        return device != "vdla" and decision is not None and decision.device == "vdla"

    def _wanted_extents(self, node: Node) -> str:
        """The numbers that would make the extents of a node known: of symbols in its shapes, and
        of those in the inputs that other extents are computed from.
        """
        values = list(filter(None, (*node.inputs, *node.outputs)))
        kinds = [self.graph.types.get(name) for name in values]
        if all(isinstance(kind, TensorType) and kind.static for kind in kinds):
            return ""
        if not all(isinstance(kind, TensorType) and kind.shape and None not in kind.shape for kind in kinds):
            values += self._sources(node)
        given = dict.fromkeys(symbol for name in values for symbol in self._symbols(name))
        options = " ".join(shlex.quote(f"{name}=1") for name in given)
        return f"numbers for {', '.join(given)}, as in --extent {options}" if given else ""

    def _symbols(self, name: str) -> list[str]:
        kind = self.graph.types.get(name)
        symbols = kind.symbols if isinstance(kind, TensorType) else ()
        return [symbol for symbol in symbols if symbol in self.parts.symbols]

    def _sources(self, node: Node) -> list[str]:
        """The inputs of the graph that a node depends on."""
        names, waiting = dict.fromkeys(node.inputs), [*node.inputs]
        while waiting:
            maker = self.graph.producers.get(waiting.pop())
            new = [name for name in maker.inputs if name not in names] if maker is not None else []
            names |= dict.fromkeys(new)
            waiting += new
        return [name for name in self.graph.inputs if name in names]

    def _placed(self, graph: Graph, node: Node, device: str, reason: str) -> PlacedOperator:
        """A node on a device; where it has no kernel, `reason` says why, before the decision."""
        decision = None if node.op == REPACK or self._unpacks(node, device) else self._decision(node)
        if decision is None:
            why, change = reason, self._wanted_extents(node)
        elif device == "numpy":
            why, wanted = f"{reason}; {decision.reason}", (self._wanted_extents(node), decision.change)
            change = "; ".join(filter(None, wanted))
        else:
            why, change = decision.reason, decision.change
        return PlacedOperator(
            op=node.op,
            name=node.name or node.outputs[0],
            reason=why,
            change=change,
            macs=macs_of(graph, node),
            seconds=self._handover_seconds(graph, node, device) if decision is None else decision.seconds,
            extensions=() if decision is None or device != "vdla" else decision.extensions,
            no_extension="" if decision is None else decision.no_extension,
        )

    def _handover_seconds(self, graph: Graph, node: Node, device: str) -> float | None:
        """The estimate for what packs or unpacks for an accelerator."""
        config = self._accelerator
        if config is None or device not in ("cpu", "numpy"):
            return None
        return cpu_seconds(graph, node, 0, modelled_cpu(config, self.parts.kernels.target.cpu))

    @cached_property
    def _accelerator(self) -> Config | None:
        """The machine of the programs, if there are any."""
        regions = (node.attributes[REGION] for node in self.graph.nodes if node.op == ACCELERATED)
        return next((region.config for region in regions), None)

    def _timed(
        self, graph: Graph, node: Node, operator: PlacedOperator, took: OperatorCycles, config: Config
    ) -> PlacedOperator:
        """An operator with the cycles that it has in the program of its region."""
        least = 0 if operator.extensions else least_steps(graph, node, config)
        operator = replace(operator, cycles=took.cycles, least_cycles=least, waits=took.main_stall or "")
        seconds, decision = seconds_of(took.cycles, config), self._decision(node)
        if decision is None:
            return operator
        reason = replace(decision, accelerator_seconds=seconds).reason
        return replace(operator, reason=reason, seconds=seconds)

    def _bytes(self, name: str) -> int:
        kind = self.graph.types[name]
        return size_bytes(kind.dtype, kind.array_shape) if isinstance(kind, TensorType) and kind.static else 0

    # --- memory

    def plan(self) -> Plan:
        """The plan of all steps."""
        copies = plan_copies(self.steps, self.graph.inputs, self.graph.outputs, self.aliases, self._bytes)
        lives = list(self._lives(copies))
        memory = plan_memory((live for live in lives if live.name not in copies.on_device), ARENA_ALIGNMENT)
        on_device = plan_memory((live for live in lives if live.name in copies.on_device), DEVICE_ALIGNMENT)
        values = {name: self._planned(name, memory.offsets) for name in self._planned_names(copies)}
        values |= {name: self._on_device(name, copies, on_device.offsets) for name in copies.on_device}
        self._keep_outputs()
        return Plan(
            name=self.graph.name,
            inputs=self.graph.inputs,
            outputs=self.graph.outputs,
            values=values,
            steps=copies.steps,
            arena_bytes=memory.arena_bytes,
            arena_bytes_without_reuse=memory.bytes_without_reuse,
        )

    def _keep_outputs(self) -> None:
        """Keep outputs that are constants under their names."""
        for name in self.graph.outputs:
            value = self.graph.constants.get(name)
            if value is None:
                continue
            stored = stored_array(value)
            kept = self.parts.constants.setdefault(name, stored)
            if kept is not stored and not np.array_equal(kept, stored):
                rule = "must not be a constant that depends on the extents"
                raise GraphError(f"model {self.graph.name}: {name} {rule}, got one")

    def _planned_names(self, copies: CopyPlan) -> Iterator[str]:
        """The values in the memory of the host."""
        results = (name for step in copies.steps for name in step.outputs if name and name not in copies.on_device)
        names = dict.fromkeys((*self.graph.inputs, *results))
        yield from names
        yield from (name for name, source in self.aliases.items() if source in names)

    def _planned(self, name: str, offsets: Mapping[str, int]) -> PlannedValue:
        kind = self.graph.types[name]
        if not isinstance(kind, TensorType):
            remedy = "export the model with tensors in its place, such as the elements of a list one by one"
            raise GraphError(f"model {self.graph.name}: {name} must be a tensor, got {kind}; {remedy}")
        source = self.aliases.get(name)
        shape = kind.array_shape if kind.static else None
        return PlannedValue(kind.dtype, shape, offsets.get(source or name), source)

    def _on_device(self, name: str, copies: CopyPlan, offsets: Mapping[str, int]) -> DeviceValue:
        kind, source = self.graph.tensor(copies.on_device[name]), copies.aliases.get(name)
        return DeviceValue(kind.dtype, kind.array_shape, offsets[source or name], source)

    def _lives(self, copies: CopyPlan) -> Iterator[ValueLife]:
        """The live ranges of values in both arenas; inputs live from before the first step."""
        steps, sources = copies.steps, {**self.aliases, **copies.aliases}
        first = dict.fromkeys(self.graph.inputs, -1)
        last = dict.fromkeys((sources.get(name, name) for name in self.graph.outputs), len(steps))
        for index, step in enumerate(steps):
            for name in filter(None, step.outputs):
                first[name] = index
            for name in filter(None, (*step.inputs, *step.outputs)):
                source = sources.get(name, name)
                last[source] = max(last.get(source, index), index)
        placed = _placed_values(steps)
        for name, start in first.items():
            nbytes = _known_bytes(self.graph.types[copies.on_device.get(name, name)])
            if nbytes is not None or name in placed:
                yield ValueLife(name, nbytes, start, last.get(name, start))


def _known_bytes(kind: ValueType) -> int | None:
    """The bytes of a value that can lie in an arena."""
    if not isinstance(kind, TensorType) or not kind.static or kind.dtype == "str":
        return None
    return size_bytes(kind.dtype, kind.array_shape)


def _placed_values(steps: Sequence[Step]) -> set[str]:
    """The values of steps that are bound to memory before a run: not NumPy's, nor control flow."""
    bound = (step for step in steps if not isinstance(step, NumpyStep | ControlStep))
    return {name for step in bound for name in (*step.inputs, *step.outputs)}


def _body_plan(graph: Graph, parts: ArtifactParts) -> Plan:
    building = PlanBuilder(graph, parts)
    for position, node in enumerate(graph.nodes):
        building.add(position, node)
    return building.plan()


def _row(body: Graph, name: str) -> PlannedValue:
    """The type of an output of a body, unknown extents 0."""
    kind = body.types[name]
    if not isinstance(kind, TensorType):
        raise GraphError(f"{body.name}: {name} must be a tensor, got {kind}")
    shape = tuple(extent if isinstance(extent, int) else 0 for extent in kind.shape or ())
    return PlannedValue(kind.dtype, shape)
