# SPDX-License-Identifier: Apache-2.0
"""Runs that were started and not waited for: one after the other, in a thread of their model."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from typing import Any

import numpy.typing as npt

from vdla.runtime.executor.errors import ModelError

Outputs = npt.NDArray[Any] | tuple[npt.NDArray[Any], ...]
MOST_WAITING = 64


class PendingRun:
    """A run of a model; `wait` gives its outputs, or raises what the run raised."""

    def __init__(self, where: str, future: Future[Outputs]) -> None:
        self._where, self._future = where, future

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._future.done()

    def wait(self, timeout_s: float | None = None) -> Outputs:
        """The outputs, as a call of the model gives them; ModelError after the timeout."""
        try:
            return self._future.result(timeout_s)
        except TimeoutError:
            if self._future.done():  # the run itself raised it
                raise
            raise ModelError(f"{self._where}: run must end within {timeout_s:g} s, got none; wait again") from None


class RunQueue:
    """The runs of one model in the order in which they were started."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._pool: ThreadPoolExecutor | None = None
        self._pending: list[Future[Outputs]] = []

    def start(self, run: Callable[[], Outputs]) -> PendingRun:
        """Let a run wait for its turn; ModelError where too many do."""
        self._pending = [future for future in self._pending if not future.done()]
        if len(self._pending) >= MOST_WAITING:
            raise ModelError(
                f"{self._where}: runs that have not ended must be at most {MOST_WAITING}, got one more; wait for some"
            )
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="runs")
        future = self._pool.submit(run)
        self._pending.append(future)
        return PendingRun(self._where, future)

    def close(self) -> None:
        """Wait for the run in progress; those that wait are cancelled."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
        self._pending = []
