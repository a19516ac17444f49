# SPDX-License-Identifier: Apache-2.0
"""Explorations: the machines of a sweep, what they cost on a part, how fast they run all layers.

A sweep is a space of the tuner, so it has the tuner's log, workers and searches: points are
machines, costs the cycles of all layers. The space excludes machines that cannot be built.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import te
from vdla.compiler.operators.definitions import Definition
from vdla.compiler.tune import Built, Point, Space, TuningTask, Value
from vdla.compiler.tune.searches import new_search
from vdla.compiler.tune.space import Ints
from vdla.hardware.config import Config
from vdla.hardware.fpga.area import LIMITED, Usage, cached_area
from vdla.hardware.fpga.area_model import LUT_ERROR, estimated_usage
from vdla.hardware.fpga.parts import FpgaPart, part_named
from vdla.runtime.studies.frame_energy import ExplorationEnergy, frame_energy
from vdla.runtime.studies.layer_cycles import layer_cycles, toolkit_digest, types_of
from vdla.runtime.studies.layers import EvaluatedLayer, given_layers, steps_of
from vdla.runtime.studies.study import DrawnStudy, studied_machine
from vdla.runtime.studies.sweep import ExploreError, Objectives, knobs_of, machine_of, on_front
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.trial import Trial, TuningError
from vdla.runtime.tune.tune import TuningProgress, tune
from vdla.runtime.tune.workers import InlineWorkers, Workers
from vdla.simulator.energy import energy_table
from vdla.support.errors import Error
from vdla.support.html_repr import shown_by

if TYPE_CHECKING:
    from vdla.simulator.energy.estimate import TableSource

_FEATURES = ("steps over the peak rate",)


@dataclass(frozen=True, eq=False)
class SweepTask:
    """Layers on the machines of a space; `sources` are the extensions of `base`."""

    name: str
    base: Config
    sources: tuple[str, ...]
    layers: tuple[EvaluatedLayer, ...]
    space: Space
    feature_names: tuple[str, ...] = _FEATURES

    @property
    def key(self) -> str:
        """A hash of layers, machine, knobs and the toolkit."""
        types = types_of(self.base)
        layers = [
            [layer.name, layer.count, str(layer.expression(types)), str(layer.plain_expression(types))]
            for layer in self.layers
        ]
        machine = {name: value for name, value in self.base.to_dict().items() if name != "name"}
        content = [layers, machine, list(map(str, self.space.knobs)), toolkit_digest()]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def cycles(self, point: Point) -> float:
        """The cycles of all layers on a machine, each times its count in the network.

        Raises:
            Error: the machine cannot run a layer.
        """
        machine = machine_of(self.base, self.sources, point)
        return sum(layer.count * layer_cycles(layer, machine.config, machine.sources) for layer in self.layers)

    def of_log(self, point: Point) -> Point:
        """As `TuningTask`; the key has the knobs, so it is one of the space."""
        return point

    def build(self, point: Point) -> Built:
        """As `TuningTask`; a machine is not a program."""
        raise ExploreError(f"explore {self.name}: a point must be measured by MachineMeasurer, got {dict(point)}")

    draft = build

    def overhead(self, point: Point) -> float:
        """As `TuningTask`; nothing."""
        return 0.0

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        """Steps at the peak rate of each machine."""
        total = sum(layer.count * steps_of(layer.expression(types_of(self.base))) for layer in self.layers)
        return np.array([total / self._rate(self.space.point(int(index))) for index in indices])

    def _rate(self, point: Point) -> int:
        return machine_of(self.base, self.sources, point).config.macs_per_cycle

    def features(self, indices: Ints) -> NDArray[np.float32]:
        """[point, feature]."""
        return self.estimate(indices)[:, None].astype(np.float32)


@dataclass(frozen=True, slots=True)
class MachineMeasurer:
    """Measures points of sweeps on the simulator; as `Measurer`."""

    unit: str = "cycles"
    most_workers: int | None = None

    def missing(self, task: TuningTask) -> str:
        """Nothing: the simulator is every machine."""
        return ""

    def measure(self, task: TuningTask, point: Point) -> float:
        """The cycles of all layers."""
        if not isinstance(task, SweepTask):
            raise TuningError(f"tune {task.name}: task must be a sweep, got {task!r}")
        return task.cycles(point)


def sweep_task(
    base: Config, sources: Sequence[str], layers: Sequence[EvaluatedLayer], space: Space, name: str
) -> SweepTask:
    """The task of a sweep."""
    return SweepTask(name=name, base=base, sources=tuple(sources), layers=tuple(layers), space=space)


SEARCHES = ("exhaustive", "random", "estimate", "genetic")
"""Searches that need no cost model."""


@dataclass(frozen=True, slots=True)
class MachineArea:
    """What a machine takes of a part: synthesised in an earlier run, or by the model. It is not
    `complete` without what the machine's extensions add, which the model does not know.
    """

    usage: Usage
    synthesised: bool
    clock_mhz: float
    complete: bool = True


@dataclass(frozen=True, slots=True)
class ExploredMachine:
    """A machine of a sweep; without cycles it was rejected, for a reason, or not tried."""

    point: Point
    area: MachineArea | None
    cycles: float | None = None
    reason: str = ""

    @property
    def frames_per_second(self) -> float:
        """Runs of all layers a second, at the clock that the machine is estimated to hold."""
        return 0.0 if self.area is None or not self.cycles else self.area.clock_mhz * 1e6 / self.cycles

    @property
    def objectives(self) -> Objectives:
        """Seconds, and resources of the part; a machine whose area is not complete beats none of
        those whose area is.
        """
        assert self.area is not None and self.cycles is not None
        used = self.area.usage
        partial = not self.area.complete
        return (1 / self.frames_per_second, used.lut, used.dsp, used.bram36, used.uram, partial)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; what it does not have is null."""
        area = self.area
        return {
            "point": dict(self.point),
            "cycles": self.cycles,
            "frames_per_second": self.frames_per_second or None,
            "usage": None if area is None else asdict(area.usage),
            "synthesised": area is not None and area.synthesised,
            "complete": area is not None and area.complete,
            "clock_mhz": None if area is None else area.clock_mhz,
            "rejected": self.reason or None,
        }


@dataclass(frozen=True)
class Exploration(DrawnStudy):
    """All machines of a sweep in its order; `sources` are the extensions of `base`, and `energy` is
    estimated, where coefficients were given.
    """

    name: str
    base: Config
    part: FpgaPart
    machines: tuple[ExploredMachine, ...]
    layers: tuple[EvaluatedLayer, ...] = ()
    sources: tuple[str, ...] = ()
    energy: ExplorationEnergy | None = None

    _repr_html_ = shown_by("studies", "exploration_html")
    _makers: ClassVar[Mapping[str, str]] = {
        "tables": "commands.explore_tables:tables_of",
        "notes": "commands.explore_tables:lines_of",
        "picture": "commands.explore_page:exploration_picture",
        "page": "commands.explore_page:exploration_page",
    }

    def __repr__(self) -> str:
        return f"<Exploration of {self.name} on {self.part.name}: {len(self.machines)} machines>"

    @cached_property
    def measured(self) -> list[ExploredMachine]:
        """Those with cycles, the fastest first."""
        machines = [machine for machine in self.machines if machine.cycles is not None]
        return sorted(machines, key=lambda machine: -machine.frames_per_second)

    @cached_property
    def front(self) -> list[ExploredMachine]:
        """Those that no other one beats, the fastest first."""
        best = on_front([machine.objectives for machine in self.measured])
        return [machine for machine, keep in zip(self.measured, best, strict=True) if keep]

    @property
    def rejected(self) -> list[ExploredMachine]:
        """Those that cannot be, with their reasons."""
        return [machine for machine in self.machines if machine.reason]

    def energy_by(self, coefficients: TableSource) -> ExplorationEnergy:
        """The estimated energy of a frame on each machine whose layers this process, or one with
        the same cache, has measured. EnergyError for unknown coefficients.
        """
        table, frames = energy_table(coefficients), {}
        for at, machine in enumerate(self.machines):
            if machine.cycles is not None:
                frames[at] = frame_energy(self.layers, machine_of(self.base, self.sources, machine.point), table)
        return ExplorationEnergy(table, {at: energy for at, energy in frames.items() if energy is not None})

    def with_energy(self, coefficients: TableSource) -> Exploration:
        """The exploration with `energy_by`, which its tables then have."""
        return replace(self, energy=self.energy_by(coefficients))

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; what a machine does not have is null."""
        document = {
            "layers": self.name,
            "machine": self.base.name,
            "part": self.part.name,
            "lut_error": LUT_ERROR,
            "machines": [{**machine.to_dict(), "front": machine in self.front} for machine in self.machines],
        }
        return document | ({} if self.energy is None else {"energy": self.energy.to_dict()})


def explore(
    layers: Sequence[EvaluatedLayer | Definition | te.Tensor | str],
    config: Config | str,
    sweep: Mapping[str, Sequence[Value]],
    *,
    part: FpgaPart | str | None = None,
    beside: Sequence[str] = (),
    trials: int | None = None,
    search: str = SEARCHES[0],
    seed: int = 0,
    energy: TableSource | None = None,
    workers: Workers | None = None,
    log: str | Path | None = None,
    name: str = "layers",
    progress: Callable[[TuningProgress], None] = lambda progress: None,
) -> Exploration:
    """The machines that the values of `sweep` make of a machine, and the cycles of up to `trials`.

    `layers` are as `vdla.evaluate` takes them, `config` is a machine or the name of a preset, whose
    extensions are the files `beside`. Areas are those on `part`, by default that of the preset's
    board. `energy` is estimated by these coefficients. Machines that the log has are not measured
    again; others are measured by `workers`, by default in this process.

    Raises:
        ExploreError: an unknown field or search, or no machine that can be built.
        EvaluateError: no layers. PartError, EnergyError: an unknown part, unknown coefficients.
        TuningError: the log cannot be used.
    """
    base, chosen = studied_machine(config), given_layers(layers)
    on, table = part_named(part, base.name), None if energy is None else energy_table(energy)
    if not chosen:
        raise ExploreError("explore: layers must be at least one, got none")
    if search not in SEARCHES:
        raise ExploreError(f"explore: search must be one of {', '.join(SEARCHES)}, got {search}")
    whole = Space(f"{name} on {base.name}", knobs_of(sweep))
    points = [_placed(base, beside, on, whole.point(code)) for code in range(whole.combinations)]
    legal = [code for code, machine in enumerate(points) if not machine.reason]
    if not legal:
        raise ExploreError(f"explore: a machine of the sweep must fit {on.name}, got none; {points[0].reason}")
    space = Space(whole.name, whole.knobs, np.array(legal, np.int64))
    task = sweep_task(base, beside, chosen, space, name)
    run = TaskRun(task.key, name, f"{base.name} {base.fingerprint}", space.name, search, seed)
    count = space.size if trials is None else trials
    measure = partial(tune, task, new_search(search, task, seed), run, workers or InlineWorkers(MachineMeasurer()))
    with nullcontext() if log is None else TuningLog(log) as opened:
        report = measure(trials=count, log=opened, show=progress)
    trial_of = {legal[space.index(trial.point)]: trial for trial in report.trials}
    machines = [_timed(machine, trial_of.get(code)) for code, machine in enumerate(points)]
    exploration = Exploration(
        name=name, base=base, part=on, machines=tuple(machines), layers=tuple(chosen), sources=tuple(beside)
    )
    return exploration if table is None else exploration.with_energy(table)


def _placed(base: Config, sources: Sequence[str], part: FpgaPart, point: Point) -> ExploredMachine:
    """A machine with its area, or why it cannot be."""
    try:
        config = machine_of(base, sources, point).config
    except Error as error:
        return ExploredMachine(point, None, reason=str(error))
    area = area_on(config, part)
    return ExploredMachine(point, area, reason="; ".join(_excess(area.usage, part)))


def area_on(config: Config, part: FpgaPart) -> MachineArea:
    """Known from synthesis, with the clock of its longest path; else by the model."""
    try:
        known = cached_area(config, part)
    except Error:  # no Yosys, or an extension without a datapath
        known = None
    if known is None:
        complete = not config.extensions and config.stage is None
        return MachineArea(estimated_usage(config, part), False, config.clock_mhz, complete)
    path_ns = known.longest.estimate_ns
    return MachineArea(known.total, True, min(config.clock_mhz, 1000 / path_ns if path_ns else config.clock_mhz))


def _excess(usage: Usage, part: FpgaPart) -> Iterator[str]:
    for resource in LIMITED:
        used, available = getattr(usage, resource), getattr(part, resource)
        if used > available:
            yield f"{part.name} has {available:,} {resource}, needed are {used:,g}"


def _timed(machine: ExploredMachine, trial: Trial | None) -> ExploredMachine:
    if trial is None:
        return machine
    cycles = trial.cost if trial.ok else None
    return ExploredMachine(machine.point, machine.area, cycles, trial.error)
