"""Measures a device's memory: the probes run, the DRAM model that fits their cycles, bandwidths.

Of the device it uses total cycles only, so that any device can be measured; the limits of
outstanding bursts are those under which it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from statistics import median_low
from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.dram_model import DramModel
from vdla.runtime.devices import Device
from vdla.runtime.devices.run import run
from vdla.runtime.diagnosis.memory_fit import DramFit, Fit
from vdla.runtime.diagnosis.probes import Probe, probes

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
    cycles = {name: median_low(found) for name, found in runs.items()}
    progress("fit", len(known), len(known))
    return MemoryMeasurement(
        device=device.name,
        config=device.config,
        cycles=cycles,
        spread=max((max(found) - min(found)) / min(found) for found in runs.values()),
        fit=DramFit(device.config, known, cycles).run(),
        read_bytes_per_cycle=_bandwidth(known, cycles, "read"),
        write_bytes_per_cycle=_bandwidth(known, cycles, "write"),
    )


def _cycles(device: Device, probe: Probe) -> int:
    inputs = {each.name: np.zeros(each.shape, np.int8) for each in probe.program.tensors if each.role == "input"}
    return run(probe.program, inputs, device).statistics.total_cycles


def _bandwidth(known: Mapping[str, Probe], cycles: Mapping[str, int], kind: str) -> float:
    """Bytes a cycle of a long transfer, without its beginning."""
    all_, half = f"{kind} all", f"{kind} half"
    return (known[all_].nbytes - known[half].nbytes) / max(1, cycles[all_] - cycles[half])
