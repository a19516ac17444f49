# SPDX-License-Identifier: Apache-2.0
"""Verifier against adversary on mutants of the suite's programs.

A mutant is harmful if some interleaving of the units makes it hang, access memory outside its
tensors, or give results that depend on timing. A harmful mutant that passes the verifier is
`missed`; an unchanged program that is refused is a `false_alarm`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from numpy.random import Generator, default_rng

from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, receipt
from vdla.hardware.program import Program
from vdla.simulator.verify import Kind, verify
from vdla.support.progress import Progress, silent, steps
from vdla.verification.adversary import Harm, attack
from vdla.verification.programs import suite
from vdla.verification.programs.mutation import KINDS, Mutant, mutants

COUNT = 3000
MOST_ITEMS = 1 << 22
"""Limit of one interleaving; a mutant with more work than this is left undecided."""


@dataclass(slots=True)
class Tally:
    """Verdicts on the mutants of one program, or of all."""

    counts: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)

    def add(self, mutant: Mutant, seed: int) -> None:
        """Judges a mutant by both; one with an invalid instruction is not executed."""
        verdict = verify(mutant.program)
        self.counts["mutants"] += 1
        self.counts[f"mutants_{mutant.kind}"] += 1
        self.counts["refused"] += not verdict.ok
        if Kind.ENCODING in verdict.kinds():
            self.counts["invalid"] += 1
            return
        result = attack(mutant.program, seed, most_items=MOST_ITEMS)
        self.counts["harmful"] += result.harmful
        self.counts[f"harmful_{result.harm.value}"] += result.harmful
        self.counts["undecided"] += result.harm == Harm.UNDECIDED
        if result.harmful and verdict.ok:
            self.missed.append(f"{mutant}: {result.harm.value}, {result.detail}")


def run(
    progress: Progress = silent, seed: int = 0, count: int = COUNT, programs: Sequence[Program] | None = None
) -> BenchmarkResult:
    """About `count` mutants, spread evenly over `programs`, by default the suite."""
    programs = suite.programs() if programs is None else programs
    share = -(-count // len(programs))
    rows: list[Row] = []
    total = Tally()
    refused, harmful = [], []
    for number, program in enumerate(steps(progress, programs)):
        refused += [] if verify(program).ok else [program.name]
        harmful += [program.name] if attack(program, seed).harmful else []
        tally = _tally(program, share, default_rng([seed, number]), seed)
        rows.append(_row(program, tally))
        total.counts += tally.counts
        total.missed += tally.missed
    details = {"missed": total.missed, "refused_unchanged": refused, "harmful_unchanged": harmful}
    figures = _figures(total, len(refused), len(harmful))
    command = f"vdla bench mutants --seed {seed} --json -"
    return BenchmarkResult(
        "mutants", figures, rows, {**receipt(programs[0].config, programs, seed, command), **details}
    )


def _tally(program: Program, count: int, rng: Generator, seed: int) -> Tally:
    tally = Tally()
    for number, mutant in enumerate(mutants(program, count, rng)):
        tally.add(mutant, seed + number)
    return tally


def _row(program: Program, tally: Tally) -> Row:
    counts = {name: tally.counts[name] for name in ("mutants", "refused", "invalid", "harmful", "undecided")}
    return {"program": program.name, "config": program.config.name, **counts, "missed": len(tally.missed)}


def _figures(total: Tally, refused: int, harmful: int) -> Figures:
    names = ["mutants", *(f"mutants_{kind}" for kind in KINDS), "refused", "invalid", "undecided", "harmful"]
    names += [f"harmful_{harm.value}" for harm in (Harm.HANG, Harm.BOUNDS, Harm.TIMING)]
    counts = {name.replace("-", "_"): total.counts[name] for name in names}
    return {**counts, "missed": len(total.missed), "false_alarms": refused, "harmful_unchanged": harmful}
