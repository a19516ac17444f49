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
from threading import Lock, Thread, Timer
from typing import Protocol

from vdla.compiler.tune import Point, TuningTask
from vdla.runtime.tune.errors import TuningError
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.trial import Trial
from vdla.support.errors import Error
from vdla.support.parallel import Worker, WorkerError, processors

TIMEOUT_S = 60.0
"""Seconds that a trial may take, building included."""
_TASKS_KEPT = 2  # of a worker; a task derives much from its definition


class Workers(Protocol):
    """Processes that measure points of one task."""

    @property
    def count(self) -> int:
        """How many measure at once."""
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
    except Exception as failure:  # a defect, as far as one can tell of this point only
        cost, error = math.inf, f"{type(failure).__name__}: {failure}"
    return Trial(point, cost, measurer.unit, error, time.perf_counter() - start)


def timeout_text(timeout_s: float) -> str:
    """The error of a trial that took too long."""
    return f"trial: it must end within {timeout_s:g} s, got none; its worker was started again"


# --- this process ---------------------------------------------------------------------------------


class InlineWorkers:
    """Measures in this process: for tests, and where a crash may end the run."""

    count = 1

    def __init__(self, task: TuningTask, measurer: Measurer) -> None:
        self._task, self._measurer = task, measurer
        self._waiting: list[tuple[int, Point]] = []

    def submit(self, number: int, point: Point) -> None:
        """As `Workers`."""
        self._waiting.append((number, point))

    def take(self) -> tuple[int, Trial]:
        """As `Workers`."""
        number, point = self._waiting.pop(0)
        return number, trial_of(self._measurer, self._task, point)

    def close(self) -> None:
        """Nothing to end."""


# --- local processes ------------------------------------------------------------------------------


class LocalWorkers:
    """Processes of this machine, by default one a processor; `warn` gets what befalls them."""

    def __init__(
        self,
        task: TuningTask,
        measurer: Measurer,
        count: int | None = None,
        timeout_s: float = TIMEOUT_S,
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.count = local_count(measurer, count)
        self._job, self._timeout_s, self._warn = TuningJob.of(task, measurer), timeout_s, warn
        self._unit, self._name = measurer.unit, task.name
        self._points: SimpleQueue[tuple[int, Point] | None] = SimpleQueue()
        self._trials: SimpleQueue[tuple[int, Trial] | str] = SimpleQueue()
        self._lock = Lock()
        self._closed = False
        self._processes: dict[int, Worker] = {}
        self._unable: list[str] = []
        self._threads = [Thread(target=self._drive, args=(place,), daemon=True) for place in range(self.count)]
        for thread in self._threads:
            thread.start()

    def submit(self, number: int, point: Point) -> None:
        """As `Workers`."""
        self._points.put((number, point))

    def take(self) -> tuple[int, Trial]:
        """As `Workers`."""
        while True:
            found = self._trials.get()
            if not isinstance(found, str):
                return found
            self._unable.append(found)
            if len(self._unable) == self.count:
                raise TuningError(f"tune {self._name}: {found}")
            self._warn(f"tune {self._name}: {found}; the run goes on without it")

    def close(self) -> None:
        """As `Workers`."""
        with self._lock:
            self._closed = True
            for process in self._processes.values():
                process.kill()
        with suppress(Empty):
            while True:
                self._points.get_nowait()
        for _ in self._threads:
            self._points.put(None)
        for thread in self._threads:
            thread.join()

    # --- one worker, in a thread of its own

    def _drive(self, place: int) -> None:
        """Measure points, with a new process whenever the old one has ended."""
        process: Worker | None = None
        while (work := self._points.get()) is not None:
            if process is None:
                process, reason = self._start(place)
                if process is None:
                    self._points.put(work)
                    self._trials.put(reason)
                    return
            trial, alive = self._measure(process, work[1])
            if self._closed:
                break
            if not alive:
                process.close()
                process = None
            self._trials.put((work[0], trial))
        if process is not None:
            process.kill()
            process.close()

    def _start(self, place: int) -> tuple[Worker | None, str]:
        """A process that can measure the task, or why there is none."""
        try:
            process = Worker()
        except OSError as error:
            return None, f"worker {place}: process must start, got {error.strerror}"
        with self._lock:
            self._processes[place] = process
            if self._closed:
                process.kill()
        outcome = process.call(missing_of, self._job) if process.ready() else None
        if outcome is not None and outcome.error is None and not outcome.result and process.ready():
            return process, ""
        process.kill()
        process.close()
        what = "process must start, got one that ended" if outcome is None else outcome.result or str(outcome.error)
        return None, f"worker {place}: {what}"

    def _measure(self, process: Worker, point: Point) -> tuple[Trial, bool]:
        """The trial of a point, and whether the process can go on."""
        start, late = time.perf_counter(), []

        def end() -> None:
            late.append(True)
            process.kill()

        timer = Timer(self._timeout_s, end)
        timer.start()
        outcome = process.call(measured, (self._job, point))
        timer.cancel()
        if outcome.error is None and process.ready():
            return outcome.result, True
        seconds = time.perf_counter() - start
        error = timeout_text(self._timeout_s) if late else _death(outcome.error)
        process.kill()
        return Trial.failed(point, self._unit, error, seconds), False


def local_count(measurer: Measurer, count: int | None) -> int:
    """How many processes measure at once on this machine."""
    most = measurer.most_workers
    if count is None:
        return processors() if most is None else min(most, processors())
    if count < 1:
        raise TuningError(f"tune: workers must be at least 1, got {count}")
    return count


def _death(error: BaseException | None) -> str:
    if isinstance(error, WorkerError):
        return str(error).replace("parallel: a worker must not end before its work", "trial: its worker must not end")
    return f"trial: its result must come back from the worker, got {error}"
