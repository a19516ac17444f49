"""Who says whether two devices agree on a program: the comparison that the equality benchmark counts.

A judge keeps its devices open, so that each program starts in what the one before it left; after a difference it opens
new ones.
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
    from vdla.runtime.devices.memory_device import MemoryDevice

Arrays = Mapping[str, NDArray[Any]]
Judged = tuple[RunStats | None, str]
"""The simulator's statistics, and what differs: nothing where it is empty."""
Judge = Callable[[Program, Arrays], Judged]
Open = Callable[[Config], AbstractContextManager[Judge]]

PATIENCE, SLACK_CYCLES = 2, 20_000
"""The RTL may take so many times the simulator's cycles, and so many more, before it counts as hanging."""


@contextmanager
def rtl_judge(config: Config) -> Iterator[Judge]:
    """The simulator against the RTL of a machine with its memory."""
    with _Pair(config) as pair:
        yield pair.judge


class _Pair:
    """Both devices, with as much memory as the largest program so far needed."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = 0
        self.devices: tuple[MemoryDevice, MemoryDevice] | None = None
        self.stack = ExitStack()

    def __enter__(self) -> _Pair:
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def judge(self, program: Program, arrays: Arrays) -> Judged:
        """Run and compare."""
        from vdla.runtime.compare.comparison import compare, memory_bytes
        from vdla.simulator.timing.timing import time_program

        devices = self._open(memory_bytes(program))
        expected = time_program(program, self.config).total_cycles
        devices[1].timeout_cycles = PATIENCE * expected + SLACK_CYCLES
        comparison = compare(program, arrays, devices)
        if comparison.equal:
            return comparison.sides[0].stats, ""
        self.stack.close()
        self.devices = None
        return comparison.sides[0].stats, str(comparison)

    def _open(self, nbytes: int) -> tuple[MemoryDevice, MemoryDevice]:
        from vdla.runtime.devices.rtl import RtlDevice
        from vdla.runtime.devices.sim import SimDevice

        if self.devices is None or nbytes > self.size:
            self.stack.close()
            self.size = max(self.size, nbytes)
            first = self.stack.enter_context(SimDevice(self.config, self.size))
            self.devices = first, self.stack.enter_context(RtlDevice(self.config, self.size))
        return self.devices
