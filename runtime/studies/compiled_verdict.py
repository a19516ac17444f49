# SPDX-License-Identifier: Apache-2.0
"""A whole network compiled for the machine without an extension, and for the machine with it.

Cycles are those of the compiled networks' programs, as `vdla compile` and `vdla profile` show them.
Times are estimated: cycles of the simulator at the machine's clock, and the model of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.extensions import Source, extend
from vdla.hardware.config import Config
from vdla.runtime.executor.run_times import RunTimes, is_handover, run_times
from vdla.runtime.studies.layers import EvaluateError
from vdla.runtime.studies.study import Study, studied_machine
from vdla.support.html_repr import shown_by

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.network.import_network import ModelSource
    from vdla.simulator.energy import Energy, EnergyTable
    from vdla.simulator.energy.estimate import TableSource

Arrays = Mapping[str, NDArray[Any]]
Progress = Callable[[str, int, int], None]
MACHINE = "vdla"
_SEED, _SAMPLES = 0, 2


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """Where a compiled network runs an operator; cycles are those of a machine."""

    device: str
    cycles: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class OperatorVerdict:
    """An operator before and after; None where the network has it not.

    `extensions` are the instructions of the extension that run it, `reason` says what it must do
    to have some.
    """

    name: str
    op: str
    before: OperatorPlace | None
    after: OperatorPlace | None
    extensions: tuple[str, ...]
    reason: str

    @property
    def moved(self) -> bool:
        """Whether only the machine with the extension runs it."""
        return _on_machine(self.after) and not _on_machine(self.before)


def _on_machine(place: OperatorPlace | None) -> bool:
    return place is not None and place.device == MACHINE


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """Figures of a compiled network; `times` is None where nothing runs on the machine."""

    cycles: int
    programs: int
    operators: int
    macs: int
    macs_on_machine: int
    times: RunTimes | None

    @property
    def frames_per_second(self) -> float | None:
        """Runs a second, one after the other, estimated."""
        return None if self.times is None or not self.times.total else 1 / self.times.total


@dataclass(frozen=True, slots=True)
class CompiledEnergy:
    """The estimated energy of the machine in a run, without and with the extension."""

    table: EnergyTable
    before: Energy
    after: Energy

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        sides = {"before": self.before.to_dict(), "after": self.after.to_dict()}
        return {"coefficients": self.table.name, "source": self.table.source, **sides}


@dataclass(frozen=True, slots=True)
class CompiledVerdict(Study):
    """A network without and with an extension; `energy` is estimated, if coefficients are given."""

    network: str
    machine: str
    extensions: tuple[str, ...]
    before: NetworkFigures
    after: NetworkFigures
    operators: tuple[OperatorVerdict, ...]
    energy: CompiledEnergy | None = None

    _repr_html_ = shown_by("studies", "compiled_verdict_html")
    _makers: ClassVar[Mapping[str, str]] = {
        "tables": "commands.compiled_tables:tables_of",
        "notes": "commands.compiled_tables:notes_of",
    }

    def __repr__(self) -> str:
        names = ", ".join(self.extensions)
        return f"<CompiledVerdict on {names}, {self.network} on {self.machine}: runs {len(self.used)} operators>"

    @property
    def used(self) -> tuple[OperatorVerdict, ...]:
        """The operators that the extension runs."""
        return tuple(operator for operator in self.operators if operator.extensions)

    @property
    def applies(self) -> bool:
        """Whether the extension runs an operator, or moves one to the machine."""
        return any(operator.extensions or operator.moved for operator in self.operators)

    @property
    def speedup(self) -> float | None:
        """Estimated seconds before over after."""
        times = (self.before.times, self.after.times)
        return None if times[0] is None or times[1] is None else times[0].total / times[1].total

    def to_dict(self) -> dict[str, Any]:
        """All figures as JSON-compatible values."""
        networks = {"before": self.before, "after": self.after}
        more = {name: {"frames_per_second": item.frames_per_second} for name, item in networks.items()}
        document = asdict(replace(self, energy=None))
        del document["energy"]
        energy = {} if self.energy is None else {"energy": self.energy.to_dict()}
        sides = {name: document[name] | more[name] for name in networks}
        return {**document, **sides, "speedup": self.speedup, **energy}


def evaluate_network(
    source: Source | tuple[Source, ...],
    model: ModelSource,
    config: Config | str,
    *,
    beside: Sequence[Source] = (),
    calibration: Sequence[Arrays | NDArray[Any]] | None = None,
    energy: TableSource | None = None,
    progress: Progress = lambda what, done, total: None,
) -> CompiledVerdict:
    """The verdict on an extension, or on several on one machine, in a network, which is compiled
    for the machine without and with them.

    `config` is a machine or the name of a preset; it may have extensions already, those of
    `beside`. A float model is quantised with `calibration`, or with random data, which change no
    cycles but those of values that are equal. `energy` is estimated by these coefficients.

    Raises:
        EnergyError: unknown coefficients.
        EvaluateError: the machine runs no operator of the network, with the extension or without.
        ExtensionError: the declaration does not fit the machine, or a program of it is wrong.
        OnnxError, UnsupportedError, QuantiseError: as of `compile_network`.
    """
    from vdla.runtime.network.compile_network import compile_network

    config = studied_machine(config)
    table = None if energy is None else _table(energy)
    after = reduce(extend, source if isinstance(source, tuple) else (source,), config)
    plain = {plug_in.name for plug_in in config.extensions}
    stages = [after.stage.name] if after.stage is not None and after.stage != config.stage else []
    names = (*(plug_in.name for plug_in in after.extensions if plug_in.name not in plain), *stages)
    progress("quantise", 0, 3)
    graph = _quantised(model, calibration)
    artifacts = []
    for number, machine in enumerate((config, after), 1):
        progress(f"compile {'with' if number > 1 else 'without'}", number, 3)
        artifacts.append(compile_network(graph, machine, certify=False).artifact)
    if not any(artifact.programs for artifact in artifacts):
        rule = "the machine must run an operator of the network, with the extension or without"
        raise EvaluateError(f"evaluate: {graph.name}: {rule}, got none")
    return CompiledVerdict(
        network=graph.name,
        machine=config.name,
        extensions=names,
        before=_figures(artifacts[0]),
        after=_figures(artifacts[1]),
        operators=_operators(*artifacts),
        energy=None if table is None else CompiledEnergy(table, *(_energy(one, table) for one in artifacts)),
    )


def _table(coefficients: TableSource) -> EnergyTable:
    from vdla.simulator.energy import energy_table

    return energy_table(coefficients)


def _energy(artifact: Artifact, table: EnergyTable) -> Energy:
    """The estimate of all programs of a network; nothing where it has none."""
    from vdla.runtime.studies.energy import network_energy
    from vdla.simulator.energy.estimate import summed_energy

    made = network_energy(artifact, table)
    return summed_energy([]) if made is None else made.total


def _quantised(model: ModelSource, calibration: Sequence[Arrays | NDArray[Any]] | None) -> Graph:
    """The graph in integers; a float one is quantised."""
    from vdla.runtime.network.import_network import import_network
    from vdla.runtime.network.quantise import quantise

    graph = import_network(model)
    quantised = any("QuantizeLinear" in node.op or node.op.startswith("QLinear") for node in graph.nodes)
    if calibration is None and quantised:
        return graph
    return quantise(graph, calibration=calibration or _random(graph)).graph


def _random(graph: Graph) -> list[dict[str, NDArray[Any]]]:
    """Normal data for the inputs of a graph."""
    from vdla.compiler.graph import TensorType

    rng, samples = np.random.default_rng(_SEED), []
    for _ in range(_SAMPLES):
        arrays = {}
        for name in graph.inputs:
            kind = graph.types[name]
            if not isinstance(kind, TensorType) or not kind.static or not kind.dtype.startswith("float"):
                rule = "inputs without --calibration must be floats of known extents"
                raise EvaluateError(f"evaluate: {graph.name}: {rule}, got {kind} for {name}")
            arrays[name] = rng.standard_normal(kind.extents).astype(kind.dtype)
        samples.append(arrays)
    return samples


def _figures(artifact: Artifact) -> NetworkFigures:
    placements = [step.placement for step in artifact.plan.steps]
    programs = [placement for placement in placements if placement.device == MACHINE]
    return NetworkFigures(
        cycles=sum(placement.cycles or 0 for placement in programs),
        programs=len(programs),
        operators=sum(len(placement.operators) for placement in programs),
        macs=sum(placement.macs for placement in placements),
        macs_on_machine=sum(placement.macs for placement in programs),
        times=run_times(artifact),
    )


def _operators(before: Artifact, after: Artifact) -> tuple[OperatorVerdict, ...]:
    """The operators of both networks in the order of the second, without those that pack."""
    sides = [_placed(artifact) for artifact in (before, after)]
    names = dict.fromkeys([*sides[1], *sides[0]])
    return tuple(_operator(name, *(side.get(name) for side in sides)) for name in names)


_Placed = tuple[OperatorPlace, Any]  # and the operator of the plan


def _placed(artifact: Artifact) -> dict[str, _Placed]:
    return {
        operator.name: (OperatorPlace(step.placement.device, operator.cycles, operator.seconds), operator)
        for step in artifact.plan.steps
        for operator in step.placement.operators
        if not is_handover(artifact, step.placement, operator)
    }


def _operator(name: str, before: _Placed | None, after: _Placed | None) -> OperatorVerdict:
    placed = after or before
    assert placed is not None, "a name of one of both"
    operator = placed[1]
    return OperatorVerdict(
        name=name,
        op=operator.op,
        before=None if before is None else before[0],
        after=None if after is None else after[0],
        extensions=() if after is None else operator.extensions,
        reason="" if after is None else operator.no_extension,
    )
