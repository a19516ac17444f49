"""Random tensor expressions under random schedules: interpreter against native code, and illegal rewrites refused.

Every case is a seed: a function (fuzz_functions.py), primitives with arguments that may be illegal (fuzz_schedules.py),
and three runs that must agree (fuzz_cases.py). What differs is shrunk and printed as a Python script. A case that ends
or hangs its process is found by running its batch again, one process a case.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

from vdla.benchmarks.fuzz.cases import Outcome, run_case, shrunk
from vdla.benchmarks.fuzz.schedules import PRIMITIVES
from vdla.benchmarks.harness import BenchmarkResult, Progress, silent, versions
from vdla.compiler.schedule.trace import ScheduleTrace
from vdla.support.processor import cpu_model

CASES, CASES_LONG = 6_000, 60_000
BATCH = 50
WORKERS = 2
MOST_SHOWN = 5
TIMEOUT_S = 60
SEEDS = 1_000_000  # apart, so that two runs of different seeds share no case


@dataclass
class Batch:
    """What came of some cases: how often each primitive was accepted and refused, and the cases that went wrong."""

    cases: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[Outcome] = field(default_factory=list)

    def add(self, other: Batch) -> None:
        """The cases of another batch too."""
        self.cases += other.cases
        self.accepted += other.accepted
        self.refused += other.refused
        self.wrong += other.wrong


Work = Callable[[Sequence[int]], Batch]


def run(
    progress: Progress = silent, seed: int = 0, long: bool = False, cases: int | None = None, workers: int = WORKERS
) -> BenchmarkResult:
    """Run all cases; `workers` processes share them, 0: this one does all, whatever a case does to it."""
    count = (CASES_LONG if long else CASES) if cases is None else cases
    first = seed * SEEDS
    batches = [range(start, min(start + BATCH, first + count)) for start in range(first, first + count, BATCH)]
    total = Batch()
    progress("start", 0, count)
    for batch in finished(batches, workers):
        total.add(batch)
        seeds = ", ".join(str(outcome.seed) for outcome in total.wrong[:MOST_SHOWN])
        progress(f"{len(total.wrong)} disagreements{f' (seeds {seeds})' if seeds else ''}", total.cases, count)
    found = [outcome.script for outcome in sorted(total.wrong, key=lambda o: len(o.trace))[:MOST_SHOWN]]
    print(*found, sep="\n", end="", file=sys.stderr)
    rows = [{"primitive": p, "accepted": total.accepted[p], "refused": total.refused[p]} for p in PRIMITIVES]
    figures = {
        "cases": total.cases,
        "disagreements": len(total.wrong),
        "primitives": len(rows),
        "rewrites_accepted": total.accepted.total(),
        "rewrites_refused": total.refused.total(),
        "one_sided": sum(not row["accepted"] or not row["refused"] for row in rows),
    }
    return BenchmarkResult("fuzz", figures, rows, made_of(seed, long, total))


def made_of(seed: int, long: bool, total: Batch) -> dict[str, Any]:
    """What it takes to run it again."""
    command = f"vdla bench fuzz{' --long' if long else ''} --seed {seed} --json -"
    wrong = {str(outcome.seed): outcome.fault[:200] for outcome in total.wrong}
    return {"versions": versions(), "cpu": cpu_model(), "seed": seed, "command": command, "wrong": wrong}


# --- running --------------------------------------------------------------------------------------


def finished(batches: Sequence[Sequence[int]], workers: int, work: Work | None = None) -> Iterable[Batch]:
    """The batches as they end; those that a broken pool held are run again, apart."""
    job = work or judged
    if not workers:
        yield from map(job, batches)
        return
    broken: list[Sequence[int]] = []
    with new_pool(workers) as pool:
        futures = {pool.submit(job, batch): batch for batch in batches}
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:
                broken.append(futures[future])
    for batch in broken:
        yield from together_or_alone(batch, job)


def together_or_alone(batch: Sequence[int], work: Work) -> Iterable[Batch]:
    """A batch in a process of its own; if it ends that, its cases in one each."""
    try:
        with new_pool(1) as pool:
            yield pool.submit(work, batch).result()
    except BrokenProcessPool:
        yield from (alone(seed, work) for seed in batch)


def new_pool(workers: int) -> ProcessPoolExecutor:
    """Fresh processes: a fork would inherit the threads of compiled code."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def alone(seed: int, work: Work) -> Batch:
    """One case in a process of its own."""
    try:
        with new_pool(1) as pool:
            return pool.submit(work, [seed]).result()
    except BrokenProcessPool:
        fault = f"crash: the process must live through the case, {TIMEOUT_S} s at most, got its end"
        return Batch(1, wrong=[Outcome(seed, fault, ScheduleTrace())])


def judged(seeds: Sequence[int]) -> Batch:
    """Run cases one after another; the first that goes wrong is shrunk."""
    batch = Batch()
    for seed in seeds:
        signal.alarm(TIMEOUT_S)
        outcome = run_case(seed)
        batch.cases += 1
        batch.accepted += outcome.accepted
        batch.refused += outcome.refused
        if outcome.fault:
            batch.wrong.append(outcome if batch.wrong else shrunk(outcome))
    signal.alarm(0)
    return batch
