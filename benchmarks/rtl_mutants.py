# SPDX-License-Identifier: Apache-2.0
"""Defects planted in every module of the RTL: what finds each, and which survive.

A model of the machine holds all chosen defects; each run activates one. Random programs against the
simulator, the register table and stopped runs are tried in turn until one finds it; so do the
assertions of the RTL and the protocol rules of the memory. What survives is tried on the tests and
proofs of its module, and last proved to be equivalent to the original where it is. The short form
builds the larger machines only for the survivors; `--long` judges more defects, on all machines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vdla.benchmarks.harness import BenchmarkResult, Row, receipt, require_libraries
from vdla.support.progress import Progress, silent
from vdla.verification.rtl_mutants.machines import mutated_machines
from vdla.verification.rtl_mutants.verdict import Judgement, Killer

COUNT, COUNT_LONG = 20, 240
WORKERS = 2


def run(
    progress: Progress = silent, seed: int = 0, long: bool = False, count: int | None = None, workers: int = WORKERS
) -> BenchmarkResult:
    """Judges `count` defects, at least one of each module where there are as many."""
    require_libraries("rtl_mutants", ["pyslang"], extra="rtl")
    from vdla.verification.rtl_mutants.campaign import verdicts

    every = mutated_machines()
    early = len(every) if long else 1
    machines, late = every[:early], every[early:]
    judgements = verdicts(machines, late, count or (COUNT_LONG if long else COUNT), seed, workers, progress)
    survivors = [str(verdict.defect) for verdict in judgements if verdict.killer is Killer.NOTHING]
    killers = Counter(verdict.killer for verdict in judgements)
    figures = {
        "mutants": len(judgements),
        "killed": len(judgements) - killers[Killer.EQUIVALENT] - len(survivors),
        "equivalent": killers[Killer.EQUIVALENT],
        "survivors": len(survivors),
    }
    command = f"vdla bench rtl_mutants{' --long' if long else ''} --seed {seed} --json -"
    made = receipt(machines[0], [], seed, command) | {
        "survivors": survivors,
        "verdicts": [str(verdict) for verdict in judgements],
        "killers": {killer.value: killers[killer] for killer in Killer if killers[killer]},
    }
    return BenchmarkResult("rtl_mutants", figures, _rows(judgements), made)


def _rows(verdicts: Sequence[Judgement]) -> list[Row]:
    rows: dict[str, Row] = {}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.defect.module):
        module = verdict.defect.module
        row = rows.setdefault(
            module, {"module": module, **dict.fromkeys(("mutants", "killed", "equivalent", "survivors"), 0)}
        )
        row["mutants"] += 1
        killed = "survivors" if verdict.killer is Killer.NOTHING else "killed"
        row["equivalent" if verdict.killer is Killer.EQUIVALENT else killed] += 1
    return list(rows.values())
