# SPDX-License-Identifier: Apache-2.0
"""Operators of networks at three sizes on one thread of this CPU, against ONNX Runtime.

Each is a model of one node in float32, with the weights constant. Both sides run in turns in one
process, with arrays that were bound before; a ratio is the time of ONNX Runtime over ours.
`error` is the greatest difference of the results over the greatest result, `geomean` and `worst`
are of all operators at all sizes, `below` counts ratios under 0.8.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vdla.benchmarks.cpu.benchmark import receipt
from vdla.benchmarks.harness import (
    ROUNDS,
    BenchmarkResult,
    Figures,
    Row,
    geomean,
    paired_times,
    require_libraries,
    subjects_of,
)
from vdla.benchmarks.kernels.operators import OPERATORS, Size, drawn_case
from vdla.benchmarks.kernels.sides import OurKernels, TheirKernels
from vdla.runtime.native import set_threads
from vdla.support.arrays import Array
from vdla.support.progress import Progress, numbered, silent

_LIBRARIES = ("onnx", "onnxruntime")
_BAR = 0.8


def run(progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = ()) -> BenchmarkResult:
    """Measure the operators `subjects`, or all.

    Raises:
        SubjectError: no such operator.
        LibraryError: ONNX Runtime is not installed.
    """
    names = subjects_of("kernels", "the operator", subjects, OPERATORS)
    require_libraries("kernels", _LIBRARIES)
    cases = [(name, size) for name in names for size in OPERATORS[name].sizes]
    step = numbered(progress, len(cases))
    rows: list[Row] = []
    set_threads(1)
    try:
        for name, size in cases:
            step(f"{name} {_text(size)}")
            rows.append(measure(name, size, seed))
    finally:
        set_threads(0)
    step("done")
    return BenchmarkResult("kernels", _figures(rows), rows, receipt("kernels", seed, _LIBRARIES))


def measure(name: str, size: Size, seed: int, rounds: int = ROUNDS) -> Row:
    """One operator at one size: microseconds of both sides, and the difference of results."""
    case = drawn_case(name, size, seed)
    ours, theirs = OurKernels(case), TheirKernels(case)
    times = paired_times(ours, theirs, rounds)
    return {
        "operator": name,
        "size": _text(size),
        "ours_us": round(times.ours * 1e6, 2),
        "theirs_us": round(times.theirs * 1e6, 2),
        "ratio": round(times.ratio, 3),
        "error": max(difference(np.asarray(a), b) for a, b in zip(ours.results, theirs.results, strict=True)),
    }


def _text(size: Size) -> str:
    return "x".join(map(str, size))


def difference(got: Array, expected: Array) -> float:
    """The greatest difference over the greatest expected value."""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    return float(f"{np.abs(a - b).max() / max(np.abs(b).max(), 1e-30):.2g}")


def _figures(rows: Sequence[Row]) -> Figures:
    ratios = [row["ratio"] for row in rows]
    return {
        "geomean": round(geomean(ratios), 4),
        "worst": min(ratios),
        "below": sum(ratio < _BAR for ratio in ratios),
        "error": max(row["error"] for row in rows),
    }
