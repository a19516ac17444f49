# SPDX-License-Identifier: Apache-2.0
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
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, receipt, total
from vdla.benchmarks.layers import PRESET
from vdla.compiler import te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.operators import plan_convolution
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.workloads import SELF_TEST, Workload, resnet18_layers, workload
from vdla.compiler.templates import dense
from vdla.compiler.tune import Point, VdlaTask, layer_task
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.runtime.tune.measurer import SimMeasurer
from vdla.simulator.verify import verify
from vdla.support.progress import Progress, ReportStep, numbered, silent


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
    step = numbered(progress, 2 * len(layers) + 1 + len(convolutions()))
    compile_and_verify(WARM_UP, config)  # loads the simulator's compiled kernels
    rows: list[Row] = []
    programs, trials = [], []
    for layer in layers:
        step(layer.name)
        program, compile_s, verify_s = compile_and_verify(layer, config)
        programs.append(program)
        seconds = {"compile_seconds": round(compile_s, 4), "verify_seconds": round(verify_s, 4)}
        rows.append({"layer": layer.name, **seconds, "instructions": len(program)})
    step("large dense")
    program, large_s = large_dense(config)
    programs.append(program)
    for layer in layers:
        step(f"{layer.name} trials")
        trials.append(trial_time(layer, config, seed))
    native = native_seconds(step)
    step("done")
    compile_seconds, verify_seconds = total(rows, "compile_seconds"), total(rows, "verify_seconds")
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


# --- native kernels -------------------------------------------------------------------------------
# Compile time of native kernels, C1 to C12: from tensor expression to object, in CPU seconds.


# Pays for LLVM's start-up; no measured layer, so that none of them finds anything in a cache.
WARM_UP = replace(SELF_TEST, name="warm_up", height=9, width=9, in_channels=16, out_channels=16)


def convolutions() -> list[Workload]:
    """The measured layers."""
    return [workload("C1"), *resnet18_layers()]


def native_seconds(step: ReportStep) -> Figures:
    """The CPU seconds of each layer, without the object cache."""
    _compile_seconds(WARM_UP)
    seconds = {}
    for layer in convolutions():
        step(f"{layer.name} native")
        seconds[layer.name] = _compile_seconds(layer)
    return seconds


def _compile_seconds(layer: Workload) -> float:
    """The CPU seconds from the tensor expression to an object file."""
    start = time.process_time()
    data = (layer.batch, layer.in_channels, layer.height, layer.width)
    weight = (layer.out_channels, layer.in_channels, layer.kernel, layer.kernel)
    plan = plan_convolution(data, weight, layer.strides, layer.pads)
    x, w = te.placeholder(data, "float32", "x"), plan.weight("w")
    fn = te.create_function([x, w], [plan.apply(x, w, name="y")], layer.name)
    compile_native(default_schedule(fn).fn, cached=False)
    return time.process_time() - start


# --- trials ---------------------------------------------------------------------------------------
# The CPU time of a trial of a tuner on the accelerator: from a point to the cycles of its program.
#
# A search begins at low estimates and ends near good points; random points, of small tiles and many
# instructions, take longer. Both are timed.


POINTS = 4
"""Trials of each kind on a layer."""


class TrialTime(NamedTuple):
    """The mean CPU milliseconds of trials at the lowest estimates, and of random ones."""

    low_estimate_ms: float
    random_ms: float


def trial_time(layer: Workload, config: Config, seed: int) -> TrialTime:
    """The times on a layer, after a trial that is not timed."""
    task = layer_task(layer, config)
    estimates = task.estimate(np.arange(task.space.size))
    best = [task.space.point(int(index)) for index in np.argsort(estimates, kind="stable")[:POINTS]]
    drawn = task.space.sample(np.random.default_rng(seed), POINTS)
    SimMeasurer().measure(task, best[0])
    return TrialTime(_mean_ms(task, best), _mean_ms(task, drawn))


def _mean_ms(task: VdlaTask, points: list[Point]) -> float:
    start = time.process_time()
    for point in points:
        SimMeasurer().measure(task, point)
    return 1e3 * (time.process_time() - start) / len(points)
