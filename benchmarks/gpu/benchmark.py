"""GPU kernels: planted races and parting barriers are refused, and nothing else."""

from __future__ import annotations

from vdla.benchmarks.gpu.races import RANDOM, count_races
from vdla.benchmarks.harness import BenchmarkResult, Progress, versions
from vdla.support.processor import cpu_model

PLANTED = 300
RANDOM_KERNELS = 2000


def run(
    progress: Progress, seed: int = 0, planted: int = PLANTED, random_kernels: int = RANDOM_KERNELS
) -> BenchmarkResult:
    """Plants defects in cooperative kernels; draws random ones."""
    counts = count_races(progress, seed, planted, random_kernels)
    figures = {
        "races_planted": counts.planted.total() - counts.planted[RANDOM],
        "races_refused": counts.refused.total() - counts.refused[RANDOM],
        "faulty_random_kernels": counts.planted[RANDOM],
        "missed": counts.planted.total() - counts.refused.total(),
        "clean_kernels": counts.clean,
        "false_alarms": counts.false_alarms,
    }
    rows = [
        {"defect": kind, "planted": n, "refused": counts.refused[kind]} for kind, n in sorted(counts.planted.items())
    ]
    receipt = {"versions": versions(), "cpu": cpu_model(), "seed": seed, "command": f"vdla bench gpu --seed {seed}"}
    return BenchmarkResult("gpu", figures, rows, receipt)
