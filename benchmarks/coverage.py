# SPDX-License-Identifier: Apache-2.0
"""Functional coverage of the equality benchmark's programs: fields, forms, hazards, queue states.

The random programs of the equality benchmark with the same seed are counted, and for each machine
the ends of fields that directed programs reach; the RTL is not run.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.benchmarks.harness import BenchmarkResult, receipt, total
from vdla.simulator.timing import time_program
from vdla.support.progress import Progress, numbered, silent
from vdla.verification.coverage.coverage import UNREACHABLE, Coverage
from vdla.verification.coverage.extremes import bins
from vdla.verification.programs.cases import ProgramCase, all_random
from vdla.verification.programs.directed_programs import all_directed


def run(
    progress: Progress = silent, seed: int = 0, batches: Sequence[Sequence[ProgramCase]] | None = None
) -> BenchmarkResult:
    """Coverage of the random and the directed programs with this seed, or of `batches`."""
    coverage = Coverage()
    batches = [*all_directed(seed), *all_random(seed)] if batches is None else batches
    machines = list({batch[0].config.name: batch[0].config for batch in batches}.values())
    step = numbered(progress, len(batches))
    for batch in batches:
        step(batch[0].config.name)
        for case in batch:
            program = case.made()
            places = case.conditions(program).places
            coverage.add(program, time_program(program, case.config, None if places is None else dict(places)), places)
    step("done")
    rows = coverage.rows()
    figures = {name: total(rows, name) for name in ("bins", "unreachable", "covered", "missing")}
    missing = coverage.missing_extremes(machines)
    figures |= {"extremes": sum(len(bins(machine)) for machine in machines), "extremes_missing": len(missing)}
    made = receipt(batches[0][0].config, [], seed, f"vdla bench coverage --seed {seed} --json -")
    details = {"bins_missing": coverage.missing(), "unreachable": dict(UNREACHABLE), "counts": dict(coverage.counts)}
    details |= {"extremes_missing": missing}
    return BenchmarkResult("coverage", figures, rows, {**made, **details})
