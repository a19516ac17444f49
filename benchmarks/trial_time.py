"""The CPU time of a trial of a tuner on the accelerator: from a point to the cycles of its program.

A search begins at low estimates and ends near good points; random points, of small tiles and many
instructions, take longer. Both are timed.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from vdla.compiler.operators.workloads import Workload
from vdla.compiler.tune import Point, VdlaTask, layer_task
from vdla.hardware.config import Config
from vdla.runtime.tune.measurer import SimMeasurer

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
