# SPDX-License-Identifier: Apache-2.0
"""The verdict on an extension: every layer on the machine without it and on the machine with it.

A layer keeps the program of the plain machine where the extension does not apply or does not help,
so that no verdict counts a use that slows a layer down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from os import PathLike, fspath
from typing import TYPE_CHECKING, ClassVar

from vdla.compiler import ir
from vdla.compiler.extensions import Extension, Source, extend, extension_of
from vdla.compiler.layer_programs import written_programs
from vdla.compiler.te import Stage
from vdla.hardware.config import Config
from vdla.hardware.fpga.part_file import part_named
from vdla.hardware.fpga.parts import FpgaPart
from vdla.hardware.isa import PlugIn, PlugInStage
from vdla.runtime.studies.added_area import AddedArea, added_area
from vdla.runtime.studies.layer_accuracy import Accuracy, accuracy_of
from vdla.runtime.studies.layer_cycles import keep, kept, read_types, stages_of, types_of
from vdla.runtime.studies.layer_energy import LayerEnergy, VerdictEnergy, cost_energy
from vdla.runtime.studies.layers import (
    EvaluatedLayer,
    EvaluateError,
    GivenLayer,
    OperandTypes,
    given_layers,
    least_cycles,
    reads_others,
    steps_of,
    terms_of,
)
from vdla.runtime.studies.measure import LayerCost, LayerOutcome, MeasureJob, measured
from vdla.runtime.studies.study import DrawnStudy, studied_machine
from vdla.runtime.studies.written_program import largest_difference
from vdla.support.background import Background
from vdla.support.html_repr import shown_by

if TYPE_CHECKING:
    from vdla.runtime.studies.accuracy import AccuracyJob, NetworkAccuracy
    from vdla.simulator.energy import EnergyTable
    from vdla.simulator.energy.estimate import TableSource

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class LayerVerdict:
    """A layer before and after; an outcome without a cost has the reason.

    `steps` are the points of its loop nest that do not read padding, such as multiply-accumulates;
    `baseline_steps` those of another formulation before, None if both are the same.
    No program takes fewer than `least_cycles`, in which the machine with the extension reads the
    operands once, or writes the results. `baseline_error` is the largest difference between its
    results and those of another formulation before, on random data; None if both are the same, or
    the formulations have other inputs.
    """

    name: str
    count: int
    steps: int
    least_cycles: float
    before: LayerOutcome
    after: LayerOutcome
    accuracy: Accuracy | None
    baseline_error: float | None = None
    baseline_steps: int | None = None

    @property
    def applies(self) -> bool:
        """Whether a mapping uses the extension."""
        return self.after.cost is not None

    @property
    def helps(self) -> bool:
        """Whether it does in fewer cycles, or where the plain machine has no program."""
        plain, extended = self.before.cost, self.after.cost
        return extended is not None and (plain is None or extended.total < plain.total)

    @property
    def chosen(self) -> LayerCost | None:
        """What the machine with the extension would run."""
        return self.after.cost if self.helps else self.before.cost

    @property
    def steps_before(self) -> int:
        """The points of the loop nest that the machine computes before."""
        return self.steps if self.baseline_steps is None else self.baseline_steps

    @property
    def chosen_steps(self) -> int:
        """Those of what the machine with the extension would run."""
        return self.steps if self.helps else self.steps_before

    @property
    def gain(self) -> float | None:
        """Cycles before over those of the extension, used or not; None where one is unknown."""
        before, after = self.before.cost, self.after.cost
        return None if before is None or after is None else before.cycles / after.cycles

    @property
    def speedup(self) -> float | None:
        """Cycles before over those of what would be run; None where one of them is unknown."""
        plain, chosen = self.before.cost, self.chosen
        return None if plain is None or chosen is None else plain.cycles / chosen.cycles


@dataclass(frozen=True, slots=True)
class ExtensionVerdict(DrawnStudy):
    """All layers, the machines, and the most steps a cycle of each.

    `added` are the instructions and the stage that are judged, `area` is what they add to `part`;
    the types are those of a layer's operands. `network` is the accuracy of a network that has the
    layers, where it was measured, and `energy` is estimated, where coefficients were given.
    """

    before: Config
    after: Config
    added: tuple[PlugIn | PlugInStage, ...]
    types_before: OperandTypes
    types_after: OperandTypes
    steps_before: float
    steps_after: float
    trials: int
    part: FpgaPart
    area: AddedArea
    layers: tuple[LayerVerdict, ...]
    network: NetworkAccuracy | None = None
    energy: VerdictEnergy | None = None

    _repr_html_ = shown_by("studies", "extension_verdict_html")
    _makers: ClassVar[Mapping[str, str]] = {
        "document": "runtime.studies.report:report_of",
        "tables": "commands.verdict_tables:tables_of",
        "notes": "commands.verdict_tables:lines_of",
        "picture": "commands.verdict_page:verdict_roofline",
        "page": "commands.verdict_page:verdict_page",
    }

    def __repr__(self) -> str:
        names, helps = ", ".join(part.name for part in self.added), sum(layer.helps for layer in self.layers)
        return f"<ExtensionVerdict on {names}, {self.before.name}: helps {helps} of {len(self.layers)} layers>"

    @property
    def compared(self) -> tuple[LayerVerdict, ...]:
        """The layers that both machines run, over which sums are made."""
        return tuple(layer for layer in self.layers if layer.before.cost is not None)

    def total(self, what: Callable[[LayerCost], float], after: bool) -> float:
        """The sum over `compared` of a figure, times how often the network has the layer."""
        costs = ((layer.count, layer.chosen if after else layer.before.cost) for layer in self.compared)
        return sum(count * what(one) for count, one in costs if one is not None)

    @property
    def most_speedup(self) -> float | None:
        """The speed-up of programs that take the least cycles of the layers."""
        least = sum(layer.count * layer.least_cycles for layer in self.compared)
        return self.total(lambda one: one.cycles, after=False) / least if least else None

    @property
    def speedup(self) -> float | None:
        """Cycles of all layers before over after."""
        after = self.total(lambda one: one.cycles, after=True)
        return self.total(lambda one: one.cycles, after=False) / after if after else None

    def energy_by(self, coefficients: TableSource) -> VerdictEnergy:
        """The estimated energy of every layer; EnergyError for unknown coefficients."""
        table = _table(coefficients)
        return VerdictEnergy(table, tuple(self._layer_energy(layer, table) for layer in self.layers))

    def _layer_energy(self, layer: LayerVerdict, table: EnergyTable) -> LayerEnergy:
        after = cost_energy(layer.chosen, self.after if layer.helps else self.before, table)
        return LayerEnergy(layer.name, layer.count, cost_energy(layer.before.cost, self.before, table), after)

    def with_energy(self, coefficients: TableSource) -> ExtensionVerdict:
        """The verdict with `energy_by`, which its tables then have."""
        return replace(self, energy=self.energy_by(coefficients))


def evaluate(
    source: Source | tuple[Source, ...],
    layers: Sequence[GivenLayer],
    config: Config | str,
    *,
    beside: Sequence[Source] = (),
    trials: int = 0,
    seed: int = 0,
    workers: int | None = None,
    part: FpgaPart | str | PathLike[str] | None = None,
    synthesise: bool = False,
    energy: TableSource | None = None,
    progress: Progress = lambda what, done, total: None,
) -> ExtensionVerdict:
    """The verdict on an extension, given as `vdla.extend` takes it, or on several on one machine.

    `layers` are names of the table of workloads, such as "C2" or "D1-D9", definitions, tensors, or
    FILE.py:NAME, a function that returns one. A tuple of two is a formulation for the plain machine
    and the layer.
    `config` is a machine or the name of a preset; it may have extensions already: those of
    `beside`, which both machines have. Each layer is tuned with `trials` trials on both machines.
    `workers` processes help this one. The area on `part`, by default that of the preset's board, is
    known from an earlier run, unless `synthesise` asks for it. `energy` is estimated by these
    coefficients. Outcomes are kept, so that the same question is answered at once.

    Raises:
        EvaluateError: no layers, or the program of an extension does not compute a layer.
        ExtensionError: the declaration does not fit the machine, or its program fails.
        PartError, EnergyError: an unknown part, unknown coefficients.
    """
    config = studied_machine(config)
    part = part_named(part, config.name)
    table = None if energy is None else _table(energy)
    chosen = given_layers(layers)
    if not chosen:
        raise EvaluateError("evaluate: layers must be at least one, got none")
    given = source if isinstance(source, tuple) else (source,)
    after = reduce(extend, given, config)
    plug_ins = after.extensions[len(config.extensions) :]
    stages = [after.stage] if after.stage is not None and after.stage != config.stage else []
    added: tuple[PlugIn | PlugInStage, ...] = (*plug_ins, *stages)
    declared = [extension_of(after, plug_in) for plug_in in plug_ins]
    plain = types_of(config)
    types = read_types(declared, plain)
    sources = (*beside, *given)
    both = (
        partial(MeasureJob, config=config, sources=_paths(beside), trials=trials, seed=seed),
        partial(MeasureJob, config=after, sources=_paths(sources), names=_names(added), trials=trials, seed=seed),
    )
    jobs = []
    for layer in chosen:
        jobs.append(both[0](name=layer.name, output=layer.plain_expression(plain)))
        definition = layer.definition(types)
        written = written_programs(declared, definition, after)
        jobs.append(both[1](name=layer.name, output=definition.output, written=written))
    outcomes = _outcomes(jobs, 0 if any(map(callable, sources)) else workers, progress)
    pairs = zip(outcomes[::2], outcomes[1::2], strict=True)
    judged = [_judged(layer, *pair, plain, types, config, seed) for layer, pair in zip(chosen, pairs, strict=True)]
    rates = [_steps_a_cycle(*pair) for pair in zip(declared, plug_ins, strict=True)]
    verdict = ExtensionVerdict(
        before=config,
        after=after,
        added=added,
        types_before=plain,
        types_after=types,
        steps_before=config.macs_per_cycle,
        steps_after=max([config.macs_per_cycle, *rates]),
        trials=trials,
        part=part,
        area=added_area(config, after, added, part, progress if synthesise else None),
        layers=tuple(judged),
    )
    return verdict if table is None else verdict.with_energy(table)


def with_accuracy(verdict: ExtensionVerdict, job: AccuracyJob) -> ExtensionVerdict:
    """The verdict on the layers of a network with the accuracy of that network; as
    `network_accuracy` with the layers in which the extension is used.
    """
    from vdla.runtime.studies.accuracy import network_accuracy

    used = [layer.name for layer in verdict.layers if layer.helps]
    return replace(verdict, network=network_accuracy(job, used, verdict.types_before, verdict.types_after))


def _table(coefficients: TableSource) -> EnergyTable:
    from vdla.simulator.energy import energy_table

    return energy_table(coefficients)


def _judged(
    layer: EvaluatedLayer,
    before: LayerOutcome,
    after: LayerOutcome,
    plain: OperandTypes,
    types: OperandTypes,
    config: Config,
    seed: int,
) -> LayerVerdict:
    """The verdict on a layer; its error where the types differ."""
    output, baseline = layer.expression(plain), layer.baseline
    return LayerVerdict(
        name=layer.name,
        count=layer.count,
        steps=_needed(steps_of(output), *([before, after] if baseline is None else [after])),
        least_cycles=least_cycles(layer.definition(types), config),
        before=before,
        after=after,
        accuracy=None if types == plain else accuracy_of(terms_of(output), plain, types, seed),
        baseline_error=None
        if baseline is None or reads_others(output, baseline)
        else largest_difference(output, baseline, seed),
        baseline_steps=None if baseline is None else _needed(steps_of(baseline), before),
    )


def _names(added: Sequence[PlugIn | PlugInStage]) -> tuple[str, ...]:
    return tuple(part.name for part in added)


def _paths(sources: Sequence[Source]) -> tuple[str, ...]:
    """What other processes load; functions are known to this one, which then works alone."""
    return tuple(fspath(source) for source in sources if not callable(source))


def _needed(steps: int, *outcomes: LayerOutcome) -> int:
    """The steps that do not read padding."""
    shares = [outcome.cost.needed for outcome in outcomes if outcome.cost is not None]
    return round(steps * min(shares, default=1.0))


def _steps_a_cycle(extension: Extension, plug_in: PlugIn) -> float:
    """Points of the behaviour's loop nest over the least interval of its steps."""
    points = max((_points(stage) for stage in stages_of(extension)), default=0)
    return float(points / max(1, plug_in.interval.value(lambda name: 0)))


def _points(stage: Stage) -> int:
    """Those of a sum that is written out, without axes of a reduction, are its terms."""
    terms = max(1, _terms(stage.value.expr))
    if stage.reduction is not None:
        terms = prod(int(axis.extent) for axis in stage.reduction.axes)
    return prod(map(int, stage.shape)) * terms


def _terms(expr: ir.Expr) -> int:
    """The computed operands of a sum, or of a maximum or minimum."""
    match expr:
        case ir.Load() | ir.Const():
            return 0
        case ir.Binary(op="add" | "max" | "min", a=a, b=b):
            return _terms(a) + _terms(b)
    return 1


def _outcomes(jobs: Sequence[MeasureJob], workers: int | None, progress: Progress) -> list[LayerOutcome]:
    """The outcomes of jobs, those that are kept at once, the others in several processes."""
    outcomes = {at: outcome for at, job in enumerate(jobs) if (outcome := kept(job)) is not None}
    with Background(workers) as background:
        tasks = {at: background.submit(measured, job) for at, job in enumerate(jobs) if at not in outcomes}
        for done, (at, task) in enumerate(tasks.items()):
            progress(jobs[at].name, done, len(tasks))
            (outcomes[at],) = background.results([task])
            keep(jobs[at], outcomes[at])
    return [outcomes[at] for at in range(len(jobs))]
