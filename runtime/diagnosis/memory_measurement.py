# SPDX-License-Identifier: Apache-2.0
"""Measures a device's memory: the probes run, the DRAM model that fits their cycles, bandwidths.

Of the device it uses total cycles only, so that any device can be measured; the limits of
outstanding bursts are those under which it runs.

Each figure has a probe on which cycles depend monotonically, so that bisection finds it; the rounds
repeat until no figure changes. What no probe shows (room for more bursts than help, a gap behind
bursts that are never close) gets its smallest value: the simulator takes the same cycles with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from statistics import median_low
from typing import Any

import numpy as np

from vdla.hardware.config import Config, Dram
from vdla.hardware.dram_model import DramModel
from vdla.runtime.devices import Device
from vdla.runtime.devices.run import run
from vdla.runtime.diagnosis.probes import Probe, probes
from vdla.simulator.timing import time_program

_LIMITS = {
    "read_latency": (1, 65536),
    "write_latency": (1, 65536),
    "outstanding_reads": (1, 256),
    "outstanding_writes": (1, 256),
    "beat_cycles": (1, 256),
    "burst_gap": (0, 256),
}
_START = Dram(
    read_latency=80, write_latency=40, outstanding_reads=256, outstanding_writes=256, beat_cycles=1, burst_gap=0
)
_START_READS = (256, 1, 2, 4)
"""With few, single bursts wait for each other, and latencies look longer."""
_ROUNDS = 8
_STEPS = (64, 16, 4, 1)
_Wanted = tuple[Callable[[Dram], int], int]
"""A prediction, and the measured cycles that it should give."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A DRAM, the cycles that it predicts for each probe, and the largest relative error."""

    dram: Dram
    predicted: Mapping[str, int]
    error: float


class DramFit:
    """The search for the model of measured `cycles` by probe."""

    def __init__(self, config: Config, probes: Mapping[str, Probe], cycles: Mapping[str, int]) -> None:
        self._config, self._probes, self._cycles = config, probes, cycles
        self._predict = lru_cache(maxsize=None)(self._predicted)

    def _predicted(self, name: str, dram: Dram) -> int:
        return time_program(self._probes[name].program, replace(self._config, dram=dram)).total_cycles

    def run(self) -> Fit:
        """The model that fits best."""
        dram = self._started()
        if self._error(dram):
            dram = self._descend(dram)
        dram = self._without_hidden_gap(dram)
        predicted = {name: self._predict(name, dram) for name in self._cycles}
        worst = max(abs(predicted[name] - got) / got for name, got in self._cycles.items())
        return Fit(dram, predicted, worst)

    def _error(self, dram: Dram) -> float:
        return sum(abs(self._predict(name, dram) - got) / got for name, got in self._cycles.items())

    # --- one figure after the other

    def _started(self) -> Dram:
        """The best of the models that the rounds lead to from several numbers of reads."""
        best = None
        for reads in _START_READS:
            settings = self._settled(replace(_START, outstanding_reads=reads))
            best = settings if best is None or self._error(settings) < self._error(best) else best
            if not self._error(best):
                break
        assert best is not None
        return best

    def _settled(self, dram: Dram) -> Dram:
        for _ in range(_ROUNDS):
            before, dram = dram, self._round(dram)
            if dram == before:
                break
        return dram

    def _round(self, dram: Dram) -> Dram:
        free = replace(dram, outstanding_reads=256, outstanding_writes=256)
        beat = self._closest("beat_cycles", free, self._difference("read burst", "read entry"))
        dram = replace(dram, beat_cycles=beat)
        dram = replace(dram, read_latency=self._closest("read_latency", dram, self._one("read entry")))
        free = replace(dram, outstanding_reads=256, outstanding_writes=256)
        gaps = [
            self._closest("burst_gap", free, self._difference(f"{kind} few rows", f"{kind} entry"))
            for kind in ("read", "write")
        ]
        dram = replace(dram, burst_gap=min(gaps))
        dram = replace(dram, write_latency=self._closest("write_latency", dram, self._one("write entry")))
        reads = self._closest("outstanding_reads", dram, self._one("read rows"), falls=True)
        dram = replace(dram, outstanding_reads=self._more_reads(replace(dram, outstanding_reads=reads)))
        writes = self._closest("outstanding_writes", dram, self._one("write rows"), falls=True)
        return replace(dram, outstanding_writes=writes)

    def _more_reads(self, dram: Dram) -> int:
        """Beyond what the data need, more bursts of load delay those of fetch."""
        name, least = "outstanding_reads", dram.outstanding_reads
        most = self._last_alike(name, dram, self._one("read rows")[0])
        predict, target = self._one("reads beside fetch")
        return min(
            range(least, most + 1), key=lambda value: abs(predict(replace(dram, outstanding_reads=value)) - target)
        )

    def _one(self, name: str) -> _Wanted:
        """The prediction for a probe, and its measured cycles."""
        return lambda dram: self._predict(name, dram), self._cycles[name]

    def _difference(self, more: str, less: str) -> _Wanted:
        measured = self._cycles[more] - self._cycles[less]
        return lambda dram: self._predict(more, dram) - self._predict(less, dram), measured

    def _closest(
        self,
        name: str,
        dram: Dram,
        wanted: _Wanted,
        falls: bool = False,
    ) -> int:
        """The smallest value of a figure whose prediction is closest to what was measured.

        The prediction grows with the figure, or `falls`.
        """
        (predict, target), (first, last) = wanted, _LIMITS[name]

        def reached(value: int) -> bool:
            result = predict(replace(dram, **{name: value}))
            return result <= target if falls else result >= target

        place = _first(first, last, reached)
        values = [value for value in (place - 1, place) if first <= value <= last]
        best = min(values, key=lambda value: abs(predict(replace(dram, **{name: value})) - target))
        alike = predict(replace(dram, **{name: best}))
        return _first(first, best, lambda value: predict(replace(dram, **{name: value})) == alike)

    def _last_alike(self, name: str, dram: Dram, predict: Callable[[Dram], int]) -> int:
        """The largest value of a figure that changes no cycle of a prediction."""
        wanted, first, last = predict(dram), getattr(dram, name), _LIMITS[name][1]
        beyond = _first(first, last, lambda value: predict(replace(dram, **{name: value})) != wanted)
        return last if predict(replace(dram, **{name: last})) == wanted else beyond - 1

    # --- measured cycles that no model gives exactly

    def _descend(self, dram: Dram) -> Dram:
        """Change single figures while that makes the error smaller."""
        best, improved = self._error(dram), True
        while improved:
            improved = False
            for name, (low, high) in _LIMITS.items():
                for step in (*_STEPS, *(-step for step in _STEPS)):
                    value = getattr(dram, name) + step
                    if not low <= value <= high:
                        continue
                    tried = replace(dram, **{name: value})
                    error = self._error(tried)
                    if error < best:
                        dram, best, improved = tried, error, True
        return dram

    def _without_hidden_gap(self, dram: Dram) -> Dram:
        none = replace(dram, burst_gap=0)
        return none if self._error(none) <= self._error(dram) else dram


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first value from which on something holds, by bisection; `high` where it never does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


REPEATS = 3
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class MemoryMeasurement:
    """The cycles of each probe, the median of its runs, and the fit; bandwidths in bytes a cycle.

    `spread` is the largest relative distance between two runs of a probe: 0 on a simulated memory.
    """

    device: str
    config: Config
    cycles: Mapping[str, int]
    spread: float
    fit: Fit
    read_bytes_per_cycle: float
    write_bytes_per_cycle: float

    @property
    def read_mb_s(self) -> float:
        """Read bandwidth in 10**6 bytes a second at the configuration's clock."""
        return self.read_bytes_per_cycle * self.config.clock_mhz

    @property
    def write_mb_s(self) -> float:
        """Write bandwidth in 10**6 bytes a second at the configuration's clock."""
        return self.write_bytes_per_cycle * self.config.clock_mhz

    def model(self, address: str = "") -> DramModel:
        """The DRAM model with its provenance; `address` is the device as the user named it."""
        beat = self.config.axi_bytes
        measured: dict[str, Any] = {
            "device": address or self.device,
            "config": self.config.name,
            "fingerprint": self.config.fingerprint,
            "clock_mhz": self.config.clock_mhz,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "read_mb_s": round(self.read_mb_s, 1),
            "write_mb_s": round(self.write_mb_s, 1),
            "read_beats_per_cycle": round(self.read_bytes_per_cycle / beat, 4),
            "write_beats_per_cycle": round(self.write_bytes_per_cycle / beat, 4),
            "largest_error": round(self.fit.error, 6),
            "spread": round(self.spread, 6),
            "cycles": {
                name: {"measured": got, "simulated": self.fit.predicted[name]} for name, got in self.cycles.items()
            },
        }
        return DramModel(self.fit.dram, measured)


def measure(
    device: Device, repeats: int = REPEATS, progress: Progress = lambda what, done, total: None
) -> MemoryMeasurement:
    """Measure the memory of an open device.

    Raises:
        DeviceError: a program does not run.
    """
    known = probes(device.config)
    runs: dict[str, list[int]] = {}
    for done, (name, probe) in enumerate(known.items()):
        progress(name, done, len(known))
        runs[name] = [_cycles(device, probe) for _ in range(repeats)]
    cycles = {name: median_low(value) for name, value in runs.items()}
    progress("fit", len(known), len(known))
    return MemoryMeasurement(
        device=device.name,
        config=device.config,
        cycles=cycles,
        spread=max((max(value) - min(value)) / min(value) for value in runs.values()),
        fit=DramFit(device.config, known, cycles).run(),
        read_bytes_per_cycle=_bandwidth(known, cycles, "read"),
        write_bytes_per_cycle=_bandwidth(known, cycles, "write"),
    )


def _cycles(device: Device, probe: Probe) -> int:
    inputs = {
        tensor.name: np.zeros(tensor.shape, np.int8) for tensor in probe.program.tensors if tensor.role == "input"
    }
    return run(probe.program, inputs, device).statistics.total_cycles


def _bandwidth(known: Mapping[str, Probe], cycles: Mapping[str, int], kind: str) -> float:
    """Bytes a cycle of a long transfer, without its beginning."""
    all_, half = f"{kind} all", f"{kind} half"
    return (known[all_].nbytes - known[half].nbytes) / max(1, cycles[all_] - cycles[half])
