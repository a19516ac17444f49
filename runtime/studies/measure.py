# SPDX-License-Identifier: Apache-2.0
"""The cost of a layer on a machine: the best of its mappings, or of those that use an extension.

Mappings are chosen as `map_expression` does; with trials, tiles are tuned as well. The simulator is
imported where it is used, so that cached results are shown at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from vdla.compiler import te
from vdla.compiler.extensions import extension_intrinsic, extension_of, load_extension
from vdla.compiler.layer_programs import WrittenProgram
from vdla.compiler.map import MapError, MappedOperator, Refusal, candidates, why_not_staged
from vdla.compiler.map.tile_facts import share_read
from vdla.hardware.config import Config
from vdla.hardware.isa import PlugIn
from vdla.hardware.program import Program
from vdla.runtime.studies.layers import placeholders_of
from vdla.runtime.studies.written_program import check_written
from vdla.support.errors import Error

if TYPE_CHECKING:
    from vdla.runtime.tune.mapping import MappingReport

THREADS = 2
SEARCH = "estimate"
"""What proposes the trials of a tuned layer: it needs no packages beyond the toolkit's own."""


@dataclass(frozen=True, slots=True)
class LayerCost:
    """A layer on a machine: `cycles` of its program, `host_cycles` of what the host lays out
    several times, and the cycles in which the compute unit was busy.

    `needed` is the share of the points of the layer's loop nest that do not read padding. `events`
    has the part, action, widths and count of each event, from which energies are estimated.
    """

    cycles: int
    host_cycles: float
    busy_cycles: int
    bytes_read: int
    bytes_written: int
    instructions: int
    stream_bytes: int
    mapping: str
    needed: float
    events: tuple[tuple[str, str, int, int, int], ...] = ()

    @property
    def total(self) -> float:
        """Cycles, those of the host included: what mappings are chosen by."""
        return self.cycles + self.host_cycles


@dataclass(frozen=True, slots=True)
class LayerOutcome:
    """The cost of a layer, or the first reason why the machine cannot run it."""

    cost: LayerCost | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> LayerOutcome:
        """The inverse of `to_dict`; KeyError or TypeError if they are no such values."""
        cost = values["cost"]
        if cost is not None:
            cost = LayerCost(**{**cost, "events": tuple(map(tuple, cost.get("events", ())))})
        return LayerOutcome(cost, str(values["reason"]))


@dataclass(frozen=True, eq=False)
class MeasureJob:
    """A layer, a machine, and the `sources` of the machine's extensions, for other processes.

    With `names`, only mappings count that use one of these extensions. With 0 `trials`, the layer
    is not tuned. `written` has what authors of extensions give for the layer.
    """

    name: str
    output: te.Tensor
    config: Config
    sources: tuple[str, ...]
    names: tuple[str, ...] = ()
    trials: int = 0
    seed: int = 0
    written: tuple[WrittenProgram, ...] = ()

    @property
    def content(self) -> list[Any]:
        """All that the outcome depends on, beside the toolkit itself, as JSON-compatible values."""
        function = te.create_function(list(placeholders_of(self.output)), [self.output], "plain")
        machine = {name: value for name, value in self.config.to_dict().items() if name != "name"}
        written = [written.text for written in self.written]
        return [str(function), machine, self.names, self.trials, self.seed, written]

    @property
    def mapped(self) -> bool:
        """Whether the mapper can have a use for what the job is about."""
        return self.staged or not self.names or not self.written or any(not item.states for item in self.new_plug_ins)

    @property
    def staged(self) -> bool:
        """Whether the stage of the machine is one of the extensions."""
        return self.config.stage is not None and self.config.stage.name in self.names

    @property
    def new_plug_ins(self) -> list[PlugIn]:
        """The instructions of the extensions."""
        return [plug_in for plug_in in self.config.extensions if plug_in.name in self.names]


def measured(job: MeasureJob) -> LayerOutcome:
    """The outcome of a job, in any process: the best of its mappings and of written programs.

    Raises:
        EvaluateError: a written program is not safe, or computes something else than the layer.
    """
    for source in job.sources:
        _load(source)
    outcomes = [_of_written(job, written) for written in job.written]
    if job.mapped:
        outcomes.append(_of_mappings(job))
    costs = [outcome.cost for outcome in outcomes if outcome.cost is not None]
    return LayerOutcome(min(costs, key=lambda cost: cost.total)) if costs else outcomes[0]


def _of_written(job: MeasureJob, written: WrittenProgram) -> LayerOutcome:
    """The cost of the fastest of an author's programs, which compute what they must."""
    if not written.programs:
        return LayerOutcome(None, written.reason)
    check_written(written, job.name, job.output, job.seed)
    port = job.config.axi_bytes
    costs = [_of_program(item.program, item.extra_bytes / port, written.label, 1.0) for item in written.programs]
    return LayerOutcome(min(costs, key=lambda cost: cost.total))


def _of_mappings(job: MeasureJob) -> LayerOutcome:
    """The cost of the best mapping."""
    try:
        operator, needed = _first(job)
        first = _of_program(operator.program, operator.extra_cycles, str(operator.mapping), needed)
        tuned = _tuned(job, needed) if job.trials else None
    except MapError as error:
        return LayerOutcome(None, _first_of(error))
    return LayerOutcome(tuned if tuned is not None and tuned.total < first.total else first)


def _tuned(job: MeasureJob, needed: float) -> LayerCost:
    """The best of the trials of a job."""
    from vdla.compiler.tune.vdla_forms import ExpressionSource
    from vdla.compiler.tune.vdla_task import VdlaTask
    from vdla.runtime.studies.tuned_layer import UsingSource, best_of_trials

    source = UsingSource(job.output, job.names, uses) if job.names else ExpressionSource(job.output)
    best = best_of_trials(VdlaTask(job.name, job.config, source), SEARCH, job.trials, job.seed)
    return _of_program(*best, needed)


@cache
def _load(source: str) -> None:
    """Make an extension known to this process, once."""
    load_extension(source)


# --- the first candidates -------------------------------------------------------------------------


def _first(job: MeasureJob) -> tuple[MappedOperator, float]:
    """The mapping that is chosen without trials, and the share of terms that are not padding: a
    mapping that moves windows over the input tells which terms are.

    Raises:
        MapError: no mapping is legal, with the first reason.
    """
    from vdla.runtime.tune.mapping import explore_mappings

    try:
        report = explore_mappings(job.output, job.config, THREADS, name=job.name)
    except MapError as error:
        if job.names:
            raise MapError(_reason_alone(job, error)) from None
        raise
    using = [operator for operator in report.operators if not job.names or uses(operator, job.names)]
    if not using:
        raise MapError(_reason(job, report))
    timed = report.operators[: len(report.cycles)]
    chosen = using[0] if using[0] in timed else min((_best(item) for item in using), key=_estimated)
    return chosen, min(share_read(item.form) for item in report.operators)


def _best(operator: MappedOperator) -> MappedOperator:
    return operator.with_best_tiles(THREADS)


def _estimated(operator: MappedOperator) -> float:
    return operator.estimate + operator.extra_cycles


def uses(operator: MappedOperator, names: tuple[str, ...]) -> bool:
    """Whether a mapping has a step of an extension, or sends results through its stage."""
    stage = operator.config.stage
    staged = stage is not None and stage.name in names and operator.form.stage is not None
    return staged or any(step.intrinsic.name in names for step in operator.mapping.computation.all_steps)


def _reason(job: MeasureJob, report: MappingReport) -> str:
    """Why no mapping uses an extension: the first refused one, or what else it computes."""
    told = () if job.staged else _told((*report.refused, *report.others), job.names)
    return next(iter(told), "") or _reason_alone(job)


def _told(refusals: tuple[Refusal, ...], names: tuple[str, ...]) -> Iterator[str]:
    for refusal in refusals:
        listed = refusal.mapping.partition(":")[0].replace(" + ", ", ").split(", ")
        if any(name in listed for name in names):
            yield refusal.reason


def _reason_alone(job: MeasureJob, error: MapError | None = None) -> str:
    """The reason of the first of the extensions, tried without other instructions; of a stage also
    those of the instructions beside it. `error` is why the machine has no program at all.
    """
    if not job.staged:
        return _reason_of_instruction(job, job.new_plug_ins[0])
    of_stage = why_not_staged(job.output, job.config) or ("" if error is None else _first_of(error))
    alone = [_reason_of_instruction(job, plug_in) for plug_in in job.new_plug_ins if not plug_in.states]
    return "; ".join(filter(None, [of_stage, *alone]))


def _reason_of_instruction(job: MeasureJob, plug_in: PlugIn) -> str:
    extension = extension_of(job.config, plug_in)
    if plug_in.states:
        return f"{plug_in.name} must have a program, as what it computes depends on private state, got none"
    try:
        candidates(job.output, job.config, THREADS, [extension_intrinsic(extension, job.config)], job.name)
    except MapError as error:
        refusals = (*error.refused, *error.others)
        return refusals[0].reason if refusals else str(error)
    except Error as error:
        return str(error)
    return f"{plug_in.name} must be a step of the mapper, got an instruction that schedules alone can use"


def _first_of(error: MapError) -> str:
    """The first reason of those that an error of the mapper has; intrinsics have a name."""
    reasons = [*(item.reason for item in error.refused), *map(str, error.others), str(error)]
    return reasons[0]


# --- programs -------------------------------------------------------------------------------------


def _of_program(program: Program, host_cycles: float, mapping: str, needed: float) -> LayerCost:
    from vdla.simulator.energy import activity_of
    from vdla.simulator.timing import time_program

    stats, events = time_program(program), activity_of(program).total
    return LayerCost(
        cycles=stats.total_cycles,
        host_cycles=host_cycles,
        busy_cycles=stats.counters["compute"]["busy"],
        bytes_read=stats.bytes_read,
        bytes_written=stats.bytes_written,
        instructions=len(stats.starts),
        stream_bytes=program.words.nbytes,
        mapping=mapping,
        needed=needed,
        events=tuple((event.part, event.action.value, event.bits, event.other_bits, n) for event, n in events.items()),
    )
