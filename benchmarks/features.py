# SPDX-License-Identifier: Apache-2.0
"""Features for the cost model of the tuner, for every candidate of some layers, on one core.

`per_s` counts candidates a second of the processor's time, over all layers, estimates included, but
not the coarse run of the best ones, which a task makes once.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Row, receipt, total
from vdla.compiler.operators.workloads import workload
from vdla.compiler.tune import layer_task
from vdla.hardware.config import Config
from vdla.support.progress import Progress, silent, steps

LAYERS = ("C2", "C5", "C8", "C12", "D6", "CT2")
_REPEATS = 3
_MOST = 20_000  # candidates of a layer


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Features of every layer's candidates, or of a sample of them."""
    config = Config.preset("pynq_z1")
    rows = [_row(name, config, seed) for name in steps(progress, LAYERS)]
    figures = {"per_s": round(total(rows, "candidates") / total(rows, "seconds")), "features": rows[0]["features"]}
    command = f"vdla bench features --seed {seed} --json -"
    return BenchmarkResult("features", figures, rows, receipt(config, [], seed, command))


def _row(name: str, config: Config, seed: int) -> Row:
    """The median time of one layer."""
    task = layer_task(workload(name), config)
    indices = task.space.sample_indices(np.random.default_rng(seed), _MOST)
    times = []
    for _ in range(_REPEATS):
        start = time.process_time()
        features = task.features(indices)
        times.append(time.process_time() - start)
    seconds = statistics.median(times)
    return {
        "layer": name,
        "candidates": len(indices),
        "features": features.shape[1],
        "seconds": seconds,
        "per_s": round(len(indices) / seconds),
    }
