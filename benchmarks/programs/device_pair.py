"""A pair of devices that run the same programs and are compared after each.

The devices stay open, so each program starts in the state that the previous one left; after a
mismatch they are reopened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats

if TYPE_CHECKING:
    from vdla.runtime.devices import MemoryDevice

Arrays = Mapping[str, NDArray[Any]]
PairResult = tuple[RunStats | None, str]
"""The simulator's statistics, and the mismatch as text; empty if the devices agree."""
Comparator = Callable[[Program, Arrays], PairResult]
Open = Callable[[Config], AbstractContextManager[Comparator]]

PATIENCE, SLACK_CYCLES = 2, 20_000
"""The RTL is taken to hang after this multiple of the simulator's cycles plus this slack."""


@contextmanager
def rtl_pair(config: Config) -> Iterator[Comparator]:
    """The simulator and the RTL of one machine with its memory."""
    with _Pair(config) as pair:
        yield pair.compare


class _Pair:
    """Both devices, with the memory of the largest program so far."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = 0
        self.devices: tuple[MemoryDevice, MemoryDevice] | None = None
        self.stack = ExitStack()

    def __enter__(self) -> _Pair:
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def compare(self, program: Program, arrays: Arrays) -> PairResult:
        """Runs a program on both devices and compares them."""
        from vdla.runtime.compare import compare, memory_bytes
        from vdla.simulator.timing import time_program

        devices = self._open(memory_bytes(program))
        expected = time_program(program, self.config).total_cycles
        devices[1].timeout_cycles = PATIENCE * expected + SLACK_CYCLES
        comparison = compare(program, arrays, devices)
        if comparison.equal:
            return comparison.runs[0].statistics, ""
        self.stack.close()
        self.devices = None
        return comparison.runs[0].statistics, str(comparison)

    def _open(self, nbytes: int) -> tuple[MemoryDevice, MemoryDevice]:
        from vdla.runtime.devices.rtl import RtlDevice
        from vdla.runtime.devices.sim import SimDevice

        if self.devices is None or nbytes > self.size:
            self.stack.close()
            self.size = max(self.size, nbytes)
            first = self.stack.enter_context(SimDevice(self.config, self.size))
            self.devices = first, self.stack.enter_context(RtlDevice(self.config, self.size))
        return self.devices
