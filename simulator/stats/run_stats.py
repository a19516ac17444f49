# SPDX-License-Identifier: Apache-2.0
"""The statistics of a run: cycles, counters of every unit, times of every instruction.

The invariant: the counters of a unit sum to the total. Every device returns the same class, so two
devices can be compared field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, COUNTERS, UNITS, Opcode
from vdla.support.arrays import Ints
from vdla.support.html_repr import shown_by


@dataclass(frozen=True, slots=True, eq=False)
class RunStats:
    """Times are cycles from 0, inclusive: instruction k runs from `starts[k]` to `ends[k]`."""

    config: Config
    program: str
    program_hash: str
    total_cycles: int
    counters: dict[str, dict[str, int]]
    starts: Ints
    ends: Ints
    dispatches: Ints
    waits: Ints | None  # [instruction, counter]: its unit's cycles; None where not observed
    macs: int  # of GEMM, padded blocks included
    bytes_read: int  # of tensors and the stream
    bytes_written: int

    def __repr__(self) -> str:
        return f"<RunStats {self.program}: {self.total_cycles:,} cycles, utilisation {self.utilisation:.1%}>"

    _repr_html_ = shown_by("runs", "statistics_html")

    @property
    def seconds(self) -> float:
        """At the configuration's clock."""
        return self.total_cycles / (self.config.clock_mhz * 1e6)

    @property
    def utilisation(self) -> float:
        """Multiply-accumulates done over those possible in all cycles, from 0 to 1."""
        return self.macs / (self.config.macs_per_cycle * self.total_cycles) if self.total_cycles else 0.0

    @property
    def compute_bound_cycles(self) -> float:
        """The fewest cycles for the multiply-accumulates."""
        return self.macs / self.config.macs_per_cycle

    @property
    def memory_bound_cycles(self) -> float:
        """The fewest cycles for the bytes moved, by read and write channel in parallel."""
        return max(self.bytes_read, self.bytes_written) / self.config.peak_bytes_per_cycle

    def to_dict(self) -> dict[str, Any]:
        """The totals and counters as JSON-compatible values."""
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
        """The differences to another run of the same program, a sentence each.

        Times are left out where one of the devices records none.
        """
        result = [
            f"{name} is {getattr(self, name)}, other has {getattr(other, name)}"
            for name in ("program_hash", "total_cycles", "macs", "bytes_read", "bytes_written")
            if getattr(self, name) != getattr(other, name)
        ]
        for name in ("dispatches", "starts", "ends"):
            result += _first_difference(name, getattr(self, name), getattr(other, name))
        for unit in UNITS:
            ours, theirs = self.counters[unit], other.counters[unit]
            result += [f"{unit}.{c} is {ours[c]}, other has {theirs[c]}" for c in COUNTERS if ours[c] != theirs[c]]
        return result


def _first_difference(name: str, ours: Ints, theirs: Ints) -> list[str]:
    if len(ours) != len(theirs):
        return [f"{name} has {len(ours)} instructions, other has {len(theirs)}"]
    if (ours < 0).all() or (theirs < 0).all():  # UNKNOWN
        return []
    where = np.flatnonzero(ours != theirs)
    return [f"{name}[{k}] is {ours[k]}, other has {theirs[k]} ({len(where)} differ)" for k in where[:1]]


def macs_of(config: Config, columns: Ints) -> int:
    """The multiply-accumulates of all GEMM instructions, padded blocks included."""
    return int(gemm_macs(config, columns).sum())


def gemm_macs(config: Config, columns: Ints) -> Ints:
    """The multiply-accumulates of each instruction, padded blocks included; 0 for any but GEMM."""
    uops = columns[:, COL["uop_end"]] - columns[:, COL["uop_begin"]]
    products = columns[:, COL["loop0"]] * columns[:, COL["loop1"]] * uops * config.macs_per_cycle
    result: Ints = np.where(columns[:, COL["opcode"]] == Opcode.GEMM, products, 0)
    return result


def intensity(stats: RunStats) -> float:
    """Operations (two a multiply-accumulate) a byte of the busier direction, stream included.

    Reads and writes have a channel each, so the other direction does not lower the roof.
    """
    return 2 * stats.macs / max(1, stats.bytes_read, stats.bytes_written)


def attained_gops(stats: RunStats) -> float:
    """The speed of a run, in 10^9 operations a second."""
    return 2 * stats.macs / stats.seconds / 1e9 if stats.total_cycles else 0.0
