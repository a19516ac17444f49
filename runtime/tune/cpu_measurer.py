# SPDX-License-Identifier: Apache-2.0
"""Measures CPU kernels: a point and the default schedule alternate in one process.

Other programs slow both alike, so a cost is the ratio of their times, multiplied by the time of the
default schedule when the process first ran it. Results are compared with those of the default
schedule. A kernel may crash or hang: `LocalWorkers` measures in processes that it may kill.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.abi.signature import Argument
from vdla.compiler.target import host
from vdla.compiler.tune import CpuTask, KnobTask, Point, TuningTask
from vdla.compiler.tune.cpu_forms import CpuForm
from vdla.runtime.executor.artifact import aligned_bytes
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.runtime.native import BoundCall, Kernel, build, set_threads
from vdla.runtime.tune.trial import SECONDS, TuningError
from vdla.support.parallel import processors

Arrays = list[NDArray[Any]]
Clock = Callable[[], float]

TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""The greatest difference of results by their dtype, of the largest result; integers are equal."""
_HOPELESS = 1.5  # times the default schedule, at which the first round is enough
_SHORTER = 4  # rounds on several threads, and as many times more of them
_TASKS_KEPT = 2


KernelTask = CpuTask | KnobTask
"""Tasks that build functions for a CPU; a `KnobTask` may build programs as well."""


@dataclass(frozen=True, slots=True)
class CpuMeasurer:
    """Kernels of a task on this CPU: seconds of one run on `threads` threads of the pool.

    A cost is the median of `rounds`, in each of which both kernels run for at least `round_s`. The
    process stays on as many processors as there are threads. Times of one thread are CPU times. On
    several, a program that takes one of their processors slows a round many times over; so there
    are more and shorter rounds, and the least time of each kernel counts.
    """

    rounds: int = 5
    round_s: float = 0.002
    threads: int = 1
    seed: int = 0
    unit: str = SECONDS
    most_workers: int | None = 1

    def missing(self, task: TuningTask) -> str:
        """What this CPU lacks to run the kernels of a task."""
        lacking = sorted(_cpu_task(task).target.features - host().features)
        if lacking:
            return f"processor must have {lacking[0]}, got none"
        count = processors()
        return f"threads must be at most the {count} processors, got {self.threads}" if self.threads > count else ""

    def measure(self, task: TuningTask, point: Point) -> float:
        """The seconds of a point.

        Raises:
            OperatorError: the point is not legal.
            TuningError: its results differ from those of the default schedule.
        """
        with _one_program(self.threads) as clock:
            default = _default(_cpu_task(task), self.seed, clock)
            return default.seconds * self._ratio(default, point, clock)

    def ratio(self, task: TuningTask, point: Point) -> float:
        """The time of a point over that of the default schedule; raises as `measure` does."""
        with _one_program(self.threads) as clock:
            return self._ratio(_default(_cpu_task(task), self.seed, clock), point, clock)

    def _ratio(self, default: _Default, point: Point, clock: Clock) -> float:
        works = default.call, default.candidate(point)
        if self.threads > 1:
            times = list(_rounds(works, self.rounds * _SHORTER, self.round_s / _SHORTER, clock))
            return min(seconds for _, seconds in times) / min(usual for usual, _ in times)
        ratios: list[float] = []
        for usual, seconds in _rounds(works, self.rounds, self.round_s, clock):
            ratios.append(seconds / usual)
            if ratios[0] > _HOPELESS:
                break
        return statistics.median(ratios)


class _Default:
    """The default schedule of a task with arguments, its results and its seconds."""

    def __init__(self, task: KernelTask, seed: int, clock: Clock) -> None:
        self._task, self._seed = task, seed
        self._inputs: dict[CpuForm, Arrays] = {}  # shared, since where arrays lie changes times
        self._outputs: Arrays = []
        self.call = self._bound(task.default)
        self.call()
        self._results = [output.copy() for output in self._outputs]
        self.seconds = min(_seconds(self.call, 1, clock) for _ in range(5))

    def candidate(self, point: Point) -> BoundCall:
        """The kernel of a point, which writes the same arrays as that of the default schedule."""
        call = self._bound(point)
        call()
        for output, expected in zip(self._outputs, self._results, strict=True):
            check_equal(self._task.name, output, expected)
        return call

    def _bound(self, point: Point) -> BoundCall:
        form, built = self._task.form(point), self._task.build(point)
        assert isinstance(built, ir.Function)  # or `form` had refused it
        kernel = build(built, self._task.target, cached=False)
        if form not in self._inputs:
            self._inputs[form] = arguments(kernel, form.constants, self._seed)
        if not self._outputs:
            self._outputs = [_zeros(argument) for argument in kernel.signature.outputs]
        return kernel.bind(*self._inputs[form], out=self._outputs)


@lru_cache(_TASKS_KEPT)
def _default(task: KernelTask, seed: int, clock: Clock) -> _Default:
    return _Default(task, seed, clock)


def arguments(kernel: Kernel | DeviceKernel, constants: Mapping[str, NDArray[Any]], seed: int) -> Arrays:
    """Constants where a parameter has one, else random values, the same for a name and shape.

    Floats are normally distributed, integers uniform over those of 8 bits. Arrays are aligned as
    those of compiled networks.
    """
    result = []
    for argument in kernel.signature.inputs:
        array = _zeros(argument)
        array[...] = constants[argument.name] if argument.name in constants else _random(argument, seed)
        result.append(array)
    return result


def _zeros(argument: Argument) -> NDArray[Any]:
    """An aligned array for an argument."""
    if argument.static is None:
        raise TuningError(f"tune: {argument.name} must have known extents, got {list(argument.shape)}")
    kind = np.dtype(argument.dtype)
    return aligned_bytes(prod(argument.static) * kind.itemsize).view(kind).reshape(argument.static)


def _random(argument: Argument, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng([seed, *argument.name.encode()])
    kind = np.dtype(argument.dtype)
    if kind.kind == "f":
        return rng.standard_normal(argument.static).astype(kind)
    low, high = (0, 256) if kind.kind == "u" else (-128, 128)
    return rng.integers(low, high, argument.static).astype(kind)


def check_equal(name: str, output: NDArray[Any], expected: NDArray[Any]) -> None:
    """Refuse results beyond the tolerance of their dtype."""
    if output.dtype.name not in TOLERANCES:
        if not np.array_equal(output, expected):
            count = np.count_nonzero(output != expected)
            raise TuningError(f"tune {name}: results must equal those of the default schedule, got {count} others")
        return
    largest, most = float(np.abs(expected).max()), TOLERANCES[output.dtype.name]
    error = float(np.abs(output - expected).max()) / (largest or 1.0)
    if not error <= most:
        rule = f"results must be within {most:g} of the largest"
        raise TuningError(f"tune {name}: {rule}, got a difference of {error:.2g} of it")


def _rounds(works: Sequence[BoundCall], rounds: int, round_s: float, clock: Clock) -> Iterator[tuple[float, float]]:
    """The mean times of two calls in each round; they take turns to be first."""
    repeats = [max(1, round(round_s / max(_seconds(work, 1, clock), 1e-9))) for work in works]
    for turn in range(rounds):
        order = (0, 1) if turn % 2 else (1, 0)
        times = {place: _seconds(works[place], repeats[place], clock) for place in order}
        yield times[0], times[1]


@contextmanager
def _one_program(threads: int) -> Iterator[Clock]:
    """The clock for kernels on some threads, in a process that stays on as many processors.

    The threads of the pool, which its first parallel loop starts, inherit them.
    """
    pinned = hasattr(os, "sched_setaffinity")
    before = os.sched_getaffinity(0) if pinned else set()
    if pinned:
        os.sched_setaffinity(0, set(sorted(before)[:threads]))
    set_threads(threads)
    try:
        yield time.process_time if threads == 1 else time.perf_counter
    finally:
        set_threads(0)
        if pinned:
            os.sched_setaffinity(0, before)


def _seconds(work: Callable[[], object], repeats: int, clock: Clock) -> float:
    """The mean time of a run."""
    start = clock()
    for _ in range(repeats):
        work()
    return (clock() - start) / repeats


def _cpu_task(task: TuningTask) -> KernelTask:
    if not isinstance(task, KernelTask):
        raise TuningError(f"tune {task.name}: task must be a kernel for CPUs, got a {type(task).__name__}")
    return task
