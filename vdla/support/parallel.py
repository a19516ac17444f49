# SPDX-License-Identifier: Apache-2.0
"""A map over several processes: this one and workers that it starts.

Workers are new interpreters, not forks: a fork would inherit the locks of threads that it does not
have, those of Numba and LLVM among them. They do not import the program's main module, so a caller
needs no `if __name__ == "__main__"`. This process works through the items as well; where no worker
can be started, it does all of them.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeVar

from vdla.support.errors import Error

Item = TypeVar("Item")
Result = TypeVar("Result")

_INSIDE = "VDLA_PARALLEL_WORKER"
PATIENCE_S = 0.2
"""Time of work before workers are started, which takes longer."""
_START = "import sys; sys.path[:] = {path!r}; from vdla.support.parallel import serve; serve()"


class WorkerError(Error, RuntimeError):
    """A worker process that ended while it had work."""


def parallel_map(function: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None) -> list[Result]:
    """[function(item) for item in items], on `workers` processes, by default one a processor.

    Short work is done in this process alone.

    `function` is a function at the top of a module; it, items and results are pickled. Results are
    in the order of the items, whichever process computed them.

    Raises:
        The error of the first item that fails, as it was raised, with the worker's traceback as a
        note; later items may not have been tried. WorkerError: a worker was killed.
    """
    count = min(processors() if workers is None else workers, len(items))
    if count <= 1 or inside_worker():
        return list(map(function, items))
    pickle.dumps(function)  # refuses what workers could not import, before any works
    return _Work(function, items).run(count - 1)


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def inside_worker() -> bool:
    """Whether this process is a worker, which starts none itself."""
    return _INSIDE in os.environ


# --- this process --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """A result, or what a pipe can carry of an error."""

    result: Any = None
    error: BaseException | None = None


class _Work(Generic[Item, Result]):
    """Items that are taken in order, and their outcomes."""

    def __init__(self, function: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self.function, self.items = function, items
        self.outcomes: dict[int, TaskOutcome] = {}
        self.lock = Lock()
        self.next = 0
        self.over = Event()  # no worker needs to start any more
        self.workers: list[Worker] = []

    def run(self, others: int) -> list[Result]:
        """All results, computed by this process and `others` workers."""
        threads = [Thread(target=self._drive, daemon=True) for _ in range(others)]
        try:
            for thread in threads:
                thread.start()
            while (index := self._take()) is not None:
                self.outcomes[index] = attempt(self.function, self.items[index])
            self._end(idle_only=True)
            for thread in threads:
                thread.join()
        finally:
            self._end(idle_only=False)
        for index in sorted(self.outcomes):
            error = self.outcomes[index].error
            if error is not None:
                raise error
        return [self.outcomes[index].result for index in range(len(self.items))]

    def _take(self, worker: Worker | None = None) -> int | None:
        """The next item, None if all are taken or one has failed."""
        with self.lock:
            failed = any(outcome.error is not None for outcome in list(self.outcomes.values()))
            if failed or self.next == len(self.items):
                return None
            self.next += 1
            if worker is not None:
                worker.busy = True
            return self.next - 1

    def _drive(self) -> None:
        """Give items to a worker of its own, unless all is done before it is worth a start."""
        if self.over.wait(PATIENCE_S):
            return
        try:
            worker = Worker()
        except OSError:
            return  # the others do its share
        with self.lock:
            self.workers.append(worker)
            if self.over.is_set():
                worker.kill()
        while worker.ready() and (index := self._take(worker)) is not None:
            self.outcomes[index] = worker.call(self.function, self.items[index])
            worker.busy = False
        worker.close()

    def _end(self, idle_only: bool) -> None:
        """End workers that still start, or all."""
        with self.lock:
            self.over.set()
            for worker in self.workers:
                if not (idle_only and worker.busy):
                    worker.kill()


class Worker:
    """A process that computes items until its input ends."""

    def __init__(self) -> None:
        self.busy = False
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, _INSIDE: "1"},
        )

    def ready(self) -> bool:
        """Wait until the process can take an item; False if it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.read(1) == b"."

    def call(self, function: Callable[[Any], Any], item: object) -> TaskOutcome:
        """The outcome of an item."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            message = pickle.dumps((function, item))
        except Exception as error:
            return TaskOutcome(error=error)
        try:
            self.process.stdin.write(message)
            self.process.stdin.flush()
            reply: dict[str, Any] = pickle.load(self.process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            code = self.process.wait()
            what = f"signal {-code}" if code < 0 else f"exit status {code}"
            return TaskOutcome(error=WorkerError(f"parallel: a worker must not end before its work, got {what}"))
        return TaskOutcome(reply["result"]) if "result" in reply else TaskOutcome(error=_rebuilt(reply))

    def kill(self) -> None:
        """End the process at once."""
        with suppress(OSError):
            self.process.kill()

    def close(self) -> None:
        """End the process, which has nothing to do, and wait for that."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def attempt(function: Callable[[Item], Result], item: Item) -> TaskOutcome:
    """The outcome of an item in this process."""
    try:
        return TaskOutcome(function(item))
    except Exception as error:
        return TaskOutcome(error=error)


def _rebuilt(reply: dict[str, Any]) -> BaseException:
    """The error of a worker, made without its `__init__`, whose parameters are unknown."""
    error: BaseException = reply["type"].__new__(reply["type"], *reply["args"])
    error.args = reply["args"]
    error.__dict__.update(reply["state"])
    notes = getattr(error, "__notes__", [])
    error.__dict__["__notes__"] = [*notes, f"In a worker process:\n{reply['traceback']}"]
    return error


# --- a worker ------------------------------------------------------------------------------------


def serve() -> None:
    """Compute the items that come from standard input until it ends.

    Results go to standard output, and what functions print to standard error.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    with suppress(BrokenPipeError):  # the process that started this one was killed
        while True:
            output.write(b".")
            try:
                message = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            except Exception as error:
                _send(output, _failure(error))
            else:
                _send(output, _answer(*message))


def _send(output: FileIO, content: bytes) -> None:
    """Write all of it; a pipe may take less at once."""
    rest = memoryview(content)
    while rest:
        rest = rest[output.write(rest) :]


def _answer(function: Callable[[Any], Any], item: object) -> bytes:
    try:
        return pickle.dumps({"result": function(item)})
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> bytes:
    text = "".join(traceback.format_exception(error)).rstrip()
    reply = {"type": type(error), "args": error.args, "state": vars(error), "traceback": text}
    try:
        return pickle.dumps(reply)
    except Exception:  # an error that holds what cannot be pickled
        message = f"parallel: an item failed with {type(error).__name__}: {error}"
        return pickle.dumps({**reply, "type": WorkerError, "args": (message,), "state": {}})
