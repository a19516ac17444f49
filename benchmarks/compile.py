"""Compile time on one core: ResNet-18's convolutions for the accelerator and for this CPU, and a
dense layer of a hundred thousand instructions and more.

The accelerator's includes verification. `native_conv2d_seconds` is the median over C1 to C12 of the
time from tensor expression to machine code. `large_dense_seconds` is from the template to the
verified program. `ms_per_trial` is the CPU time of a tuner's trial, from a point to its cycles, at
the lowest estimates of C2 to C12, and `ms_per_random_trial` that at random points.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from vdla.benchmarks.harness import BenchmarkResult, Progress, receipt, silent
from vdla.benchmarks.layers import PRESET
from vdla.benchmarks.native_compile import WARM_UP, convolutions, native_seconds
from vdla.benchmarks.trial_time import trial_time
from vdla.compiler.operators.workloads import Workload, resnet18_layers
from vdla.compiler.templates import dense
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.simulator.verify import verify


def large_dense(config: Config) -> tuple[Program, float]:
    """The program of the large dense layer, and the seconds from the template to its verdict."""
    start = time.perf_counter()
    program = dense(config, rows=2048, in_features=4096, out_features=4096).program
    verify(program).raise_if_bad()
    return program, time.perf_counter() - start


def compile_and_verify(layer: Workload, config: Config) -> tuple[Program, float, float]:
    """The program and the seconds it took to compile it and to verify it."""
    start = time.perf_counter()
    program = layer_operator(layer, config, 2).program
    middle = time.perf_counter()
    verify(program).raise_if_bad()
    return program, middle - start, time.perf_counter() - middle


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Each layer once, in this process, after imports and warm-up."""
    config = Config.preset(PRESET)
    layers = resnet18_layers()
    total = 2 * len(layers) + 1 + len(convolutions())
    compile_and_verify(WARM_UP, config)  # loads the simulator's compiled kernels
    rows: list[dict[str, Any]] = []
    programs = []
    for index, layer in enumerate(layers):
        progress(layer.name, index, total)
        program, compile_s, verify_s = compile_and_verify(layer, config)
        programs.append(program)
        seconds = {"compile_seconds": round(compile_s, 4), "verify_seconds": round(verify_s, 4)}
        rows.append({"layer": layer.name, **seconds, "instructions": len(program)})
    progress("large dense", len(layers), total)
    program, large_s = large_dense(config)
    programs.append(program)
    trials = []
    for index, layer in enumerate(layers, start=len(layers) + 1):
        progress(f"{layer.name} trials", index, total)
        trials.append(trial_time(layer, config, seed))
    done = iter(range(2 * len(layers) + 1, total))
    native = native_seconds(lambda what: progress(what, next(done), total))
    progress("done", total, total)
    names = ("compile_seconds", "verify_seconds")
    compile_seconds, verify_seconds = (sum(row[name] for row in rows) for name in names)
    figures = {
        "seconds": round(compile_seconds + verify_seconds, 3),
        "compile_seconds": round(compile_seconds, 3),
        "verify_seconds": round(verify_seconds, 3),
        "large_dense_seconds": round(large_s, 3),
        "ms_per_trial": round(statistics.fmean(trial.low_estimate_ms for trial in trials), 1),
        "ms_per_random_trial": round(statistics.fmean(trial.random_ms for trial in trials), 1),
        "native_conv2d_seconds": round(statistics.median(native.values()), 3),
        "native_conv2d_worst_seconds": round(max(native.values()), 3),
    }
    rows = [
        {**row, "native_seconds": round(native[row["layer"]], 3), "trial_ms": round(trial.low_estimate_ms, 1)}
        for row, trial in zip(rows, trials, strict=True)
    ]
    made = receipt(config, programs, seed, f"vdla bench compile --seed {seed} --json -")
    return BenchmarkResult("compile", figures, rows, made)
