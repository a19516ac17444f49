# SPDX-License-Identifier: Apache-2.0
"""Workers: processes that measure points. One that dies or hangs costs its trial, not the run.

Results come in any order; the caller puts them back in its own by the numbers that it gave.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, Timer
from typing import Protocol

from vdla.compiler.tune import Point, TuningTask
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.trial import Trial, TuningError
from vdla.support.errors import Error
from vdla.support.parallel import Worker, WorkerError, processors

TIMEOUT_S = 60.0
"""Seconds that a trial may take, building included."""
_TASKS_KEPT = 2  # of a worker; a task derives much from its definition


Warn = Callable[[str], None]


class Workers(Protocol):
    """Processes that measure points of one task after another."""

    @property
    def count(self) -> int:
        """How many measure at once."""
        ...

    def begin(self, task: TuningTask) -> None:
        """Measure points of this task from now on; those of the last one have been taken.

        Raises:
            TuningError: the task cannot be pickled.
        """
        ...

    def submit(self, number: int, point: Point) -> None:
        """Measure a point, after those that wait; `number` names it in `take`."""
        ...

    def take(self) -> tuple[int, Trial]:
        """Wait for a trial to end. There must be one under way.

        Raises:
            TuningError: no worker can measure the task.
        """
        ...

    def close(self) -> None:
        """End the processes at once, with what they measure."""
        ...


@dataclass(frozen=True, slots=True)
class TuningJob:
    """What a worker needs for all points: the task, pickled once, and the measurer."""

    task: bytes
    measurer: Measurer

    @staticmethod
    def of(task: TuningTask, measurer: Measurer) -> TuningJob:
        """A job; TuningError if task or measurer cannot be pickled."""
        try:
            pickle.dumps(measurer)
            return TuningJob(pickle.dumps(task), measurer)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TuningError(f"tune {task.name}: task must be one that can be pickled, got {error}") from None


@lru_cache(_TASKS_KEPT)
def _task(content: bytes) -> TuningTask:
    task: TuningTask = pickle.loads(content)
    return task


def missing_of(job: TuningJob) -> str:
    """Why this process cannot measure a job, or empty."""
    return job.measurer.missing(_task(job.task))


def measured(work: tuple[TuningJob, Point]) -> Trial:
    """The trial of a point in this process."""
    job, point = work
    return trial_of(job.measurer, _task(job.task), point)


def trial_of(measurer: Measurer, task: TuningTask, point: Point) -> Trial:
    """The trial of a point; no exception leaves it."""
    start = time.perf_counter()
    try:
        cost, error = float(measurer.measure(task, point)), ""
    except Error as failure:
        cost, error = math.inf, str(failure)
    except Exception as failure:  # probably a defect of this point alone
        cost, error = math.inf, f"{type(failure).__name__}: {failure}"
    return Trial(point, cost, measurer.unit, error, time.perf_counter() - start)


def timeout_text(timeout_s: float) -> str:
    """The error of a trial that took too long."""
    return f"trial: it must end within {timeout_s:g} s, got none; its worker was started again"


# --- this process ---------------------------------------------------------------------------------


class InlineWorkers:
    """Measures in this process: for tests, and where a crash may end the run."""

    count = 1

    def __init__(self, measurer: Measurer) -> None:
        self._measurer = measurer
        self._task: TuningTask | None = None
        self._waiting: list[tuple[int, Point]] = []

    def begin(self, task: TuningTask) -> None:
        """As `Workers`; TuningError also if this process cannot measure the task."""
        if reason := self._measurer.missing(task):
            raise TuningError(f"tune {task.name}: {reason}")
        self._task = task

    def submit(self, number: int, point: Point) -> None:
        """As `Workers`."""
        self._waiting.append((number, point))

    def take(self) -> tuple[int, Trial]:
        """As `Workers`."""
        assert self._task is not None  # nothing waits before a task
        number, point = self._waiting.pop(0)
        return number, trial_of(self._measurer, self._task, point)

    def close(self) -> None:
        """Nothing to end."""


# --- local processes ------------------------------------------------------------------------------


class LocalWorkers:
    """Processes of this machine, by default one a processor; `warn` gets what befalls them.

    A process is started for its first trial and stays for later tasks.
    """

    def __init__(
        self,
        measurer: Measurer,
        count: int | None = None,
        timeout_s: float = TIMEOUT_S,
        warn: Warn = lambda message: None,
    ) -> None:
        self.count = _local_count(measurer, count)
        self._measurer, self._timeout_s, self._warn = measurer, timeout_s, warn
        self._job = TuningJob(b"", measurer)
        self._name = ""
        self._points: SimpleQueue[tuple[int, Point] | None] = SimpleQueue()
        self._trials: SimpleQueue[tuple[int, Trial] | str] = SimpleQueue()
        self._unable = 0
        self._lock = Lock()
        self._closed = False
        self._processes: dict[int, Worker] = {}
        self._threads: list[Thread] = []

    def begin(self, task: TuningTask) -> None:
        """As `Workers`."""
        job = TuningJob.of(task, self._measurer)
        self._end_threads()
        self._job, self._name, self._unable = job, task.name, 0
        self._threads = [Thread(target=self._drive, args=(place,), daemon=True) for place in range(self.count)]
        for thread in self._threads:
            thread.start()

    def submit(self, number: int, point: Point) -> None:
        """As `Workers`."""
        self._points.put((number, point))

    def take(self) -> tuple[int, Trial]:
        """As `Workers`."""
        while True:
            result = self._trials.get()
            if not isinstance(result, str):
                return result
            self._unable += 1
            if self._unable == self.count:
                raise TuningError(f"tune {self._name}: {result}")
            self._warn(f"tune {self._name}: {result}; the run goes on without it")

    def close(self) -> None:
        """As `Workers`."""
        with self._lock:
            self._closed = True
            for process in self._processes.values():
                process.kill()
        with suppress(Empty):
            while True:
                self._points.get_nowait()
        self._end_threads()
        for process in self._processes.values():
            process.close()

    def _end_threads(self) -> None:
        for _ in self._threads:
            self._points.put(None)
        for thread in self._threads:
            thread.join()
        with suppress(Empty):  # of threads that had ended before
            while True:
                self._points.get_nowait()

    # --- one worker, in a thread of its own

    def _drive(self, place: int) -> None:
        """Measure points, with a new process whenever the old one has ended."""
        able = False
        while (work := self._points.get()) is not None:
            reason = "" if able else self._ready(place)
            if reason:
                self._points.put(work)
                self._trials.put(reason)
                return
            trial, able = self._measure(self._processes[place], work[1])
            if self._closed:
                return
            if not able:
                self._end(place)
            self._trials.put((work[0], trial))

    def _ready(self, place: int) -> str:
        """Starts a process that can measure the task; returns why that is impossible, or ""."""
        error: BaseException | None = None
        for _ in range(2):  # the process of the last task may have been killed since
            process = self._processes.get(place) or self._start(place)
            if process is None:
                return f"worker {place}: process must start, got one that ended"
            outcome = process.call(missing_of, self._job)
            if outcome.error is None and process.ready():
                return f"worker {place}: {outcome.result}" if outcome.result else ""
            error = outcome.error
            self._end(place)
        return f"worker {place}: task must arrive, got {error}"

    def _start(self, place: int) -> Worker | None:
        try:
            process = Worker()
        except OSError:
            return None
        with self._lock:
            self._processes[place] = process
            if self._closed:
                process.kill()
        if process.ready():
            return process
        self._end(place)
        return None

    def _end(self, place: int) -> None:
        with self._lock:
            process = self._processes.pop(place)
        process.kill()
        process.close()

    def _measure(self, process: Worker, point: Point) -> tuple[Trial, bool]:
        """The trial of a point, and whether the process can go on."""
        start, late = time.perf_counter(), Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = Timer(self._timeout_s, end)
        timer.daemon = True
        timer.start()
        outcome = process.call(measured, (self._job, point))
        timer.cancel()
        if outcome.error is None and process.ready():
            return outcome.result, True
        error = timeout_text(self._timeout_s) if late.is_set() else _death(outcome.error)
        return Trial.failed(point, self._measurer.unit, error, time.perf_counter() - start), False


def _local_count(measurer: Measurer, count: int | None) -> int:
    """How many processes measure at once on this machine."""
    if count is None:
        most = measurer.most_workers
        return processors() if most is None else min(most, processors())
    if count < 1:
        raise TuningError(f"tune: workers must be at least 1, got {count}")
    return count


def _death(error: BaseException | None) -> str:
    if isinstance(error, WorkerError):
        return str(error).replace("parallel: a worker must not end before its work", "trial: its worker must not end")
    return f"trial: its result must come back from the worker, got {error}"
