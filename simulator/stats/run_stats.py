"""What a run took: cycles, counters of every unit, times of every instruction.

The invariant: the counters of a unit sum to the total. Every device returns the same class, so that two devices can
be compared field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.isa.units import COUNTERS, UNITS

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RunStats:
    """Cycles from start to end, inclusive: an instruction that starts at `starts[k]` ends at `ends[k]`."""

    config: Config
    program: str
    program_hash: str
    total_cycles: int
    counters: dict[str, dict[str, int]]
    starts: Ints
    ends: Ints
    dispatches: Ints
    waits: Ints | None  # [instruction, counter]: the unit's cycles that belong to it; None where hardware cannot tell
    macs: int  # of GEMM, padding of blocks included
    bytes_read: int  # tensors and stream
    bytes_written: int

    def __repr__(self) -> str:
        return f"<RunStats {self.program}: {self.total_cycles:,} cycles, utilisation {self.utilisation:.1%}>"

    @property
    def seconds(self) -> float:
        """At the configuration's clock."""
        return self.total_cycles / (self.config.clock_mhz * 1e6)

    @property
    def utilisation(self) -> float:
        """Multiply-accumulates done over those that the GEMM core could have done, 0 to 1."""
        return self.macs / (self.config.macs_per_cycle * self.total_cycles) if self.total_cycles else 0.0

    @property
    def compute_bound_cycles(self) -> float:
        """Cycles that the multiply-accumulates need at least."""
        return self.macs / self.config.macs_per_cycle

    @property
    def memory_bound_cycles(self) -> float:
        """Cycles that the bytes moved need at least; the read and the write channel work side by side."""
        return max(self.bytes_read, self.bytes_written) / self.config.peak_bytes_per_cycle

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible values, without the times of the instructions."""
        return {
            "config": self.config.name,
            "config_fingerprint": self.config.fingerprint,
            "program": self.program,
            "program_hash": self.program_hash,
            "instructions": len(self.starts),
            "total_cycles": self.total_cycles,
            "seconds": self.seconds,
            "utilisation": self.utilisation,
            "macs": self.macs,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "counters": {unit: dict(counters) for unit, counters in self.counters.items()},
        }

    def differences(self, other: RunStats) -> list[str]:
        """What another device's run of the same program did otherwise, one sentence each; empty when nothing."""
        found = [
            f"{name} is {getattr(self, name)}, other has {getattr(other, name)}"
            for name in ("program_hash", "total_cycles", "macs", "bytes_read", "bytes_written")
            if getattr(self, name) != getattr(other, name)
        ]
        for name in ("dispatches", "starts", "ends"):
            found += _first_difference(name, getattr(self, name), getattr(other, name))
        for unit in UNITS:
            ours, theirs = self.counters[unit], other.counters[unit]
            found += [f"{unit}.{c} is {ours[c]}, other has {theirs[c]}" for c in COUNTERS if ours[c] != theirs[c]]
        return found


def _first_difference(name: str, ours: Ints, theirs: Ints) -> list[str]:
    if len(ours) != len(theirs):
        return [f"{name} has {len(ours)} instructions, other has {len(theirs)}"]
    where = np.flatnonzero(ours != theirs)
    return [f"{name}[{k}] is {ours[k]}, other has {theirs[k]} ({len(where)} differ)" for k in where[:1]]


def macs_of(config: Config, columns: Ints) -> int:
    """Multiply-accumulates of the GEMMs among instructions, padding of blocks included."""
    gemm = columns[columns[:, COL["opcode"]] == Opcode.GEMM]
    kernels = gemm[:, COL["uop_end"]] - gemm[:, COL["uop_begin"]]
    return int((gemm[:, COL["loop0"]] * gemm[:, COL["loop1"]] * kernels).sum()) * config.macs_per_cycle
