# SPDX-License-Identifier: Apache-2.0
"""A pair of devices that run the same programs and are compared after each.

The devices stay open, so each program starts in the state that the previous one left, unless it
starts from random registers; after a mismatch they are reopened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats
from vdla.support.arrays import Array

if TYPE_CHECKING:
    from vdla.runtime.devices import MemoryDevice
    from vdla.runtime.devices.rtl import RtlModel

Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a run that must not change its results.

    `places`: the addresses of tensors and stream, or None for those that the devices choose;
    `start`: the seed of the RTL's registers and memories at power-up, or None for a machine that
    keeps what the previous run left.
    """

    places: Mapping[str, int] | None = None
    start: int | None = None

    def __str__(self) -> str:
        where = "" if self.places is None else ", ".join(f"{name} {at:#x}" for name, at in self.places.items())
        state = "" if self.start is None else f"registers from seed {self.start}"
        return "; ".join(part for part in (where and f"places {where}", state) if part) or "places by the device"


@dataclass(frozen=True, slots=True)
class PairResult:
    """The simulator's statistics, and the mismatch as text; empty if the devices agree.

    `data_compared`: whether any data was: the buffers of both devices, or memory that a STORE
    writes.
    """

    statistics: RunStats | None
    difference: str = ""
    data_compared: bool = True


Comparator = Callable[[Program, Arrays, Conditions], PairResult]
Open = Callable[[Config], AbstractContextManager[Comparator]]

PATIENCE, SLACK_CYCLES = 2, 20_000
"""The RTL is taken to hang after this multiple of the simulator's cycles plus this slack."""


@contextmanager
def rtl_pair(config: Config, model: RtlModel | None = None) -> Iterator[Comparator]:
    """The simulator and the RTL of one machine with its memory; the RTL's assertions are on.

    `model` is one to compare in place of the RTL's own.
    """
    with _Pair(config, model) as pair:
        yield pair.compare


class _Pair:
    """Both devices, with the memory of the largest program so far."""

    def __init__(self, config: Config, model: RtlModel | None) -> None:
        self.config = config
        self.model = model
        self.size = 0
        self.start: int | None = None
        self.devices: tuple[MemoryDevice, MemoryDevice] | None = None
        self.stack = ExitStack()

    def __enter__(self) -> _Pair:
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def compare(self, program: Program, arrays: Arrays, conditions: Conditions) -> PairResult:
        """Runs a program on both devices and compares them."""
        from vdla.runtime.diagnosis.comparison import compare, memory_bytes
        from vdla.simulator.timing import time_program

        devices = self._open(memory_bytes(program), conditions.start)
        places = None if conditions.places is None else dict(conditions.places)
        expected = time_program(program, self.config, places).total_cycles
        devices[1].timeout_cycles = PATIENCE * expected + SLACK_CYCLES
        comparison = compare(program, arrays, devices, places)
        stored = bool((program.columns[:, COL["opcode"]] == Opcode.STORE).any())
        if comparison.equal:
            return PairResult(comparison.runs[0].statistics, "", comparison.buffers_compared or stored)
        self._close()
        return PairResult(comparison.runs[0].statistics, str(comparison))

    def _open(self, nbytes: int, start: int | None) -> tuple[MemoryDevice, MemoryDevice]:
        from vdla.runtime.devices.rtl import RtlDevice
        from vdla.runtime.devices.sim import SimDevice

        if nbytes > self.size or start is not None or start != self.start:
            self._close()
        if self.devices is None:
            self.size, self.start = max(self.size, nbytes), start
            first = self.stack.enter_context(SimDevice(self.config, self.size))
            model = self.model or _built(self.config)
            second = RtlDevice(self.config, self.size, assertions=True, start=start, model=model)
            self.devices = first, self.stack.enter_context(second)
        return self.devices

    def _close(self) -> None:
        self.stack.close()
        self.devices = None


@cache
def _built(config: Config) -> RtlModel:
    """The RTL's own model; looking it up again for each program would read all sources."""
    from vdla.runtime.devices.rtl import RtlModel
    from vdla.runtime.devices.rtl_build import BuildOptions, build_library

    return RtlModel(build_library(config, BuildOptions(assertions=True)))
