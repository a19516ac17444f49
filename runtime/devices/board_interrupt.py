"""The interrupt of an overlay as a wait with a time limit; PYNQ has a coroutine without one."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

from vdla.runtime.devices.completion import InterruptWait


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
