# SPDX-License-Identifier: Apache-2.0
"""Explorations: the machines of a sweep, what they cost on a part, how fast they run all layers.

A sweep is a space of the tuner, so it has the tuner's log, workers and searches. The space excludes
machines that cannot be built, and those that are outside a limit whatever their cycles are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vdla.compiler.tune import Point, Space, Value
from vdla.compiler.tune.searches import new_search
from vdla.hardware.config import Config
from vdla.hardware.fpga.part_file import part_named
from vdla.hardware.fpga.parts import FpgaPart
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.explored_machine import CLOCKS, ESTIMATED, GIVEN, ExploredMachine, area_on, excess
from vdla.runtime.studies.figures import Limit, check_objectives, limits_of
from vdla.runtime.studies.frame_energy import frame_energy
from vdla.runtime.studies.layers import EvaluatedLayer, GivenLayer, given_layers
from vdla.runtime.studies.study import studied_machine
from vdla.runtime.studies.sweep import ExploreError, knobs_of, machine_of
from vdla.runtime.studies.sweep_task import SEARCHES, MachineMeasurer, sweep_task
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.trial import Trial
from vdla.runtime.tune.tune import TuningProgress, tune
from vdla.runtime.tune.workers import InlineWorkers, Workers
from vdla.simulator.energy import EnergyTable, energy_table
from vdla.support.errors import Error
from vdla.support.progress import Progress

if TYPE_CHECKING:
    from vdla.simulator.energy.estimate import TableSource


@dataclass(frozen=True, slots=True)
class _Judge:
    """What a machine of a sweep is judged by."""

    base: Config
    sources: Sequence[str]
    layers: Sequence[EvaluatedLayer]
    part: FpgaPart
    limits: Sequence[Limit]
    clock: str
    coefficients: EnergyTable | None
    progress: Progress

    def placed(self, point: Point) -> ExploredMachine:
        """A machine with its area, or why it cannot be."""
        try:
            config = machine_of(self.base, self.sources, point).config
        except Error as error:
            return ExploredMachine(point, None, reason=str(error))
        return self._limited(ExploredMachine(point, area_on(config, self.part, self.clock)), last=False)

    def timed(self, machine: ExploredMachine, trial: Trial | None) -> ExploredMachine:
        """A machine with its cycles, and with the clock and the energy of a frame that were asked
        for.
        """
        if trial is None:
            return machine
        if not trial.ok or machine.area is None:
            return replace(machine, reason=trial.error)
        swept, area = machine_of(self.base, self.sources, machine.point), machine.area
        if self.clock == ESTIMATED and not area.synthesised:
            area = area_on(swept.config, self.part, self.clock, self.progress)
        table, energy = self.coefficients, None
        if table is not None:
            energy = frame_energy(self.layers, swept, table, area.clock_mhz)
        return self._limited(replace(machine, area=area, cycles=trial.cost, energy=energy), last=True)

    def _limited(self, machine: ExploredMachine, last: bool) -> ExploredMachine:
        """A machine with what is against it; the clock and more of its resources may come later."""
        assert machine.area is not None
        reasons = list(excess(machine.area.usage, self.part))
        final = last or self.clock == GIVEN or machine.area.synthesised
        reasons += [reason for limit in self.limits if (reason := limit.against(machine, final))]
        return replace(machine, reason="; ".join(reasons))


def explore(
    layers: Sequence[GivenLayer],
    config: Config | str,
    sweep: Mapping[str, Sequence[Value]],
    *,
    part: FpgaPart | str | PathLike[str] | None = None,
    beside: Sequence[str] = (),
    trials: int | None = None,
    search: str = SEARCHES[0],
    seed: int = 0,
    clock: str = GIVEN,
    most: Mapping[str, float] | None = None,
    least: Mapping[str, float] | None = None,
    objectives: Sequence[str] = ("fps",),
    energy: TableSource | None = None,
    workers: Workers | None = None,
    log: str | Path | None = None,
    name: str = "layers",
    progress: Callable[[TuningProgress], None] = lambda progress: None,
    synthesis: Progress = lambda what, done, total: None,
) -> Exploration:
    """The machines that the values of `sweep` make of a machine, and the cycles of up to `trials`.

    `layers` are as `vdla.evaluate` takes them, `config` is a machine or the name of a preset, whose
    extensions are the files `beside`. Areas are those on `part`, by default that of the preset's
    board. With the `clock` "estimated", machines have that of their longest path, for which those
    that are measured are synthesised, a minute each. No figure may be over `most` or below `least`;
    resources up to 1 are shares of the part. The front is that of `objectives`, names of figures,
    and of resources. `energy` is estimated by these coefficients. Machines that the log has are not
    measured again; others are measured by `workers`, by default in this process.

    Raises:
        ExploreError: an unknown field, search, clock or figure, or no machine that can be built.
        EvaluateError: no layers. PartError, EnergyError: an unknown part, unknown coefficients.
        TuningError: the log cannot be used.
    """
    base, chosen = studied_machine(config), given_layers(layers)
    on, table = part_named(part, base.name), None if energy is None else energy_table(energy)
    if not chosen:
        raise ExploreError("explore: layers must be at least one, got none")
    if search not in SEARCHES:
        raise ExploreError(f"explore: search must be one of {', '.join(SEARCHES)}, got {search}")
    if clock not in CLOCKS:
        raise ExploreError(f"explore: clock must be one of {', '.join(CLOCKS)}, got {clock}")
    check_objectives(objectives, table is not None)
    whole = Space(f"{name} on {base.name}", knobs_of(sweep, beside))
    judge = _Judge(
        base=base,
        sources=beside,
        layers=chosen,
        part=on,
        limits=limits_of(most or {}, least or {}, on, table is not None),
        clock=clock,
        coefficients=table,
        progress=synthesis,
    )
    points = [judge.placed(whole.point(code)) for code in range(whole.combinations)]
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
    machines = [judge.timed(machine, trial_of.get(code)) for code, machine in enumerate(points)]
    return Exploration(
        name=name,
        base=base,
        part=on,
        machines=tuple(machines),
        layers=tuple(chosen),
        sources=tuple(beside),
        objectives=tuple(objectives),
        clock=clock,
        coefficients=table,
    )
