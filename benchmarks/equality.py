# SPDX-License-Identifier: Apache-2.0
"""RTL against simulator: times, counters, memory, buffers of random, directed, compiled programs.

Runs on several machines, with the RTL's assertions on. Three of four programs have their tensors
and stream anywhere in the machine's addresses; in every second batch the RTL's registers and
memories start at random. Every random program is verified, and functional coverage is measured at
what is compared (verification/coverage). A mismatch is shrunk and printed with the arguments that
replay it. `--long` runs 10,000 programs and the layers of ResNet-18.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from vdla.benchmarks.harness import BenchmarkResult, Row, finished, receipt, total
from vdla.benchmarks.layers import FIRST, PRESET
from vdla.compiler.operators.workloads import resnet18_layers, workload
from vdla.hardware.asm import disassemble
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.support.progress import Progress, silent
from vdla.verification.coverage.coverage import Coverage, goals
from vdla.verification.coverage.extremes import bins
from vdla.verification.programs import suite
from vdla.verification.programs.cases import EACH, EACH_LONG, ProgramCase, all_random
from vdla.verification.programs.device_pair import Comparator, Open, rtl_pair
from vdla.verification.programs.directed_programs import all_directed
from vdla.verification.programs.extreme_programs import extreme_programs
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_machines import MACHINES
from vdla.verification.programs.shrink import shrink

WORKERS = 2
MOST_SHRUNK = 3
MOST_GIVEN = 1000


@dataclass
class Outcome:
    """The results of some cases of one machine."""

    machine: str
    programs: int = 0
    instructions: int = 0
    cycles: int = 0
    placed: int = 0
    random_starts: int = 0
    without_comparison: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    hashes: dict[str, str] = field(default_factory=dict)
    mismatches: list[tuple[ProgramCase, str]] = field(default_factory=list)


def run(
    progress: Progress = silent,
    seed: int = 0,
    long: bool = False,
    batches: Sequence[Sequence[ProgramCase]] | None = None,
    opened: Open = rtl_pair,
    workers: int = WORKERS,
) -> BenchmarkResult:
    """Compares all cases, spread over `workers` processes; 0 runs them in this process."""
    chosen = all_batches(seed, long) if batches is None else batches
    outcomes = _outcomes(chosen, opened, workers, progress)
    mismatches = [mismatch for outcome in outcomes for mismatch in outcome.mismatches]
    explanations = [explain(case, text, opened) for case, text in mismatches[:MOST_SHRUNK]]
    print(*explanations, sep="\n", end="\n" if explanations else "", file=sys.stderr)
    coverage = Coverage()
    for outcome in outcomes:
        coverage.merge(outcome.coverage)
    machines = list({batch[0].config.fingerprint: batch[0].config for batch in chosen if batch}.values())
    driven = [machine for machine in machines if machine.name in {directed.name for directed in MACHINES}]
    missing, missing_extremes = coverage.missing(machines), coverage.missing_extremes(driven)
    rows = _rows(outcomes)
    figures = {name: total(rows, name) for name in ("programs", "instructions", "cycles", "mismatches")}
    figures |= {
        "programs_without_comparison": sum(outcome.without_comparison for outcome in outcomes),
        "programs_placed_at_random": sum(outcome.placed for outcome in outcomes),
        "programs_started_at_random": sum(outcome.random_starts for outcome in outcomes),
        "configurations": len(machines),
        "memories": len({batch[0].config.dram for batch in chosen if batch}),
        "bins": len(goals(machines)),
        "bins_covered": len(goals(machines)) - len(missing),
        "extremes": sum(len(bins(machine)) for machine in driven),
        "extremes_covered": sum(len(bins(machine)) for machine in driven) - len(missing_extremes),
    }
    command = f"vdla bench equality{' --long' if long else ''} --seed {seed} --json -"
    made = receipt(chosen[0][0].config, [], seed, command) | {
        "programs": {name: value for outcome in outcomes for name, value in outcome.hashes.items()},
        "found": explanations,
        "bins_missing": missing,
        "extremes_missing": missing_extremes,
        "bins_counts": dict(coverage.counts),
    }
    return BenchmarkResult("equality", figures, rows, made)


def _rows(outcomes: Iterable[Outcome]) -> list[Row]:
    rows: dict[str, Row] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.machine):
        names = ("programs", "instructions", "cycles", "mismatches")
        row = rows.setdefault(outcome.machine, {"machine": outcome.machine, **dict.fromkeys(names, 0)})
        for name in names[:3]:
            row[name] += getattr(outcome, name)
        row["mismatches"] += len(outcome.mismatches)
    return list(rows.values())


# --- cases ----------------------------------------------------------------------------------------


def all_batches(seed: int, long: bool, driven: Sequence[Config] = MACHINES) -> list[list[ProgramCase]]:
    """Batches of cases, one machine and memory each: given programs, directed, random ones. Those
    on the ends of fields are for the machines of `driven`.
    """
    extreme = [program for machine in driven for program in extreme_programs(machine, seed)]
    given = [
        [ProgramCase(program.config, seed * MOST_GIVEN + number, program=program, random_start=number % 2 > 0)]
        for number, program in enumerate([*_compiled(long), *extreme])
    ]
    return [*given, *all_directed(seed, driven), *all_random(seed, EACH_LONG if long else EACH)]


def _compiled(long: bool) -> list[Program]:
    layers = [*resnet18_layers(), workload(FIRST)] if long else []
    convolutions = [layer_operator(layer, Config.preset(PRESET), 2).program for layer in layers]
    return sorted(convolutions + suite.programs(), key=len, reverse=True)


# --- running --------------------------------------------------------------------------------------


def _outcomes(
    batches: Sequence[Sequence[ProgramCase]], opened: Open, workers: int, progress: Progress
) -> list[Outcome]:
    count = sum(len(batch) for batch in batches)
    outcomes: list[Outcome] = []
    progress("start", 0, count)
    for outcome in finished(partial(compare_batch, opened=opened), batches, workers):
        outcomes.append(outcome)
        done = sum(outcome.programs for outcome in outcomes)
        bad = sum(len(outcome.mismatches) for outcome in outcomes)
        progress(f"{outcome.machine}, {bad} mismatches", done, count)
    return outcomes


def compare_batch(batch: Sequence[ProgramCase], opened: Open = rtl_pair) -> Outcome:
    """Compares the cases of one machine and memory."""
    outcome = Outcome(batch[0].config.name)
    with opened(batch[0].config) as compare:
        for case in batch:
            _compare(case, compare, outcome)
    return outcome


def _compare(case: ProgramCase, compare: Comparator, outcome: Outcome) -> None:
    program = case.made()
    conditions = case.conditions(program)
    result = compare(program, random_arrays(program, case.seed), conditions)
    stats = result.statistics
    outcome.programs += 1
    outcome.instructions += len(program)
    outcome.cycles += 0 if stats is None else stats.total_cycles
    outcome.placed += conditions.places is not None
    outcome.random_starts += conditions.start is not None
    outcome.without_comparison += not result.data_compared
    outcome.hashes[program.name] = program.hash
    if stats is not None and case.program is None:
        outcome.coverage.add(program, stats, conditions.places)
    elif stats is not None:
        outcome.coverage.add_extremes(program, conditions.places)
    if result.difference:
        outcome.mismatches.append((case, result.difference))


# --- mismatches -----------------------------------------------------------------------------------


def explain(case: ProgramCase, difference: str, opened: Open = rtl_pair) -> str:
    """The case, the difference, and the shrunk program as assembly text without tensor contents."""
    made = case.made()
    conditions = case.conditions(made)
    with opened(case.config) as compare:

        def differs(program: Program) -> str:
            return compare(program, random_arrays(program, case.seed), conditions).difference

        small = shrink(made, lambda program: bool(differs(program)))
        again = differs(small)
    text = [line for line in disassemble(small, numbered=True).splitlines() if not line.startswith(".data ")]
    said = [f"equality: {case}", f"conditions: {conditions}", difference]
    return "\n".join([*said, f"shrunk to {len(small)} instructions:", again, *text, ""])
