"""Native kernels on one thread of this CPU, against ONNX Runtime and NumPy's BLAS.

Both sides alternate in one process, with arrays of the caller; ratios are their time over ours,
medians of several rounds. A figure `..._error` is the greatest difference of the results over the
greatest result.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from vdla.benchmarks.cpu.bitserial import SIZES, measure_bitserial
from vdla.benchmarks.cpu.float32 import measure_fusion, measure_layers, measure_matmul
from vdla.benchmarks.cpu.int8 import measure_int8
from vdla.benchmarks.cpu.layers import layers
from vdla.benchmarks.cpu.section import ReportStep, Section
from vdla.benchmarks.harness import BenchmarkResult, installed_version, versions
from vdla.compiler.target import host
from vdla.runtime.native import set_threads
from vdla.support.errors import Error
from vdla.support.processor import cpu_model
from vdla.support.progress import Progress, silent

# Each section's measuring function, and the number of steps that it reports.
SECTIONS: tuple[tuple[Callable[[int, ReportStep], Section], int], ...] = (
    (measure_layers, len(layers())),
    (measure_int8, len(layers())),
    (measure_matmul, 1),
    (measure_fusion, len(layers())),
    (measure_bitserial, len(SIZES)),
)
_LIBRARIES = ("onnx", "onnxruntime", "threadpoolctl")


class CpuError(Error, RuntimeError):
    """A library to compare with is missing."""


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Measure every section in sequence."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise CpuError(f'bench cpu: {", ".join(missing)} must be installed, got none (pip install "vdla[dev]")')
    total = sum(steps for _, steps in SECTIONS)
    done = iter(range(total))
    set_threads(1)
    try:
        sections = [measure(seed, lambda what: progress(what, next(done), total)) for measure, _ in SECTIONS]
    finally:
        set_threads(0)
    progress("done", total, total)
    figures = {name: round(value, 7) for section in sections for name, value in section.figures.items()}
    return BenchmarkResult(
        "cpu", figures, [one.row for section in sections for one in section.measurements], receipt(seed)
    )


def receipt(seed: int) -> dict[str, Any]:
    """Everything the figures depend on except the speed of the machine."""
    machine = host()
    return {
        "versions": versions() | {name: installed_version(name) or "absent" for name in ("llvmlite", *_LIBRARIES)},
        "cpu": cpu_model(),
        "target": {"cpu": machine.cpu, "vector_bytes": machine.vector_bytes},
        "threads": 1,
        "seed": seed,
        "command": f"vdla bench cpu --seed {seed} --json -",
    }
