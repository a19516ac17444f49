# SPDX-License-Identifier: Apache-2.0
"""Extensions: generated tests, mutants of programs, planted faults and who names them.

Everything follows from the declarations of small extensions that together have every kind of
operand, private state and a stage (verification/generated_tests). Machines with datapaths run on
the RTL as well (on_rtl.py). `--long` plants each fault in every extension that can have it and in
the RTL, and runs 2,000 programs on each machine with each memory; the same command resumes an
interrupted run. Subjects are parts: programs, mutants, faults, mismatches, examples, networks.

The extensions of the gallery in compiled networks: `applied` of `extensions`, `wrong` elements of
outputs, and `other_cycles`, networks whose cycles are not those of the verdict.

The worked examples of the documentation: `NAME_lines` of their files, datapath included;
`int4_cold_s` and `int4_cached_s`, the seconds of `vdla evaluate` on ResNet-18 without and with kept
results; `depthwise_full_s`, the seconds of the generated tests on `pynq_z1`, with the RTL already
built, and of the area; `sad_per_cycle`, differences in a cycle of computing on `pynq_z1`;
`lut_luts`, `lut_dsp` and `lut_bram`, the FPGA resources of the datapath of the example of a lookup
table on the output path; `depthwise_speedup_NAME`, cycles before over after on D1-D9, and
`depthwise_bound_NAME`, the same if only operands and results had to be moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.benchmarks import mutants
from vdla.benchmarks.evaluate import examples, networks, on_rtl
from vdla.benchmarks.harness import BenchmarkResult, Row, Section, joined, receipt, subjects_of
from vdla.hardware.config import Config
from vdla.simulator.timing import time_program
from vdla.support.progress import Progress, silent, steps
from vdla.verification.coverage import plug_ins
from vdla.verification.coverage.coverage import Coverage
from vdla.verification.generated_tests.check import GeneratedTests
from vdla.verification.generated_tests.faults import FAULTS, Fault
from vdla.verification.generated_tests.planted import (
    MOST_PROGRAMS,
    RTL_FAULTS,
    PlantedFault,
    RtlFault,
    plant,
    plant_in_rtl,
    sample_machine,
)
from vdla.verification.programs.random_programs import random_draft

PROGRAMS = 150
MUTANTS = 1000
MUTATED_PROGRAMS = 25
MUTATED_LENGTH = 40
LONGEST = 12
"""Iterations of an instruction of a mutated program."""


def run(
    progress: Progress = silent,
    seed: int = 0,
    long: bool = False,
    subjects: Sequence[str] = (),
    programs: int = PROGRAMS,
    mutated: int = MUTANTS,
    faults: Sequence[Fault] = FAULTS,
) -> BenchmarkResult:
    """The parts `subjects`, or all: random `programs`, about `mutated` mutants of others, `faults`,
    the RTL against the simulator, the examples.
    """
    config = sample_machine()
    run_part: dict[str, Callable[[], Section]] = {
        "programs": lambda: _agreement(progress, config, seed, programs),
        "mutants": lambda: _mutants(progress, config, seed, mutated),
        "faults": lambda: _planted(progress, seed, faults, RTL_FAULTS if long else (), None if long else 1),
        "mismatches": lambda: on_rtl.mismatches(progress, seed, on_rtl.EACH_LONG if long else on_rtl.EACH),
        "examples": lambda: examples.measured(progress),
        "networks": lambda: networks.networks(progress, seed),
    }
    section = joined([run_part[name]() for name in subjects_of("evaluate", "part", subjects, run_part)])
    command = " ".join(["vdla bench evaluate", *subjects, *(["--long"] if long else []), f"--seed {seed} --json -"])
    made = {**receipt(config, [], seed, command), **section.details}
    return BenchmarkResult("evaluate", section.figures, section.rows, made)


def _agreement(progress: Progress, config: Config, seed: int, programs: int) -> Section:
    """Random programs on which all views must agree with the declarations, and what they cover."""
    tests, coverage = GeneratedTests(config), Coverage()
    result = []
    for number in range(programs):
        progress("programs", number, programs)
        case = tests.case(seed * MOST_PROGRAMS + number)
        coverage.add(case.program, time_program(case.program))
        disagreement = tests.check(case.seed)
        result += [] if disagreement is None else [str(disagreement)]
    goals = plug_ins.bins(config)
    missing = [name for name in goals if not coverage.counts[name]]
    figures = {"programs": programs, "disagreements": len(result)}
    figures |= {"bins": len(goals), "bins_covered": len(goals) - len(missing)}
    return Section(figures, details={"disagreements": result, "bins_missing": missing})


def _mutants(progress: Progress, config: Config, seed: int, count: int) -> Section:
    """Verifier against adversary on mutants of random programs."""
    drafts = [random_draft(config, seed * MOST_PROGRAMS + k, MUTATED_LENGTH, LONGEST) for k in range(MUTATED_PROGRAMS)]
    result = mutants.run(progress, seed, count, [draft.program(draft.needed_tokens) for draft in drafts])
    renamed = {"mutants": "mutants", "harmful": "mutants_harmful", "missed": "mutants_missed"}
    figures = {ours: result.figures[theirs] for theirs, ours in renamed.items()}
    return Section(
        {**figures, "false_alarms": result.figures["false_alarms"]}, details={"missed": result.receipt["missed"]}
    )


def _planted(
    progress: Progress, seed: int, faults: Sequence[Fault], in_rtl: Sequence[RtlFault], places: int | None
) -> Section:
    """Faults that the generated tests must name by the view that they are in."""
    outcomes = []
    chosen: list[Fault | RtlFault] = [*faults, *in_rtl]
    for fault in steps(progress, chosen):
        first = seed * MOST_PROGRAMS
        planted = plant(fault, first, places=places) if isinstance(fault, Fault) else [plant_in_rtl(fault, first)]
        outcomes.append(planted)
    caught = sum(bool(planted) and all(item.caught for item in planted) for planted in outcomes)
    rows = [_row(item) for planted in outcomes for item in planted]
    return Section({"planted": len(outcomes), "caught": caught, "survivors": len(outcomes) - caught}, rows)


def _row(outcome: PlantedFault) -> Row:
    expected = " or ".join(view.value for view in outcome.expected)
    named = outcome.view if outcome.caught else f"{outcome.view or 'none'}, must be {expected}"
    return {"fault": outcome.name, "in": outcome.place, "programs": outcome.programs, "named by": named}
