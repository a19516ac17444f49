"""Features for the cost model of the tuner, for every candidate of some layers, on one core.

`per_s` counts candidates a second of the processor's time, over all layers, estimates included, but
not the coarse run of the best ones, which a task makes once.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, receipt
from vdla.compiler.operators.workloads import workload
from vdla.compiler.tune import layer_task
from vdla.hardware.config import Config
from vdla.support.progress import Progress, silent

LAYERS = ("C2", "C5", "C8", "C12", "D6", "CT2")
_REPEATS = 3
_MOST = 20_000  # candidates of a layer


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Features of every layer's candidates, or of a sample of them."""
    config, rows = Config.preset("pynq_z1"), []
    for number, name in enumerate(LAYERS):
        progress(name, number, len(LAYERS))
        rows.append(_row(name, config, seed))
    progress("done", len(LAYERS), len(LAYERS))
    candidates, seconds = (sum(row[key] for row in rows) for key in ("candidates", "seconds"))
    figures = {"per_s": round(candidates / seconds), "features": rows[0]["features"]}
    return BenchmarkResult(
        "features", figures, rows, receipt(config, [], seed, f"vdla bench features --seed {seed} --json -")
    )


def _row(name: str, config: Config, seed: int) -> dict[str, Any]:
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
