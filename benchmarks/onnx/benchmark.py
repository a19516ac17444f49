"""ONNX's backend test suite: node tests passed, failed, and declined with a reason.

The figures count the node tests of the installed `onnx`; the models that it brings are counted
apart. `declined` are models that the importer refuses, with the reason for each of their nodes;
`incomparable` are cases whose expectation is random, or beyond the suite's own comparison.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

from vdla.benchmarks.harness import BenchmarkResult, installed_version, versions
from vdla.benchmarks.onnx.cases import SuiteOutcome, SuiteVerdict, case_names, run_case
from vdla.support.processor import cpu_model
from vdla.support.progress import Progress, silent

_WORKERS = 2
_BATCH = 64

_Case = tuple[str, str]


def run(
    progress: Progress = silent, seed: int = 0, cases: Sequence[_Case] | None = None, workers: int = _WORKERS
) -> BenchmarkResult:
    """Runs all cases in `workers` processes; 0 runs them in this one. The seed decides nothing."""
    chosen = case_names() if cases is None else tuple(cases)
    outcomes: list[SuiteOutcome] = []
    progress("start", 0, len(chosen))
    for batch in _batches(chosen, workers):
        outcomes += batch
        progress(f"{_count(outcomes, SuiteVerdict.FAILED)} failed", len(outcomes), len(chosen))
    nodes = [outcome for outcome in outcomes if outcome.category == "node"]
    models = [outcome for outcome in outcomes if outcome.category != "node"]
    figures: dict[str, float] = {verdict.value: _count(nodes, verdict) for verdict in SuiteVerdict}
    figures |= {"cases": len(nodes), "passed_share": _count(nodes, SuiteVerdict.PASSED) / max(len(nodes), 1)}
    figures |= {f"models_{verdict.value}": _count(models, verdict) for verdict in SuiteVerdict}
    rows = [
        {"case": outcome.name, "verdict": outcome.verdict.value, "reason": outcome.text}
        for outcome in outcomes
        if outcome.verdict is not SuiteVerdict.PASSED
    ]
    found = {**versions(), "onnx": installed_version("onnx") or "absent"}
    made = {"versions": found, "cpu": cpu_model(), "seed": seed, "command": "vdla bench onnx --json -"}
    return BenchmarkResult("onnx", figures, rows, made)


def _count(outcomes: Iterable[SuiteOutcome], verdict: SuiteVerdict) -> int:
    return Counter(outcome.verdict for outcome in outcomes)[verdict]


def _batches(cases: Sequence[_Case], workers: int) -> Iterable[list[SuiteOutcome]]:
    batches = [cases[start : start + _BATCH] for start in range(0, len(cases), _BATCH)]
    if not workers:
        yield from map(_run_batch, batches)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_run_batch, batches)


def _run_batch(cases: Sequence[_Case]) -> list[SuiteOutcome]:
    return [run_case(*case) for case in cases]
