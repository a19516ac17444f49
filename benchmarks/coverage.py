# SPDX-License-Identifier: Apache-2.0
"""Functional coverage of the equality benchmark's programs: fields, forms, hazards, queue states.

The random programs of the equality benchmark with the same seed are counted; the RTL is not run.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.benchmarks.harness import BenchmarkResult, receipt, total
from vdla.simulator.timing import time_program
from vdla.support.progress import Progress, numbered, silent
from vdla.verification.coverage.coverage import UNREACHABLE, Coverage
from vdla.verification.programs.cases import ProgramCase, all_random


def run(
    progress: Progress = silent, seed: int = 0, batches: Sequence[Sequence[ProgramCase]] | None = None
) -> BenchmarkResult:
    """Coverage of the random programs with this seed, or of `batches`."""
    coverage = Coverage()
    batches = all_random(seed) if batches is None else batches
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
    made = receipt(batches[0][0].config, [], seed, f"vdla bench coverage --seed {seed} --json -")
    details = {"bins_missing": coverage.missing(), "unreachable": dict(UNREACHABLE), "counts": dict(coverage.counts)}
    return BenchmarkResult("coverage", figures, rows, {**made, **details})
