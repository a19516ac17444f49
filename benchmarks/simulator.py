# SPDX-License-Identifier: Apache-2.0
"""Speed of the simulator: an int8 GEMM 1024^3 on pynq_z1, against NumPy's float32 product.

NumPy uses one thread. Runs of both alternate, and their CPU time counts, so that other processes
disturb them little; each figure is a median over the rounds, and `ratio` is the median of the
ratios of each round. The receipt names the unit of the processor that multiplies. With
NUMBA_CPU_NAME=haswell and its features in NUMBA_CPU_FEATURES, such as +avx,+avx2,+fma, that is AVX2
on a processor that has more.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.random import default_rng

from vdla.benchmarks.harness import BenchmarkResult, Figures, receipt
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale, requantise
from vdla.hardware.program import Program
from vdla.simulator.function import dot_unit
from vdla.simulator.simulate import Mode, simulate
from vdla.support.arrays import Array
from vdla.support.errors import Error
from vdla.support.progress import Progress, numbered, silent
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

PRESET = "pynq_z1"
SIZE = 1024
ROWS, COLUMNS = 16, 8  # entries of a tile
ROUNDS = 7
SHIFT = 10


class BenchmarkError(Error, RuntimeError):
    """The result is not exact, so its speed is meaningless."""


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """The speed of function with timing, and of timing alone."""
    config = Config.preset(PRESET)
    program = gemm_program(GemmTiling(config, SIZE, SIZE, SIZE, ROWS, COLUMNS))
    arrays, expected = operands(config, seed)
    step = numbered(progress, ROUNDS + 1)
    step("compile the kernels")
    _check(program, arrays, expected)
    rows = []
    with one_thread():
        left, right = (default_rng(seed + i).random((SIZE, SIZE), np.float32) for i in range(2))
        for number in range(ROUNDS):
            step(f"round {number + 1}")
            rows.append(_round(program, arrays, left, right))
    step("done")
    figures = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    made = receipt(config, [program], seed, "vdla bench simulator --json -")
    return BenchmarkResult("simulator", figures, rows, {**made, "unit": dot_unit.UNIT})


def operands(config: Config, seed: int) -> tuple[dict[str, Array], Array]:
    """The packed inputs of the program, and the expected packed result from NumPy."""
    rng = default_rng(seed)
    bi, bo, batch = config.block_in, config.block_out, config.batch
    a, w = (rng.integers(-128, 128, (SIZE, SIZE), np.int8) for _ in range(2))
    scales = pack_scale(rng.integers(-(1 << 16), 1 << 16, SIZE), rng.integers(1, 1 << 10, SIZE), SHIFT + 10)
    sums = (a.astype(np.float64) @ w.astype(np.float64).T).astype(np.int32)
    out = requantise(sums, scales, 0, -128, 127)
    arrays = {
        "inp": np.ascontiguousarray(a.reshape(-1, batch, SIZE // bi, bi).transpose(0, 2, 1, 3)),
        "wgt": np.ascontiguousarray(w.reshape(-1, bo, SIZE // bi, bi).transpose(0, 2, 1, 3)),
        "scl": scales.view(np.int64).reshape(-1, bo),
    }
    return arrays, out.reshape(-1, batch, SIZE // bo, bo).transpose(0, 2, 1, 3)


def _check(program: Program, arrays: Mapping[str, Array], expected: Array) -> None:
    if not np.array_equal(simulate(program, arrays).outputs["out"], expected):
        raise BenchmarkError(f"benchmark simulator: result of {program.name} must equal numpy's, got another")


def _round(program: Program, arrays: Mapping[str, Array], left: Array, right: Array) -> Figures:
    gmac = SIZE**3 / 1e9
    start = time.process_time()
    result = simulate(program, arrays)
    middle = time.process_time()
    left @ right
    end = time.process_time()
    simulate(program, mode=Mode.TIMING)
    timed = time.process_time() - end
    figures = {"gmacs": gmac / (middle - start), "sgemm_gmacs": gmac / (end - middle)}
    figures["ratio"] = figures["gmacs"] / figures["sgemm_gmacs"]
    return {**figures, "timing_cycles_per_s": result.statistics.total_cycles / timed}


def one_thread() -> AbstractContextManager[Any]:
    """A context in which NumPy's matrix products use one thread."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError as error:
        raise BenchmarkError(
            "benchmark simulator: package threadpoolctl must be installed (extra dev), got none"
        ) from error
    context: AbstractContextManager[Any] = threadpool_limits(1)
    return context
