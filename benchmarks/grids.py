# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX under all options, compiled and compared with ONNX Runtime and onnx.reference.

Those of QONNX are compared with a naive model of their definition.

Each version of each operator is drawn so many times: types, ranks, extents, attributes, absent
inputs, and how the model holds them. `wrong` differs from the references; `crashed` ends with an
error that is not one of the toolkit's, or kills its process; `refused` is refused although a
reference computes it. `set_aside` are cases whose references disagree, or that none computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from vdla.benchmarks.harness import BenchmarkResult, Figures, host_receipt, require_libraries, subjects_of
from vdla.support.progress import Progress, silent
from vdla.verification.grids.cases import DRAFTERS, Grid
from vdla.verification.grids.judge import GridOutcome, GridVerdict, died, judge_places
from vdla.verification.isolated_batches import run_batches

COUNT = 16
"""Cases of a version of an operator."""
_WORKERS = 2
_BATCH = 60


def run(
    progress: Progress = silent,
    seed: int = 0,
    subjects: Sequence[str] = (),
    count: int = COUNT,
    workers: int = _WORKERS,
) -> BenchmarkResult:
    """Judges `count` cases of each version of the operators `subjects`, by default of all."""
    require_libraries("grids", ("onnxruntime",))
    operators = subjects_of("grids", "operator", subjects, DRAFTERS)
    grid = Grid(tuple(operators), seed, count)
    places = range(len(grid))
    batches = [places[start : start + _BATCH] for start in range(0, len(places), _BATCH)]
    progress("start", 0, len(places))
    outcomes: list[GridOutcome] = []
    for done in run_batches(batches, workers, partial(judge_places, grid), partial(died, grid)):
        outcomes += done
        progress(f"{sum(outcome.is_fault for outcome in outcomes)} faults", len(outcomes), len(places))
    rows = [_row(name, [item for item in outcomes if item.operator == name]) for name in operators]
    counts = Counter(outcome.verdict for outcome in outcomes)
    figures: Figures = {"operators": len(operators), "cases": len(outcomes)}
    figures |= {verdict.value: counts[verdict] for verdict in GridVerdict}
    command = " ".join(["vdla bench grids", *subjects, f"--seed {seed} --json -"])
    return BenchmarkResult("grids", figures, rows, host_receipt(seed, command, ["onnx", "onnxruntime"]))


def _row(name: str, outcomes: Sequence[GridOutcome]) -> dict[str, object]:
    """The counts of an operator, with its faults."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    faults = [f"{item.verdict.value}: {item.text}" for item in outcomes if item.is_fault]
    row: dict[str, object] = {"operator": name, "cases": len(outcomes)}
    return row | {verdict.value: counts[verdict] for verdict in GridVerdict} | {"faults": faults}
