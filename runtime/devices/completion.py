# SPDX-License-Identifier: Apache-2.0
"""The wait for the end of a run on a board: for the interrupt where one works, else by polling.

The invariant: every wait ends. An interrupt that is lost at most doubles the time of its run, and
both limits of a run, in cycles and in seconds, hold without it.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

from vdla.runtime.devices.driver import Driver
from vdla.support.errors import Error

InterruptWait = Callable[[float], bool]
"""Waits for the interrupt, at most the given seconds; returns whether it came."""

_SHARE = 0.25  # of the time that has passed: polling makes a run longer by no more
_LEAST_PAUSE_S, _MOST_PAUSE_S = 20e-6, 0.01
_LEAST_INTERRUPT_S, _MOST_INTERRUPT_S = 0.002, 0.1
_RESET_S, _RESET_PAUSE_S = 1.0, 0.001


class RunTimeoutError(Error, TimeoutError):
    """A run that is ended: what happened to it, such as "has not ended after 2 s"."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The most that a run may take: seconds by the clock of the host, cycles of the machine."""

    seconds: float
    cycles: int | None = None


class Completion:
    """Waits on one machine. `interrupt` is None where interrupts do not work."""

    def __init__(self, driver: Driver, interrupt: InterruptWait | None) -> None:
        self._driver = driver
        self.interrupt = interrupt  # None after one was lost: from then on, the machine is polled
        self.stop_asked = Event()

    def wait(self, limits: RunLimits) -> None:
        """Return when the machine is not busy; RunTimeoutError beyond a limit, or when a stop is
        asked for.
        """
        begin = time.monotonic()
        busy, early = self._busy(), False
        while busy:
            passed = time.monotonic() - begin
            self._require_within(limits, passed)
            polls = self.interrupt is None or early
            came = self._poll(passed, limits) if polls else self._await_interrupt(passed, limits)
            busy = self._busy()
            early = early or (busy and came)  # an interrupt that comes early would come again at once
            if not (busy or polls or came):
                self.interrupt = None
        self._require_cycles(limits)

    def _busy(self) -> bool:
        return self._driver.flag("STATUS", "busy")

    def _poll(self, passed: float, limits: RunLimits) -> bool:
        time.sleep(min(max(passed * _SHARE, _LEAST_PAUSE_S), _MOST_PAUSE_S, limits.seconds - passed))
        return False

    def _await_interrupt(self, passed: float, limits: RunLimits) -> bool:
        seconds = min(max(passed, _LEAST_INTERRUPT_S), _MOST_INTERRUPT_S, limits.seconds - passed)
        return self.interrupt is not None and self.interrupt(seconds)

    def _require_within(self, limits: RunLimits, passed: float) -> None:
        self._require_cycles(limits)
        if self.stop_asked.is_set():
            raise RunTimeoutError("was stopped")
        if passed >= limits.seconds:
            raise RunTimeoutError(f"has not ended after {limits.seconds:g} s")

    def _require_cycles(self, limits: RunLimits) -> None:
        if limits.cycles is not None and self._driver.read_wide("CYCLES") > limits.cycles:
            raise RunTimeoutError(f"has not ended after {limits.cycles} cycles")

    def reset(self) -> bool:
        """Soft reset; whether the machine is idle afterwards, with no stream to start."""
        self._driver.request_reset()
        end = time.monotonic() + _RESET_S
        while self._busy():
            if time.monotonic() > end:
                return False
            time.sleep(_RESET_PAUSE_S)
        self._driver.disarm()
        return True


def interrupt_wait(pin: Any) -> InterruptWait | None:  # noqa: ANN401  of PYNQ
    """The wait for an interrupt pin; None where this thread cannot wait for it.

    That is so without a pin, and inside an event loop that runs, as in a notebook.
    """
    loop = None if pin is None else _event_loop()
    if loop is None:
        return None

    def wait(seconds: float) -> bool:
        if loop.is_running() or loop.is_closed():
            return False
        try:
            loop.run_until_complete(asyncio.wait_for(pin.wait(), seconds))
        except (TimeoutError, asyncio.TimeoutError):  # two classes before Python 3.11
            return False
        except RuntimeError:  # the overlay was loaded again, which makes the pin invalid
            return False
        return True

    return wait


def _event_loop() -> asyncio.AbstractEventLoop | None:
    """The loop of this thread, to which PYNQ adds the files of its interrupts; None if it runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PYNQ asks for the loop in the same way
        try:
            loop = asyncio.get_event_loop()
        except RuntimeError:
            return None
    return None if loop.is_running() else loop
