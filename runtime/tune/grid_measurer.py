# SPDX-License-Identifier: Apache-2.0
"""Measures schedules of a grid: on a device, in turns with the default one, or by the model.

A device's own events time the kernels. A driver may crash or hang: `LocalWorkers` measures in a
process that it may kill.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.target import GridLimits
from vdla.compiler.tune import Point, TuningTask
from vdla.compiler.tune.grid import GridTask, modelled_cost
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.runtime.grid.protocol import DeviceArray
from vdla.runtime.grid.registry import build_on_grid, open_grid_device
from vdla.runtime.tune.cpu_measurer import arguments, check_equal
from vdla.runtime.tune.trial import CYCLES, SECONDS, TuningError
from vdla.support.errors import Error

_HOPELESS = 2.0  # times the default schedule, at which the first round is enough
_MOST_REPEATS = 64
_TASKS_KEPT = 2
MODEL_LIMITS = GridLimits("model", warp=32)
"""The limits of modelled costs: what GPUs have in common."""
MODEL_LIMITS_CUDA = replace(MODEL_LIMITS, tensor_cores=True)
"""Those of NVIDIA's GPUs from capability 8.0 on."""


@dataclass(frozen=True, slots=True)
class GridMeasurer:
    """Schedules of a task on the device that a target names, as "opencl": seconds of one run.

    A cost is the median of `rounds` ratios to the default schedule, in each of which both run for
    at least `round_s`, times the seconds of the default one when the process first ran it.
    """

    target: str = "opencl"
    rounds: int = 7
    round_s: float = 0.004
    seed: int = 0
    unit: str = SECONDS
    most_workers: int | None = 1

    def missing(self, task: TuningTask) -> str:
        """Why the device does not run the task."""
        limits = grid_task_of(task).limits
        try:
            device_limits = open_grid_device(self.target).limits
        except Error as error:
            return str(error).removeprefix(f"{self.target.partition(':')[0]}: ")
        return "" if device_limits == limits else f"device must have {limits}, got {device_limits}"

    def measure(self, task: TuningTask, point: Point) -> float:
        """The seconds of a point.

        Raises:
            Error: the schedule is illegal, or the device refuses it.
            TuningError: its results differ from those of the default schedule.
        """
        default = _default(grid_task_of(task), self.target, self.seed)
        call = default.candidate(point)
        ratios: list[float] = []
        for turn in range(self.rounds):
            works = (default.call, call) if turn % 2 else (call, default.call)
            seconds = {work: work.mean_seconds(self.round_s) for work in works}
            ratios.append(seconds[call] / seconds[default.call])
            if ratios[0] > _HOPELESS:
                break
        return default.seconds * statistics.median(ratios)


@dataclass(frozen=True, slots=True)
class GridModelMeasurer:
    """Cycles of the lowered kernels by the cost model; no device runs anything."""

    unit: str = CYCLES
    most_workers: int | None = None

    def missing(self, task: TuningTask) -> str:
        """Nothing."""
        return ""

    def measure(self, task: TuningTask, point: Point) -> float:
        """The modelled cycles of a point; Error if the schedule is illegal."""
        known = grid_task_of(task)
        return modelled_cost(known.build(point), known.limits)


class _Call:
    """A kernel with its arrays on the device."""

    def __init__(self, kernel: DeviceKernel, arrays: list[DeviceArray]) -> None:
        self._stream = kernel.device.default_stream
        self._run = kernel.bind(self._stream, arrays)
        self.seconds(1)  # the first run of a kernel may finish its compilation

    def seconds(self, repeats: int) -> float:
        """The mean time of some runs."""
        start = self._stream.record()
        for _ in range(repeats):
            self._run()
        end = self._stream.record()
        self._stream.synchronize()
        return max(end.seconds_since(start), 1e-9) / repeats

    def mean_seconds(self, least_s: float) -> float:
        """The mean time of as many runs as take `least_s` together, after one to warm up."""
        once = self.seconds(1)
        return self.seconds(min(max(1, round(least_s / once)), _MOST_REPEATS))


class _Default:
    """The default schedule of a task with its arrays, results and seconds."""

    def __init__(self, task: GridTask, target: str, seed: int) -> None:
        self._task, self._target = task, target
        kernel = self._kernel(task.default)
        self._stream = kernel.device.default_stream
        inputs = iter(arguments(kernel, {}, seed))
        self._arrays = [
            kernel.device.empty(argument.static or (), argument.dtype)
            if argument.output
            else self._stream.upload(next(inputs))
            for argument in kernel.signature.arguments
        ]
        self._outputs = [n for n, argument in enumerate(kernel.signature.arguments) if argument.output]
        self.call = _Call(kernel, self._arrays)
        self._results = self._downloaded()
        self.seconds = statistics.median(self.call.seconds(1) for _ in range(5))

    def candidate(self, point: Point) -> _Call:
        """The kernel of a point, on the same arrays; it has run once."""
        call = _Call(self._kernel(point), self._arrays)
        for output, expected in zip(self._downloaded(), self._results, strict=True):
            check_equal(self._task.name, output, expected)
        return call

    def _kernel(self, point: Point) -> DeviceKernel:
        return build_on_grid(self._task.build(point), self._target)

    def _downloaded(self) -> list[NDArray[Any]]:
        return [np.array(self._stream.download(self._arrays[n])) for n in self._outputs]


@lru_cache(_TASKS_KEPT)
def _default(task: GridTask, target: str, seed: int) -> _Default:
    return _Default(task, target, seed)


def grid_task_of(task: TuningTask) -> GridTask:
    """The task, which must be of a grid.

    Raises:
        TuningError: it is not.
    """
    if not isinstance(task, GridTask):
        raise TuningError(f"tune {task.name}: task must be a function for a grid, got a {type(task).__name__}")
    return task
