# SPDX-License-Identifier: Apache-2.0
"""Arbiter and memory as a requester of the read channel sees them: grants, then beats in order.

The registers of the port delay the first beat of a burst by PORT_DELAY cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from helpers.rtl.axi_memory import Burst, Storage
from helpers.rtl.rtl_bench import Bench
from vdla.hardware.timing import PORT_DELAY


class BurstMemory:
    """Arbiter and memory behind `burst_*` and `beat_*` pins."""

    def __init__(
        self,
        bench: Bench,
        storage: Storage,
        rng: np.random.Generator,
        grant: Iterator[bool],
        valid: Iterator[bool],
        latency: tuple[int, int] = (1, 20),
    ) -> None:
        self.bench, self.storage, self.rng = bench, storage, rng
        self.grant, self.valid, self.latency = grant, valid, latency
        self.bursts: deque[Burst] = deque()
        self.granted: list[tuple[int, int, int]] = []
        self.may_grant = self.beat = False

    def drive(self) -> None:
        """Offers a beat. A grant answers a request in the same cycle, so `settle` drives it."""
        bench = self.bench
        self.may_grant = next(self.grant)
        self.beat = bool(self.bursts) and self.bursts[0].due <= bench.time and next(self.valid)
        bench["beat_valid_i"] = self.beat
        if self.beat:
            burst = self.bursts[0]
            bench["beat_data_i"] = self.storage.beat(burst.address + burst.done * self.storage.axi_bytes)
            bench["beat_last_i"] = burst.done + 1 == burst.beats

    def settle(self) -> None:
        """Grants the request if the pattern allows it in this cycle."""
        self.bench["burst_grant_i"] = bool(self.may_grant and self.bench["burst_valid_o"])

    def sample(self) -> None:
        """Records a granted burst and a delivered beat."""
        bench = self.bench
        if self.beat:
            self.bursts[0].done += 1
            if self.bursts[0].done == self.bursts[0].beats:
                self.bursts.popleft()
        if bench["burst_grant_i"]:
            word = bench["burst_o"]
            address, beats = word >> 8, (word & 255) + 1
            due = bench.time + PORT_DELAY + int(self.rng.integers(*self.latency))
            self.bursts.append(Burst(0, address, beats, due))
            self.granted.append((bench.time, address, beats))
