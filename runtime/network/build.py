# SPDX-License-Identifier: Apache-2.0
"""Builds an artifact from a graph with one step for each node: kernels, constants, memory.

The simulator times programs. Its event loop must be compiled first, which takes seconds unless it
is cached on disk. Its compilation therefore starts before the first program is made, and programs
are verified meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.accelerator import ACCELERATED, Decision
from vdla.compiler.graph.rewriting import fresh_name
from vdla.compiler.operators.vdla import Operator, WrittenOperator
from vdla.compiler.target import Target
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.executor.artifact import Artifact, Cpu
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.executor.plan import Plan
from vdla.runtime.network.kernels import GridKernelTable, KernelPoints, KernelTable
from vdla.runtime.network.plan_builder import ArtifactParts, PlanBuilder, TimeProgram
from vdla.simulator.stats import RunStats
from vdla.simulator.verify import require_verified
from vdla.support.background import Background


class ProgramTimer:
    """Times programs for a machine; compiles the event loop in the background if need be."""

    def __init__(self, config: Config, background: Background) -> None:
        from vdla.simulator.timing import is_prepared, prepare

        self._background = background
        self._known: dict[tuple[Config, str], RunStats] = {}  # by structure
        self._preparation = [] if is_prepared() else [background.submit(prepare, config, patience_s=0.0)]

    def __call__(self, program: Program) -> RunStats:
        """The run of a program.

        VerifyError: the program is not safe, and might not end.
        """
        from vdla.simulator.timing import time_program

        require_verified(program)
        self._background.results(self._preparation)
        key = program.config, program.structure
        if key not in self._known:
            self._known[key] = time_program(program)
        return replace(self._known[key], program=program.name, program_hash=program.hash)

    def cycles(self, operator: Operator | WrittenOperator) -> int:
        """The cycles of an operator alone."""
        return self(operator.program).total_cycles


Progress = Callable[[str, int, int], None]


def build_artifact(
    graph: Graph,
    target: Target,
    *,
    origin: Mapping[str, str] | None = None,
    decisions: Mapping[str, Decision] | None = None,
    variants: Sequence[tuple[Graph, Mapping[str, Decision]]] = (),
    time: TimeProgram | None = None,
    points: KernelPoints | None = None,
    on_grid: GridKernelTable | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Artifact:
    """The artifact of a partitioned graph; kernels are compiled beside the rest.

    `decisions` says why nodes are where they are, by their first result. `variants` are the same
    network for inputs of other shapes, each with its decisions. `time` times a program, `points`
    are the best known schedules of kernels, `on_grid` has those of a GPU; `progress` is
    called with what is done next, the number of nodes done and of all.

    Raises:
        ModelError: nodes that no device can run; the message lists all of them with reasons.
    """
    kinds = [graph.types[name] for name in graph.inputs]
    symbols = frozenset(symbol for kind in kinds if isinstance(kind, TensorType) for symbol in kind.symbols)
    plans = [(graph, decisions or {}), *variants]
    if variants:
        plans = [(_with_copied_constants(candidate), why) for candidate, why in plans]
    with KernelTable(target, points) as kernels:
        parts = ArtifactParts(kernels=kernels, time=time, on_grid=on_grid, symbols=symbols)
        plan, *others = _plans(plans, parts, progress)
        compiled = kernels.compile()
    made = Artifact(
        plan=plan,
        variants=tuple(others),
        constants=parts.constants,
        kernels=compiled,
        programs=tuple(parts.programs),
        grid=None if on_grid is None else on_grid.part(),
        cpu=Cpu(target.cpu, target.triple, tuple(sorted(target.features))),
        origin=origin or {},
    )
    return made.check()


def _plans(
    plans: Sequence[tuple[Graph, Mapping[str, Decision]]], parts: ArtifactParts, progress: Progress
) -> list[Plan]:
    """The plan of each graph; ModelError if no device can run some nodes."""
    builders = [PlanBuilder(candidate, parts, why) for candidate, why in plans]
    for building in builders:
        nodes = sorted(enumerate(building.graph.nodes), key=lambda place: place[1].op == ACCELERATED)  # kernels first
        for done, (position, node) in enumerate(nodes):
            progress(node.label, done, len(nodes))
            building.add(position, node)
    count = len(plans[0][0].nodes)
    progress("kernels", count, count)
    if parts.refused:
        lines = "\n  ".join(parts.refused)
        raise ModelError(f"model {plans[0][0].name}: every node must run on some device, got\n  {lines}")
    return [building.plan() for building in builders]


def _with_copied_constants(graph: Graph) -> Graph:
    """The graph whose outputs are not constants, as these may depend on the extents."""
    names = {name: fresh_name(graph, f"{name}_constant") for name in graph.outputs if name in graph.constants}
    constants = {names.get(name, name): value for name, value in graph.constants.items()}
    types = {**graph.types, **{fresh: graph.types[name] for name, fresh in names.items()}}
    nodes = [replace(node, inputs=tuple(names.get(name, name) for name in node.inputs)) for node in graph.nodes]
    copies = [Node("Identity", (fresh,), (name,)) for name, fresh in names.items()]
    return graph.replace(nodes=(*nodes, *copies), constants=constants, types=types)
