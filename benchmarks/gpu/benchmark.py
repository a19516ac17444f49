# SPDX-License-Identifier: Apache-2.0
"""GPU kernels: random schedules on threads and devices, planted races, operators, speed."""

from __future__ import annotations

from vdla.benchmarks.gpu.cuda import cuda_figures
from vdla.benchmarks.gpu.device import device_figures
from vdla.benchmarks.gpu.ptx import ptx_figures
from vdla.benchmarks.harness import BenchmarkResult, Figures, host_receipt
from vdla.support.progress import Progress
from vdla.verification.grid.races import RANDOM, RaceCounts, count_races
from vdla.verification.grid.scheduled import GridCases, grid_cases

CASES, CASES_LONG = 300, 5_200  # six of ten are accepted
PLANTED = 300
RANDOM_KERNELS = 2_000
_WORKERS = 2


def run(
    progress: Progress,
    seed: int = 0,
    long: bool = False,
    cases: int | None = None,
    planted: int = PLANTED,
    random_kernels: int = RANDOM_KERNELS,
    workers: int = _WORKERS,
) -> BenchmarkResult:
    """Plants defects in cooperative kernels, draws random ones, and schedules random functions.

    On a device, runs operators and times a product; reads the PTX of a product on tensor cores.
    """
    races = count_races(progress, seed, planted, random_kernels)
    count = (CASES_LONG if long else CASES) if cases is None else cases
    scheduled = grid_cases(progress, seed, count, workers)
    measured, device = device_figures(progress, seed)
    on_cuda, cuda = cuda_figures(progress, seed)
    written, assembled = ptx_figures()
    rows = [{"defect": kind, "planted": n, "refused": races.refused[kind]} for kind, n in sorted(races.planted.items())]
    command = f"vdla bench gpu{' --long' if long else ''} --seed {seed}"
    receipt = host_receipt(seed, command, device=device, cuda=cuda, ptxas=assembled) | {
        "died": sorted(scheduled.died),
        "miscompiled": sorted(scheduled.miscompiled),
        "wrong": {str(case): fault[:200] for case, fault in scheduled.wrong.items()},
    }
    figures = {**_case_figures(scheduled), **_race_figures(races), **measured, **on_cuda, **written}
    return BenchmarkResult("gpu", figures, rows, receipt)


def _case_figures(cases: GridCases) -> Figures:
    """Random schedules of random functions."""
    return {
        "cases": cases.cases,
        "cases_on_device": cases.on_device,
        "cases_died": len(cases.died),
        "cases_miscompiled": len(cases.miscompiled),
        "cases_of_several_threads": cases.several_threads,
        "cases_with_barriers": cases.with_barriers,
        "cases_refused": cases.refused,
        "disagreements": len(cases.wrong),
    }


def _race_figures(races: RaceCounts) -> Figures:
    """Planted races, and random kernels."""
    return {
        "races_planted": races.planted.total() - races.planted[RANDOM],
        "races_refused": races.refused.total() - races.refused[RANDOM],
        "faulty_random_kernels": races.planted[RANDOM],
        "missed": races.planted.total() - races.refused.total(),
        "clean_kernels": races.clean,
        "false_alarms": races.false_alarms,
    }
