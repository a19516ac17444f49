# SPDX-License-Identifier: Apache-2.0
"""Functions for worker processes, which import them by name.

An item is the path of a file that the first worker makes; this process waits for it, so that a
worker gets an item however long it takes to start.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from threading import Lock

from vdla.hardware.isa import IsaError
from vdla.support.parallel import parallel_map


def worker_met(path: str) -> bool:
    """Whether this is a worker; any other process waits until there is one."""
    if "VDLA_PARALLEL_WORKER" in os.environ:
        Path(path).touch()
        return True
    end = time.monotonic() + 60
    while not Path(path).exists() and time.monotonic() < end:
        time.sleep(0.01)
    return False


def meets(path: str) -> int:
    """Makes the file that `waits` waits for."""
    Path(path).touch()
    return os.getpid()


def waits(path: str) -> bool:
    """Whether the file is there within a minute."""
    end = time.monotonic() + 60
    while not Path(path).exists() and time.monotonic() < end:
        time.sleep(0.01)
    return Path(path).exists()


def squared(number: int) -> int:
    return number * number


def process(path: str) -> int:
    worker_met(path)
    return os.getpid()


def loud(path: str) -> str:
    """Prints, which must not disturb the answer."""
    print("x" * 100_000)
    worker_met(path)
    return path


def negative_fails(number: int) -> int:
    if number < 0:
        raise IsaError("somewhere", f"{number} must not be negative")
    return number


def killed_in_worker(path: str) -> None:
    if worker_met(path):
        os.kill(os.getpid(), signal.SIGKILL)


def fails_with_lock(path: str) -> None:
    """An error that cannot be pickled."""
    if worker_met(path):
        raise ValueError(Lock())


def fails_in_worker(path: str) -> None:
    if worker_met(path):
        raise IsaError("a worker", "it must not fail")


def nested(path: str) -> list[int]:
    worker_met(path)
    return parallel_map(squared, [2, 3], 2)
