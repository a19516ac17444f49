# SPDX-License-Identifier: Apache-2.0
"""Native kernels on one thread of this CPU, against ONNX Runtime and NumPy's BLAS.

Both sides alternate in one process, with arrays of the caller; ratios are their time over ours,
medians of several rounds. A figure `..._error` is the greatest difference of the results over the
greatest result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.benchmarks.cpu.bitserial import SIZES, measure_bitserial
from vdla.benchmarks.cpu.float32 import measure_fusion, measure_layers, measure_matmul
from vdla.benchmarks.cpu.int8 import measure_int8
from vdla.benchmarks.cpu.layers import layers
from vdla.benchmarks.harness import BenchmarkResult, Row, Section, host_receipt, joined, require_libraries
from vdla.compiler.target import host
from vdla.runtime.native import set_threads
from vdla.support.progress import Progress, ReportStep, numbered, silent

# Each section's measuring function, and the number of steps that it reports.
SECTIONS: tuple[tuple[Callable[[int, ReportStep], Section], int], ...] = (
    (measure_layers, len(layers())),
    (measure_int8, len(layers())),
    (measure_matmul, 1),
    (measure_fusion, len(layers())),
    (measure_bitserial, len(SIZES)),
)
_LIBRARIES = ("onnx", "onnxruntime", "threadpoolctl")


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Measure every section in sequence."""
    require_libraries("cpu", _LIBRARIES)
    step = numbered(progress, sum(steps for _, steps in SECTIONS))
    set_threads(1)
    try:
        measured = joined([measure(seed, step) for measure, _ in SECTIONS])
    finally:
        set_threads(0)
    step("done")
    figures = {name: round(value, 7) for name, value in measured.figures.items()}
    return BenchmarkResult("cpu", figures, measured.rows, receipt("cpu", seed, _LIBRARIES))


def receipt(name: str, seed: int, libraries: Sequence[str]) -> Row:
    """The receipt of a benchmark of kernels on one thread."""
    machine = host()
    target = {"cpu": machine.cpu, "vector_bytes": machine.vector_bytes}
    command = f"vdla bench {name} --seed {seed} --json -"
    return host_receipt(seed, command, ["llvmlite", *libraries], target=target, threads=1)
