# SPDX-License-Identifier: Apache-2.0
"""Work that other processes begin while this one goes on with something else.

    with Background() as background:
        tasks = [background.submit(compiled, item) for item in items]
        ...
        objects = background.results(tasks)

What no worker has begun when results are wanted is done in this process, so that nothing waits for
a worker to start, and work is done where no worker can be started at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Generic, TypeVar

from vdla.support import parallel
from vdla.support.parallel import TaskOutcome, Worker, attempt, inside_worker

Item = TypeVar("Item")
Result = TypeVar("Result")


class Task(Generic[Result]):
    """A call of a function; it has an outcome at its end."""

    def __init__(self, function: Callable[[Any], Result], item: object) -> None:
        self.function, self.item = function, item
        self.outcome: TaskOutcome | None = None


class Background:
    """Tasks, begun in the order of submission, and the processes that work on them.

    `workers` is the number of processes beside this one, by default one less than processors. None
    is started for work that is done within a moment. Leaving the context ends all of them.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._count = parallel.processors() - 1 if workers is None else workers
        if inside_worker():
            self._count = 0
        self._waiting: deque[Task[Any]] = deque()
        self._changed = Condition()
        self._threads: list[Thread] = []
        self._workers: list[Worker] = []
        self._closed = False

    def __enter__(self) -> Background:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for worker in self._workers:
                worker.kill()
        for thread in self._threads:
            thread.join()

    def submit(self, function: Callable[[Item], Result], item: Item, patience_s: float | None = None) -> Task[Result]:
        """A task for `function(item)`; both are pickled, as those of `parallel_map`.

        `patience_s` is the time after which a worker is worth its start, 0 for long work.
        """
        task: Task[Result] = Task(function, item)
        with self._changed:
            self._waiting.append(task)
            self._changed.notify_all()
        if len(self._threads) < self._count:
            patience_s = parallel.PATIENCE_S if patience_s is None else patience_s
            self._threads.append(Thread(target=self._drive, args=(patience_s,), daemon=True))
            self._threads[-1].start()
        return task

    def results(self, tasks: Sequence[Task[Result]]) -> list[Result]:
        """The results of tasks, in order.

        This process does those that have not begun, and others while it must wait.

        Raises:
            The error of the first task that failed, as it was raised. WorkerError: a worker was
                killed.
        """
        for task in tasks:
            self._do(task)
        while (other := self._while_waiting(tasks)) is not None:
            self._do(other)
        outcomes = [task.outcome for task in tasks if task.outcome is not None]
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        return [outcome.result for outcome in outcomes]

    def _do(self, task: Task[Any]) -> None:
        """Do a task in this process, unless it has begun."""
        with self._changed:
            if task not in self._waiting:
                return
            self._waiting.remove(task)
        task.outcome = attempt(task.function, task.item)

    def _while_waiting(self, tasks: Sequence[Task[Any]]) -> Task[Any] | None:
        """Another task that has not begun, None once all of these have ended."""

        def ended() -> bool:
            return all(task.outcome is not None for task in tasks)

        with self._changed:
            self._changed.wait_for(lambda: ended() or bool(self._waiting))
            return None if ended() else self._waiting[0]

    # --- workers

    def _drive(self, patience_s: float) -> None:
        """Give tasks to a worker of its own."""
        with self._changed:
            if self._changed.wait_for(lambda: self._closed, patience_s) or not self._wait():
                return
        try:
            worker = Worker()
        except OSError:
            return  # this process does all work
        with self._changed:
            self._workers.append(worker)
            if self._closed:
                worker.kill()
        while worker.ready() and (task := self._next()) is not None:
            outcome = worker.call(task.function, task.item)
            with self._changed:
                task.outcome = outcome
                self._changed.notify_all()
        worker.close()

    def _wait(self) -> bool:
        """Wait for work; False at the end."""
        self._changed.wait_for(lambda: self._closed or bool(self._waiting))
        return not self._closed

    def _next(self) -> Task[Any] | None:
        with self._changed:
            return self._waiting.popleft() if self._wait() else None
