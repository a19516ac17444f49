# SPDX-License-Identifier: Apache-2.0
"""The checks of the self-test: registers, memory, programs against their known results.

Needs NumPy only, as a board has it. Every check ends in a `CheckOutcome`; an error of the device is
one, too, and the next check runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.isa import UNITS
from vdla.hardware.program import Program
from vdla.runtime.devices import Device
from vdla.runtime.devices.run import run
from vdla.runtime.diagnosis.known_program import KnownProgram
from vdla.simulator.stats import Result, RunStats, Times
from vdla.support.errors import Error


class CheckState(Enum):
    """Whether something works."""

    OK = "ok"
    FAILED = "failed"
    ABSENT = "-"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """A line of the report; `detail` says what is wrong, or what was seen."""

    name: str
    verdict: CheckState
    detail: str = ""
    cycles: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it does not work."""
        return self.verdict is CheckState.FAILED


Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
MEMORY_BYTES = 1 << 20
SIMULATED = ("sim", "rtl")
"""Devices whose memory is the DRAM model of their configuration, so that all counters are known."""


def check_device(device: Device, programs: Iterable[KnownProgram]) -> Iterator[CheckOutcome]:
    """Every check on an open device, one outcome each."""
    yield _guarded("registers", device, _registers)
    yield _guarded("memory", device, _memory)
    for known in programs:
        try:
            yield check_program(device, known)
        except Error as error:
            yield CheckOutcome(known.name, CheckState.FAILED, str(error))


def _guarded(name: str, device: Device, check: Callable[[Device], CheckOutcome]) -> CheckOutcome:
    try:
        return check(device)
    except Error as error:
        return CheckOutcome(name, CheckState.FAILED, str(error))


# --- registers ------------------------------------------------------------------------------------


def _registers(device: Device) -> CheckOutcome:
    """Identification and build hash, on a device whose driver is in this process."""
    driver = getattr(device, "driver", None)
    if driver is None:
        return CheckOutcome("registers", CheckState.ABSENT, f"device {device.name} shows none")
    driver.identify(device.config)
    build = driver.read_wide("BUILD")
    stated = f"build {build:012x}" if build else "build unknown"
    return CheckOutcome("registers", CheckState.OK, f"fingerprint {device.config.fingerprint}, {stated}")


# --- memory ---------------------------------------------------------------------------------------


def _memory(device: Device) -> CheckOutcome:
    """Zeros after `allocate`, then patterns over a block, then single bytes at odd places."""
    address = device.allocate(MEMORY_BYTES)
    try:
        error = _first_wrong("zeros", np.zeros(MEMORY_BYTES, np.uint8), device.read(address, MEMORY_BYTES))
        for name, pattern in _patterns():
            if error is None:
                device.write(address, pattern)
                error = _first_wrong(name, pattern, device.read(address, MEMORY_BYTES))
        error = error or _odd_places(device, address)
    finally:
        device.free(address)
    if error is not None:
        return CheckOutcome("memory", CheckState.FAILED, error)
    return CheckOutcome("memory", CheckState.OK, f"{MEMORY_BYTES >> 20} MiB of patterns")


def _patterns() -> Iterator[tuple[str, Bytes]]:
    yield "ones", np.full(MEMORY_BYTES, 255, np.uint8)
    yield "checkerboard", np.resize(np.array([0x55, 0xAA], np.uint8), MEMORY_BYTES)
    yield "addresses", np.arange(MEMORY_BYTES // 4, dtype="<u4").view(np.uint8)
    yield "random", np.random.default_rng(13).integers(0, 256, MEMORY_BYTES, np.uint8)


def _odd_places(device: Device, address: int) -> str | None:
    """Writes of few bytes change those and no others."""
    expected = device.read(address, 256)
    for offset, count in ((1, 1), (7, 2), (31, 3), (60, 9), (127, 64)):
        part = np.arange(offset, offset + count, dtype=np.uint8)
        expected[offset : offset + count] = part
        device.write(address + offset, part)
    return _first_wrong("single bytes", expected, device.read(address, 256))


def _first_wrong(name: str, expected: Bytes, got: Bytes) -> str | None:
    where = np.flatnonzero(expected != got)
    if not len(where):
        return None
    first = int(where[0])
    return f"{name}: byte {first} must be {expected[first]:#04x}, got {got[first]:#04x} ({len(where)} bytes differ)"


# --- programs -------------------------------------------------------------------------------------


def check_program(device: Device, known: KnownProgram) -> CheckOutcome:
    """One program on the device: results, then counters."""
    got = run(known.program, known.inputs, device)
    difference = wrong_entry(known.program, known.outputs, got.outputs) or _wrong_counters(device, known, got)
    cycles = got.statistics.total_cycles
    return CheckOutcome(known.name, CheckState.FAILED if difference else CheckState.OK, difference or "", cycles)


def wrong_entry(program: Program, expected: Mapping[str, Array], got: Mapping[str, Array]) -> str | None:
    """The first wrong entry of the outputs as a sentence."""
    for name, wanted in expected.items():
        where = np.argwhere(wanted != got[name])
        if len(where):
            place = tuple(map(int, where[0]))
            index = ", ".join(map(str, place))
            count = f"{len(where)} of {wanted.size} differ"
            return f"{program.name}: {name}[{index}] must be {wanted[place]}, got {got[name][place]} ({count})"
    return None


def _wrong_counters(device: Device, known: KnownProgram, got: Result) -> str | None:
    """On a simulated memory all counters must be equal; on any device they add up."""
    stats = got.statistics
    for unit in UNITS:
        total = sum(stats.counters[unit].values())
        if total != stats.total_cycles:
            return f"counters of {unit} must add up to {stats.total_cycles} cycles, got {total}"
    if known.statistics is None or device.name not in SIMULATED:
        return None
    differences = known.statistics.differences(_without_times(stats, known.statistics))
    return f"simulator and {device.name}: {differences[0]}" if differences else None


def _without_times(stats: RunStats, model: RunStats) -> RunStats:
    """The statistics, with the model's times where the device observes none."""
    if Times.of(stats).known:
        return stats
    return replace(stats, dispatches=model.dispatches, starts=model.starts, ends=model.ends)
