"""Extensions: generated tests, mutants of programs, planted faults and who names them.

Everything follows from the declarations of small extensions that together have every kind of
operand, private state and a stage (benchmarks/generated_tests/samples.py). `--long` plants each
fault in every extension that can have it.

The worked examples of the documentation: `NAME_lines` of their files, datapath included;
`int4_cold_s` and `int4_cached_s`, the seconds of `vdla evaluate` on ResNet-18 without and with kept
results; `sad_per_cycle`, differences in a cycle of computing on `pynq_z1`.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.benchmarks import mutants
from vdla.benchmarks.coverage import plug_ins
from vdla.benchmarks.coverage.benchmark import Coverage
from vdla.benchmarks.evaluate import examples
from vdla.benchmarks.evaluate.part import BenchmarkPart
from vdla.benchmarks.generated_tests.check import GeneratedTests
from vdla.benchmarks.generated_tests.faults import FAULTS, Fault
from vdla.benchmarks.generated_tests.planted import MOST_PROGRAMS, PlantedFault, plant, sample_machine
from vdla.benchmarks.harness import BenchmarkResult, Progress, Row, receipt, silent
from vdla.benchmarks.programs.random_programs import random_draft
from vdla.hardware.config import Config
from vdla.simulator.timing import time_program

PROGRAMS = 100
MUTANTS = 1000
MUTATED_PROGRAMS = 25
MUTATED_LENGTH = 40
LONGEST = 12
"""Iterations of an instruction of a mutated program."""


def run(
    progress: Progress = silent,
    seed: int = 0,
    long: bool = False,
    programs: int = PROGRAMS,
    mutated: int = MUTANTS,
    faults: Sequence[Fault] = FAULTS,
    with_examples: bool = True,
) -> BenchmarkResult:
    """All parts: random `programs`, about `mutated` mutants of others, `faults`, the examples."""
    config = sample_machine()
    parts = (
        _agreement(progress, config, seed, programs),
        _mutants(progress, config, seed, mutated),
        _planted(progress, seed, faults, None if long else 1),
        *([examples.measured(progress)] if with_examples else []),
    )
    figures = {name: value for part in parts for name, value in part.figures.items()}
    rows = [row for part in parts for row in part.rows]
    command = f"vdla bench evaluate{' --long' if long else ''} --seed {seed} --json -"
    details = {name: value for part in parts for name, value in part.details.items()}
    return BenchmarkResult("evaluate", figures, rows, {**receipt(config, [], seed, command), **details})


def _agreement(progress: Progress, config: Config, seed: int, programs: int) -> BenchmarkPart:
    """Random programs on which all views must agree with the declarations, and what they cover."""
    tests, coverage = GeneratedTests(config), Coverage()
    found = []
    for number in range(programs):
        progress("programs", number, programs)
        case = tests.case(seed * MOST_PROGRAMS + number)
        coverage.add(case.program, time_program(case.program))
        disagreement = tests.check(case.seed)
        found += [] if disagreement is None else [str(disagreement)]
    goals = plug_ins.bins(config)
    missing = [name for name in goals if not coverage.counts[name]]
    figures = {"programs": programs, "disagreements": len(found)}
    figures |= {"bins": len(goals), "bins_covered": len(goals) - len(missing)}
    return BenchmarkPart(figures, details={"disagreements": found, "bins_missing": missing})


def _mutants(progress: Progress, config: Config, seed: int, count: int) -> BenchmarkPart:
    """Verifier against adversary on mutants of random programs."""
    drafts = [random_draft(config, seed * MOST_PROGRAMS + k, MUTATED_LENGTH, LONGEST) for k in range(MUTATED_PROGRAMS)]
    found = mutants.run(progress, seed, count, [draft.program(draft.needed_tokens) for draft in drafts])
    renamed = {"mutants": "mutants", "harmful": "mutants_harmful", "missed": "mutants_missed"}
    figures = {ours: found.figures[theirs] for theirs, ours in renamed.items()}
    return BenchmarkPart(
        {**figures, "false_alarms": found.figures["false_alarms"]}, details={"missed": found.receipt["missed"]}
    )


def _planted(progress: Progress, seed: int, faults: Sequence[Fault], places: int | None) -> BenchmarkPart:
    """Faults that the generated tests must name by the view that they are in."""
    outcomes = []
    for number, fault in enumerate(faults):
        progress(fault.name, number, len(faults))
        outcomes.append(plant(fault, seed * MOST_PROGRAMS, places=places))
    progress("done", len(faults), len(faults))
    caught = [bool(places_of) and all(each.caught for each in places_of) for places_of in outcomes]
    rows = [_row(each) for places_of in outcomes for each in places_of]
    figures = {"planted": len(faults), "caught": sum(caught), "survivors": len(faults) - sum(caught)}
    return BenchmarkPart(figures, rows)


def _row(outcome: PlantedFault) -> Row:
    named = outcome.view if outcome.caught else f"{outcome.view or 'none'}, must be {outcome.fault.view.value}"
    return {"fault": outcome.fault.name, "in": outcome.place, "programs": outcome.programs, "named by": named}
