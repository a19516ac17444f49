# SPDX-License-Identifier: Apache-2.0
"""Mutated models of ONNX and TensorFlow Lite, and artifacts: each is read or refused with a reason;
crashes are counted.

A crash is any error that is not one of the toolkit's, the death of the process, a case of more than
20 seconds or of more than 4 GiB. The receipt lists the crashes by their seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from vdla.benchmarks.harness import BenchmarkResult, host_receipt, total
from vdla.support.progress import Progress, silent
from vdla.verification.hostile.artifacts import ARTIFACTS
from vdla.verification.hostile.onnx_models import ONNX_MODELS
from vdla.verification.hostile.source import HostileOutcome, HostileSource, died, run_guarded
from vdla.verification.hostile.tflite_files import TFLITE_FILES
from vdla.verification.isolated_batches import batches_of, run_batches

SOURCES: Mapping[str, HostileSource] = {source.name: source for source in (ONNX_MODELS, TFLITE_FILES, ARTIFACTS)}
_BATCH = 100
_WORKERS = 2


def run(
    progress: Progress = silent, seed: int = 0, sources: Sequence[HostileSource] | None = None, workers: int = _WORKERS
) -> BenchmarkResult:
    """Runs the cases of all sources in `workers` processes; 0 runs them in this one."""
    chosen = tuple(SOURCES.values()) if sources is None else tuple(sources)
    count = sum(source.count for source in chosen)
    outcomes = {source.name: HostileOutcome() for source in chosen}
    progress("start", 0, count)
    for source in chosen:
        batches = batches_of(seed, source.count, _BATCH)
        for done in run_batches(batches, workers, partial(run_guarded, source), died):
            outcomes[source.name].add(done)
            faults = sum(len(outcome.faults) for outcome in outcomes.values())
            progress(f"{source.name}, {faults} crashes", sum(o.cases for o in outcomes.values()), count)
    rows = [
        {"source": name, "cases": outcome.cases, "crashes": len(outcome.faults), **outcome.words}
        for name, outcome in outcomes.items()
    ]
    figures = {key: total(rows, key) for key in ("cases", "crashes")}
    crashes = {name: {str(key): text[:300] for key, text in o.faults.items()} for name, o in outcomes.items()}
    receipt = host_receipt(seed, f"vdla bench hostile --seed {seed} --json -") | {"crashes": crashes}
    return BenchmarkResult("hostile", figures, rows, receipt)
