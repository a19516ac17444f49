# SPDX-License-Identifier: Apache-2.0
"""A task whose costs take no time, a measurer that can misbehave, and a search in random order."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.tune import Knob, Point, Space, TuneError
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.tune import tune
from vdla.runtime.tune.workers import InlineWorkers


@dataclass(frozen=True)
class ToyTask:
    """Two knobs; the least cost, 100, is at a=5, b=7."""

    name: str = "toy"
    key: str = "0123456789abcdef"
    feature_names: tuple[str, ...] = ("a", "b")

    @property
    def space(self) -> Space:
        return Space("toy on paper", (Knob("a", tuple(range(16))), Knob("b", tuple(range(16)))))

    def of_log(self, point: Point) -> Point:
        """The same point."""
        return point

    def build(self, point: Point) -> Point:
        return point

    def draft(self, point: Point) -> Point:
        return point

    def overhead(self, point: Point) -> float:
        return 0.0

    def estimate(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.zeros(len(indices))

    def features(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.space.digits(indices).astype(np.float32)


@dataclass(frozen=True)
class ToyMeasurer:
    """Trials with these values of `a` end the process, never end, or are refused.

    A trial takes `busy_s`; a process writes its number to `pid_file` when it begins one. `lacking`
    is what every process lacks, or only the first that asks in the folder `once`.
    """

    unit: str = "cycles"
    most_workers: int | None = None
    dies: int = -1
    hangs: int = -1
    refused: int = -1
    busy_s: float = 0.0
    pid_file: str = ""
    lacking: str = ""
    once: str = ""

    def missing(self, task: ToyTask) -> str:
        if self.once:
            try:
                Path(self.once, "asked").touch(exist_ok=False)
            except FileExistsError:
                return ""
        return self.lacking

    def measure(self, task: ToyTask, point: Point) -> float:
        a, b = int(point["a"]), int(point["b"])
        if a == self.dies:
            os._exit(7)
        if a == self.hangs:
            time.sleep(600)
        if a == self.refused:
            raise TuneError(f"toy: a must not be {a}, got it")
        if self.pid_file:
            Path(self.pid_file).write_text(str(os.getpid()))
        time.sleep(self.busy_s)
        return 100.0 + (a - 5) ** 2 + (b - 7) ** 2


class ShuffledSearch:
    """All points in an order that the seed decides; keeps what it is told."""

    def __init__(self, task: ToyTask, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._points = [task.space.point(int(index)) for index in rng.permutation(task.space.size)]
        self.told: list[tuple[Point, float]] = []

    def propose(self, count: int) -> list[Point]:
        known = [dict(point) for point, _ in self.told]
        self._points = [point for point in self._points if point not in known]
        found, self._points = self._points[:count], self._points[count:]
        return found

    def tell(self, points: Sequence[Point], costs: Sequence[float]) -> None:
        self.told += zip(points, costs, strict=True)


def toy_run(seed: int = 0) -> TaskRun:
    """The run of a shuffled search on the toy task."""
    task = ToyTask()
    return TaskRun(task.key, task.name, "paper", task.space.name, "shuffled", seed)


def whole_toy_run(path: str | Path, measurer: ToyMeasurer) -> list[Point]:
    """A run over all 256 points in this process; those that it measured."""
    measured: list[Point] = []

    class Counting(InlineWorkers):
        def submit(self, number: int, point: Point) -> None:
            measured.append(point)
            super().submit(number, point)

    task = ToyTask()
    with TuningLog(path) as log:
        tune(task, ShuffledSearch(task), toy_run(), Counting(measurer), trials=256, log=log)
    return measured
