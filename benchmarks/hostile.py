"""Mutated ONNX models and artifacts: each is read or refused with a reason; crashes are counted.

A crash is any error that is not one of the toolkit's, the death of the process, a case of more than
20 seconds or of more than 4 GiB. The receipt lists the crashes by their seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from vdla.benchmarks.harness import BenchmarkResult, versions
from vdla.support.processor import cpu_model
from vdla.support.progress import Progress, silent
from vdla.verification.hostile.artifacts import ARTIFACTS
from vdla.verification.hostile.onnx_models import ONNX_MODELS
from vdla.verification.hostile.source import HostileOutcome, HostileSource, died, run_guarded
from vdla.verification.isolated_batches import run_batches

SOURCES: Mapping[str, HostileSource] = {source.name: source for source in (ONNX_MODELS, ARTIFACTS)}
_BATCH = 100
_WORKERS = 2
_SEED_STRIDE = 1_000_000  # cases per seed, so that different seeds share none


def run(
    progress: Progress = silent, seed: int = 0, sources: Sequence[HostileSource] | None = None, workers: int = _WORKERS
) -> BenchmarkResult:
    """Runs the cases of all sources in `workers` processes; 0 runs them in this one."""
    chosen = tuple(SOURCES.values()) if sources is None else tuple(sources)
    total = sum(source.count for source in chosen)
    outcomes = {source.name: HostileOutcome() for source in chosen}
    progress("start", 0, total)
    for source in chosen:
        first = seed * _SEED_STRIDE
        last = first + source.count
        batches = [range(start, min(start + _BATCH, last)) for start in range(first, last, _BATCH)]
        for done in run_batches(batches, workers, partial(run_guarded, source), died):
            outcomes[source.name].add(done)
            crashes = sum(len(outcome.faults) for outcome in outcomes.values())
            progress(f"{source.name}, {crashes} crashes", sum(o.cases for o in outcomes.values()), total)
    rows: list[dict[str, Any]] = [
        {"source": name, "cases": found.cases, "crashes": len(found.faults), **dict(found.words)}
        for name, found in outcomes.items()
    ]
    figures = {key: sum(row[key] for row in rows) for key in ("cases", "crashes")}
    found = {name: {str(key): text[:300] for key, text in o.faults.items()} for name, o in outcomes.items()}
    command = f"vdla bench hostile --seed {seed} --json -"
    receipt = {"versions": versions(), "cpu": cpu_model(), "seed": seed, "command": command, "crashes": found}
    return BenchmarkResult("hostile", figures, rows, receipt)
