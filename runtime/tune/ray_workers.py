# SPDX-License-Identifier: Apache-2.0
"""Workers on a Ray cluster: one actor each; needs the extra `ray` here and on every node.

An actor or a node that dies costs the trial that it had; another actor takes its place.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from vdla.compiler.tune import Point, TuningTask
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.trial import Trial, TuningError
from vdla.runtime.tune.workers import TIMEOUT_S, TuningJob, Warn, measured, missing_of, timeout_text

RAY = "ray"
_SCHEME = "ray://"


class PointMeasurer:
    """What an actor is: it measures points of jobs."""

    def missing(self, job: TuningJob) -> str:
        """Why the node cannot measure a job, or empty."""
        return missing_of(job)

    def measured(self, job: TuningJob, point: Point) -> Trial:
        """The trial of a point."""
        return measured((job, point))


@dataclass(frozen=True, slots=True)
class _Call:
    """What an actor does; without a point it says what it lacks."""

    actor: Any
    place: int
    number: int = -1
    point: Point | None = None
    begun_s: float = 0.0


class RayWorkers:
    """Actors of a cluster: `ray` starts one here or joins $RAY_ADDRESS, `ray://HOST:PORT` joins.

    By default, there is an actor for each processor of the cluster.

    Raises:
        TuningError: the address is malformed, Ray is not installed, or the cluster cannot be
        reached.
    """

    def __init__(
        self,
        measurer: Measurer,
        address: str = RAY,
        count: int | None = None,
        timeout_s: float = TIMEOUT_S,
        warn: Warn = lambda message: None,
    ) -> None:
        if address != RAY and not address.startswith(_SCHEME):
            raise TuningError(f"tune: workers must be a number, ray or ray://HOST:PORT, got {address}")
        self._ray = _ray()
        self._started_here = _join(self._ray, address)
        self.count = _count(self._ray, measurer) if count is None else count
        self._actor = self._ray.remote(num_cpus=1, max_restarts=0)(PointMeasurer)
        self._measurer, self._timeout_s, self._warn = measurer, timeout_s, warn
        self._name, self._job = "", None
        self._waiting: deque[tuple[int, Point]] = deque()
        self._idle: dict[int, Any] = {}
        self._calls: dict[Any, _Call] = {}
        self._unable = 0

    def begin(self, task: TuningTask) -> None:
        """As `Workers`."""
        self._job, self._name, self._unable = self._ray.put(TuningJob.of(task, self._measurer)), task.name, 0
        for call in self._calls.values():  # actors that still start, for the last task
            self._ray.kill(call.actor)
        self._calls.clear()
        for place in range(self.count):
            self._ask(place, self._idle.pop(place, None) or self._actor.remote())

    def submit(self, number: int, point: Point) -> None:
        """As `Workers`."""
        self._waiting.append((number, point))
        self._hand_out()

    def take(self) -> tuple[int, Trial]:
        """As `Workers`."""
        while True:
            ended, _ = self._ray.wait(list(self._calls), timeout=self._patience_s())
            result = self._ended(ended[0]) if ended else self._late()
            self._hand_out()
            if result is not None:
                return result

    def close(self) -> None:
        """As `Workers`; ends the cluster if it was started for this."""
        for actor in [*(call.actor for call in self._calls.values()), *self._idle.values()]:
            self._ray.kill(actor)
        self._calls.clear()
        self._idle.clear()
        if self._started_here:
            self._ray.shutdown()

    # --- actors

    def _ask(self, place: int, actor: Any) -> None:  # noqa: ANN401  of Ray
        """Ask an actor what it lacks."""
        self._calls[actor.missing.remote(self._job)] = _Call(actor, place)

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            (number, point), (place, actor) = self._waiting.popleft(), self._idle.popitem()
            reference = actor.measured.remote(self._job, dict(point))
            self._calls[reference] = _Call(actor, place, number, point, time.monotonic())

    def _patience_s(self) -> float | None:
        """Seconds until the first trial is late; None while actors only start."""
        begun = [call.begun_s for call in self._calls.values() if call.point is not None]
        return max(0.0, min(begun) + self._timeout_s - time.monotonic()) if begun else None

    def _ended(self, reference: Any) -> tuple[int, Trial] | None:  # noqa: ANN401  of Ray
        """The trial of a call that ended, None if it was an actor's first one."""
        call = self._calls.pop(reference)
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return self._lost(call, _reason(error))
        if call.point is None and result:
            self._ray.kill(call.actor)
            self._set_aside(call.place, result)
            return None
        self._idle[call.place] = call.actor
        return None if call.point is None else (call.number, result)

    def _lost(self, call: _Call, reason: str) -> tuple[int, Trial] | None:
        """The trial of an actor that died, and another actor."""
        if call.point is None:
            self._set_aside(call.place, f"actor must start, got {reason}")
            return None
        self._ask(call.place, self._actor.remote())
        error = f"trial: its worker must not end, got {reason}"
        return call.number, Trial.failed(call.point, self._measurer.unit, error, time.monotonic() - call.begun_s)

    def _late(self) -> tuple[int, Trial] | None:
        """The first trial that took too long; its actor is replaced."""
        now = time.monotonic()
        for reference, call in self._calls.items():
            if call.point is not None and now - call.begun_s >= self._timeout_s:
                del self._calls[reference]
                self._ray.kill(call.actor)
                self._ask(call.place, self._actor.remote())
                return call.number, Trial.failed(
                    call.point, self._measurer.unit, timeout_text(self._timeout_s), now - call.begun_s
                )
        return None

    def _set_aside(self, place: int, what: str) -> None:
        self._unable += 1
        if self._unable == self.count:
            raise TuningError(f"tune {self._name}: worker {place}: {what}")
        self._warn(f"tune {self._name}: worker {place}: {what}; the run goes on without it")


def _ray() -> Any:  # noqa: ANN401  a module
    try:
        import ray
    except ImportError:
        raise TuningError("tune: workers on Ray need the package ray, got none (pip install 'vdla[ray]')") from None
    return ray


def _count(ray: Any, measurer: Measurer) -> int:  # noqa: ANN401  a module
    """One actor a processor of the cluster, or as many as the measurer allows."""
    processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
    return processors if measurer.most_workers is None else min(processors, measurer.most_workers)


def _join(ray: Any, address: str) -> bool:  # noqa: ANN401  a module
    """Whether Ray was not yet in use, and is now."""
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == RAY and "RAY_ADDRESS" not in os.environ:  # workers of this machine import what this process can
        paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        options |= {"include_dashboard": False, "runtime_env": {"env_vars": paths}}
    try:
        ray.init(address=None if address == RAY else address, **options)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        first = str(error).strip().partition("\n")[0]
        raise TuningError(f"tune: a Ray cluster must answer at {address}, got {first}") from None
    return True


def _reason(error: Exception) -> str:
    """Why an actor is lost: the kind and the first line; the last, if it did not start."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "creation task" in lines[0]:
        return lines[-1]
    return f"{type(error).__name__}: {lines[0]}"
