# SPDX-License-Identifier: Apache-2.0
"""The one thread that uses the device, and the watchdog over it.

A run that does not end within `run_s` is asked to stop; if it does not, its thread is abandoned and
the device opened again. So is a device that fails with anything but an error of VDLA. Memory is
lost then: the epoch counts the devices, and jobs of an earlier epoch never reach a later device.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from vdla.runtime.devices import Device, DeviceError
from vdla.runtime.devices.device import Powered, Stoppable
from vdla.runtime.remote.errors import DEVICE, SESSION, RemoteError
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import Failure, send
from vdla.runtime.remote.results import PendingResult
from vdla.runtime.remote.sessions import Session, SessionMemory

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """At most `most` items, and at most `most_of_one` of one session."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._waiting: OrderedDict[Hashable, deque[Item]] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, session: Hashable, item: Item, always: bool = False) -> int:
        """Append an item; the number of items before it. RemoteError when full, unless `always`."""
        with self._changed:
            total, mine = self._count(), len(self._waiting.get(session, ()))
            if not always and mine >= self._most_of_one:
                raise RemoteError(f"queue: a session must have at most {self._most_of_one} batches waiting, got more")
            if not always and total >= self._most:
                raise RemoteError(f"queue: waiting batches must be at most {self._most}, got more; try again later")
            self._waiting.setdefault(session, deque()).append(item)
            self._changed.notify()
            return total

    def take(self, timeout_s: float) -> Item | None:
        """The first item of the session whose turn it is; None after the timeout or when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout_s)
            if not self._waiting:
                return None
            session, items = self._waiting.popitem(last=False)
            item = items.popleft()
            if items:
                self._waiting[session] = items  # its next turn is behind all others
            return item

    def remove(self, session: Hashable, matches: Callable[[Item], bool]) -> list[Item]:
        """Take out the waiting items of a session that match."""
        with self._changed:
            items = self._waiting.get(session, deque())
            removed = [item for item in items if matches(item)]
            kept = deque(item for item in items if not matches(item))
            if kept:
                self._waiting[session] = kept
            else:
                self._waiting.pop(session, None)
            return removed

    def count_of(self, session: Hashable) -> int:
        """The waiting items of a session."""
        with self._changed:
            return len(self._waiting.get(session, ()))

    def close(self) -> None:
        """Wake whoever waits in `take`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _count(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __len__(self) -> int:
        with self._changed:
            return self._count()


STOP_S = 2.0
"""Seconds that a device has to stop a run, before its thread is abandoned."""
_MOST_ABANDONED = 4
_TAKE_S = 0.5


@dataclass(eq=False, slots=True)
class Job:
    """Work on the device for a session; `result` gets its reply, None where nobody waits."""

    session: Session
    work: Callable[[Device, SessionMemory], bytes]
    result: PendingResult | None
    began_s: float | None = None
    stopping: bool = False

    def finish(self, reply: bytes) -> None:
        """Set the reply."""
        if self.result is not None:
            self.result.finish(reply)


def failure(code: str, message: str) -> bytes:
    """The reply that says why a batch was not executed."""
    return send(Failure(code, message))


class BoardWorker:
    """Owns the device. `on_loss` is called with a reason after the device was opened again."""

    def __init__(self, open_device: Callable[[], Device], limits: Limits, on_loss: Callable[[str], None]) -> None:
        self._open_device, self._limits, self._on_loss = open_device, limits, on_loss
        self.queue: FairQueue[Job] = FairQueue(limits.queue, limits.session_queue)
        self.device, self.memory = open_device(), SessionMemory(limits)
        self.config, self.name = self.device.config, self.device.name
        self.epoch = self.runs = self.reopened = 0
        self.last_error = ""
        self._lock = threading.Lock()
        self._running: Job | None = None
        self._closed = False
        self._broken = False
        self._abandoned: list[threading.Thread] = []
        self._thread = self._start()

    def _start(self) -> threading.Thread:
        arguments = (self.epoch, self.device, self.memory)
        thread = threading.Thread(target=self._loop, args=arguments, name=f"device-{self.epoch}", daemon=True)
        thread.start()
        return thread

    @property
    def running(self) -> bool:
        """Whether a job is on the device."""
        return self._running is not None

    def runs_for(self, session: Session) -> bool:
        """Whether a job of this session is on the device."""
        job = self._running
        return job is not None and job.session is session

    def power_w(self) -> dict[str, float]:
        """The watts of each power rail; none where the device has no sensors, or they fail."""
        device = self.device
        if isinstance(device, Powered):
            with suppress(DeviceError):
                return dict(device.power())
        return {}

    # --- jobs

    def submit(self, job: Job, always: bool = False) -> None:
        """Queue a job; RemoteError when the queue is full, unless `always`."""
        self.queue.put(job.session, job, always)

    def cancel(self, session: Session, matches: Callable[[Job], bool], reply: bytes) -> None:
        """Answer the waiting jobs of a session that match; one on the device is asked to stop."""
        for job in self.queue.remove(session, lambda job: job.result is not None and matches(job)):
            job.finish(reply)
        with self._lock:
            job_now = self._running
            if job_now is not None and job_now.session is session and job_now.result is not None and matches(job_now):
                self._stop(job_now)

    def _stop(self, job: Job) -> None:
        if not job.stopping and isinstance(self.device, Stoppable):
            self.device.stop()
        job.stopping = True

    def _loop(self, epoch: int, device: Device, memory: SessionMemory) -> None:
        while self.epoch == epoch and not self._closed:
            job = self.queue.take(_TAKE_S)
            if job is None:
                continue
            if job.session.epoch != epoch:
                job.finish(failure(SESSION, "session: memory must be intact, got lost; open the device again"))
                continue
            reply, fault = self._execute(job, device, memory)
            with self._lock:
                if self.epoch != epoch:  # the watchdog gave this thread up
                    break
                self._running = None
            if fault:
                self._replace(job, fault)
            job.finish(reply)
        _close(device)

    def _execute(self, job: Job, device: Device, memory: SessionMemory) -> tuple[bytes, str]:
        """The reply, and what is wrong with the device or nothing."""
        with self._lock:
            job.began_s = time.monotonic()
            self._running = job
        try:
            return job.work(device, memory), ""
        except Exception as error:  # not an error of VDLA: the device is in an unknown state
            fault = f"{type(error).__name__}: {error}"
            return failure(DEVICE, f"device {device.name}: device failed with {fault}; it was opened again"), fault

    # --- the watchdog

    def watch(self) -> None:
        """Stop or abandon a run that takes too long; called a few times a second."""
        with self._lock:
            job = self._running
            if job is None or job.began_s is None:
                return
            past = time.monotonic() - job.began_s
            if past > self._limits.run_s:
                self._stop(job)
            if past <= self._limits.run_s + STOP_S:
                return
            self._running = None
            self._abandoned = [thread for thread in self._abandoned if thread.is_alive()] + [self._thread]
        reason = f"a run did not end within {self._limits.run_s:g} s"
        self._replace(job, reason)
        job.finish(failure(DEVICE, f"device {self.name}: {reason}, nor stopped; the device was opened again"))

    def _replace(self, job: Job, reason: str) -> None:
        """Open the device again; all sessions lose their memory."""
        self.last_error = reason
        with self._lock:
            self.epoch += 1
            self.reopened += 1
        self._on_loss(reason)
        if sum(thread.is_alive() for thread in self._abandoned) < _MOST_ABANDONED:
            self._open_again()
        else:
            self._broken = True

    def _open_again(self) -> None:
        if threading.current_thread() is self._thread:
            _close(self.device)
        try:
            self.device = self._open_device()
        except Exception as error:
            self._broken, self.last_error = True, f"{type(error).__name__}: {error}"
            return
        self._broken, self.memory = False, SessionMemory(self._limits)
        self._thread = self._start()

    def require_usable(self) -> None:
        """RemoteError where the device could not be opened again; tries once more first."""
        if self._broken:
            with self._lock:
                still = sum(thread.is_alive() for thread in self._abandoned) >= _MOST_ABANDONED
                if self._broken and not still:
                    self._open_again()
        if self._broken:
            raise RemoteError(f"device {self.name}: device must be usable, got {self.last_error}", DEVICE)

    def close(self, timeout_s: float = 10.0) -> None:
        """Let the thread end after the job that it has."""
        self._closed = True
        self.queue.close()
        self._thread.join(timeout_s)


def _close(device: Device) -> None:
    with suppress(Exception):  # it may have failed before; nothing more can be released
        device.close()
