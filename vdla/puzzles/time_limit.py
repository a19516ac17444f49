# SPDX-License-Identifier: Apache-2.0
"""A limit of time for code that may not end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from vdla.support.errors import Error


class TimeLimitError(Error, RuntimeError):
    """Code that has not ended in time, raised where it was."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """TimeLimitError in code that takes longer; none off the main thread and where there are no
    timers, as in a browser.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise TimeLimitError(f"the code must end within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
