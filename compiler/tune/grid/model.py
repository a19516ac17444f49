# SPDX-License-Identifier: Apache-2.0
"""A model of what a launch costs on a GPU: how long its busiest processor works or waits.

Memory, shared memory, arithmetic and waiting each bound the time from below, and overlap except for
a part. Numbers may be columns, one entry for each schedule. The machine is of the size of a GPU for
data centres; nothing here was measured on a GPU, so costs rank schedules and are not times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = float | NDArray[np.float64]

WARP = 32
BANKS, BANK_BYTES = 32, 4  # of shared memory, and of one bank's words
IN_FLIGHT = 4  # iterations of a loop whose loads are waited for together
TENSOR_CORE_STEP = 4.0  # operations in whose time a processor's tensor cores do one step of a warp
OWN_REGISTERS = 24  # of a thread, for addresses and loop variables
_NOT_OVERLAPPED = 0.1  # of what takes less time than the longest part


@dataclass(frozen=True, slots=True)
class GridMachine:
    """A GPU: what each of its processors holds, and does in a cycle."""

    processors: int = 108
    warps: int = 64
    groups: int = 32
    registers: int = 65_536
    shared_bytes: int = 164 * 1024
    memory_bytes_cycle: float = 10.0
    operations_cycle: float = 2.0  # of warps, each for 32 threads
    memory_latency: float = 450.0
    barrier_latency: float = 30.0
    launch_cycles: float = 3_000.0


@dataclass(frozen=True, slots=True)
class GridWork:
    """What a launch does: its groups, what one of them holds, and what one of them executes.

    `registers` are those of a thread, 32 bits each. `memory_bytes` are moved by transactions,
    whole sectors; `shared_passes` access every bank of shared memory once; `operations` are
    instructions of warps; `waits` counts how often a thread waits for memory.
    """

    groups: Numbers
    threads: Numbers
    shared_bytes: Numbers
    registers: Numbers
    memory_bytes: Numbers
    shared_passes: Numbers
    operations: Numbers
    waits: Numbers
    barriers: Numbers

    @property
    def warps(self) -> Numbers:
        """The warps of a group."""
        return np.ceil(self.threads / WARP)

    def resident(self, machine: GridMachine) -> Numbers:
        """The groups that a processor holds at once; at least one."""
        by_registers = machine.registers / (self.registers * self.warps * WARP)
        by_shared = machine.shared_bytes / np.maximum(self.shared_bytes, 1)
        most = np.minimum(np.minimum(machine.warps / self.warps, machine.groups), np.minimum(by_registers, by_shared))
        return np.maximum(np.floor(most), 1)

    def occupancy(self, machine: GridMachine) -> Numbers:
        """The share of the warps that a processor can hold."""
        return np.minimum(self.resident(machine) * self.warps / machine.warps, 1)


def modelled_cycles(work: GridWork, machine: GridMachine) -> Numbers:
    """The cycles of a launch."""
    share = np.ceil(work.groups / machine.processors)
    turns = np.ceil(share / work.resident(machine))
    parts = np.stack(
        np.broadcast_arrays(
            share * work.memory_bytes / machine.memory_bytes_cycle,
            share * work.shared_passes,
            share * work.operations / machine.operations_cycle,
            turns * (work.waits * machine.memory_latency + work.barriers * machine.barrier_latency),
        )
    )
    longest = parts.max(axis=0)
    cycles = machine.launch_cycles + longest + _NOT_OVERLAPPED * (parts.sum(axis=0) - longest)
    return np.asarray(cycles, np.float64)[()]


def ceil_div(extent: int, tile: int) -> int:
    """The tiles that cover an extent."""
    return -(-extent // tile)
