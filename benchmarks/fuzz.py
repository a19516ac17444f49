# SPDX-License-Identifier: Apache-2.0
"""Random tensor expressions under random schedules: interpreter against native code, and illegal
rewrites refused.

A case is a seed: a function (functions.py), primitives with possibly illegal arguments
(schedules.py), and three runs that must agree (cases.py). `proven` counts the schedules that are
certified for all inputs, `unproven` those that are not although nothing disagrees: what is equal by
no lemma, such as a reducer of users in parts; `without_symbols` those of uint64. A disagreement is
shrunk and printed as a Python script. A case that kills or hangs its process is found by running
its batch again, one process per case.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from vdla.benchmarks.harness import BenchmarkResult, host_receipt
from vdla.compiler.schedule.trace import ScheduleTrace
from vdla.support.progress import Progress, silent
from vdla.verification.fuzz.cases import CaseOutcome, run_case, shrink
from vdla.verification.fuzz.proofs import Proof
from vdla.verification.fuzz.schedules import PRIMITIVES
from vdla.verification.isolated_batches import batches_of, run_batches

_CASES, _CASES_LONG = 6_000, 60_000
_BATCH = 50
_WORKERS = 2
_MAX_SHOWN = 5
_TIMEOUT_S = 60


@dataclass
class BatchOutcome:
    """The results of some cases: counts of accepted and refused primitives, and faulty cases."""

    cases: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[CaseOutcome] = field(default_factory=list)
    proofs: Counter[Proof] = field(default_factory=Counter)

    def add(self, other: BatchOutcome) -> None:
        """Add the results of another batch."""
        self.cases += other.cases
        self.accepted += other.accepted
        self.refused += other.refused
        self.wrong += other.wrong
        self.proofs += other.proofs


def run(
    progress: Progress = silent, seed: int = 0, long: bool = False, cases: int | None = None, workers: int = _WORKERS
) -> BenchmarkResult:
    """Run all cases in `workers` processes; 0 runs them in this one."""
    count = (_CASES_LONG if long else _CASES) if cases is None else cases
    total = BatchOutcome()
    progress("start", 0, count)
    for batch in run_batches(batches_of(seed, count, _BATCH), workers, _run_batch, died):
        total.add(batch)
        seeds = ", ".join(str(outcome.seed) for outcome in total.wrong[:_MAX_SHOWN])
        progress(f"{len(total.wrong)} disagreements{f' (seeds {seeds})' if seeds else ''}", total.cases, count)
    scripts = [outcome.script for outcome in sorted(total.wrong, key=lambda o: len(o.trace))[:_MAX_SHOWN]]
    print(*scripts, sep="\n", end="", file=sys.stderr)
    rows = [{"primitive": p, "accepted": total.accepted[p], "refused": total.refused[p]} for p in PRIMITIVES]
    figures = {
        "cases": total.cases,
        "disagreements": len(total.wrong),
        "primitives": len(rows),
        "rewrites_accepted": total.accepted.total(),
        "rewrites_refused": total.refused.total(),
        **{proof.value.replace(" ", "_"): total.proofs[proof] for proof in Proof},
        "one_sided": sum(not row["accepted"] or not row["refused"] for row in rows),
    }
    command = f"vdla bench fuzz{' --long' if long else ''} --seed {seed} --json -"
    wrong = {str(outcome.seed): outcome.fault[:200] for outcome in total.wrong}
    return BenchmarkResult("fuzz", figures, rows, host_receipt(seed, command) | {"wrong": wrong})


# --- running --------------------------------------------------------------------------------------


def died(seed: int) -> BatchOutcome:
    """The outcome of a case that killed its process."""
    fault = f"crash: the process must survive the case for at most {_TIMEOUT_S} s, got its death"
    return BatchOutcome(1, wrong=[CaseOutcome(seed, fault, ScheduleTrace())])


def _run_batch(seeds: Sequence[int]) -> BatchOutcome:
    """Run cases in sequence and shrink the first faulty one."""
    batch = BatchOutcome()
    for seed in seeds:
        signal.alarm(_TIMEOUT_S)
        outcome = run_case(seed)
        batch.cases += 1
        batch.accepted += outcome.accepted
        batch.refused += outcome.refused
        if outcome.proof is not None:
            batch.proofs[outcome.proof] += 1
        if outcome.fault:
            batch.wrong.append(outcome if batch.wrong else shrink(outcome))
    signal.alarm(0)
    return batch
