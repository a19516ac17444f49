# SPDX-License-Identifier: Apache-2.0
"""The base of devices whose DRAM is an array of this process: memory, and the checks before a run.

The invariant: `_run` is given verified programs only, compiled for this machine, with allocated
memory for every tensor and for the stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Buffer, Config
from vdla.hardware.program import Program
from vdla.runtime.devices.allocator import Allocator
from vdla.runtime.devices.device import DeviceError
from vdla.runtime.devices.request_checks import flat_bytes, require_addresses, require_config, require_timeout
from vdla.simulator.stats import RunStats, Times
from vdla.simulator.support.errors import require_program
from vdla.simulator.verify import require_verified
from vdla.support.plain import PLAIN

if TYPE_CHECKING:
    from typing_extensions import Self


Bytes = NDArray[np.uint8]
Contents = Mapping[Buffer, NDArray[Any]]
"""The entries of each on-chip buffer, `[depth, elements]`: elements of inp and wgt as int8, sums as
int32, packed scales as int64, the fields of micro-ops as int64, the bytes of out entries.
"""
DEFAULT_BYTES = 1 << (26 if PLAIN else 30)
"""The DRAM of a device; WebAssembly has no memory whose untouched pages take none."""


class MemoryDevice(ABC):
    """A machine with `memory_bytes` of DRAM; untouched pages take no memory."""

    name: ClassVar[str]
    takes_contents: ClassVar[bool] = False
    """Whether `begin_with` sets the buffers; if not, they keep what the last run left in them."""

    def __init__(self, config: Config, memory_bytes: int = DEFAULT_BYTES, timeout_cycles: int | None = None) -> None:
        self.config = require_config(f"device {self.name}", config)
        self.timeout_cycles = require_timeout(f"device {self.name}", timeout_cycles)
        self._memory: Allocator | None = Allocator(self.name, memory_bytes)

    # --- memory

    def allocate(self, nbytes: int) -> int:
        """The address of zeroed memory, a multiple of ALIGNMENT."""
        return self._open().allocate(nbytes)

    def allocate_at(self, address: int, nbytes: int) -> int:
        """Zeroed memory at an address beyond the device's own, below 2**40; returns the address.

        From then on, the machine reaches nothing but allocated blocks.
        """
        return self._open().allocate_at(address, nbytes)

    def free(self, address: int) -> None:
        """Free a block that `allocate` returned."""
        self._open().free(address)

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes into allocated memory."""
        flat = flat_bytes(f"device {self.name}", data)
        self._open().window(address, len(flat))[:] = flat

    def read(self, address: int, nbytes: int) -> Bytes:
        """Copy bytes out of allocated memory."""
        return self._open().window(address, nbytes).copy()

    @property
    def memory(self) -> Bytes:
        """A view of the whole DRAM, allocated or not."""
        return self._open().data

    # --- programs

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run a program to its end.

        ProgramError, VerifyError, SimulationError or DeviceError where it cannot.
        """
        where, memory = f"device {self.name}", self._open()
        require_program(where, program)
        require_addresses(where, self.config, program, addresses, memory.window)
        require_verified(program)
        return self._run(program, addresses)

    @abstractmethod
    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run a program after all checks."""

    def contents(self) -> Contents | None:
        """The on-chip buffers after the last run, where the device shows them."""
        return None

    def begin_with(self, contents: Contents) -> None:
        """Begin the next run with these buffers, where `takes_contents`."""
        raise DeviceError(f"device {self.name}: buffers must be left as they are, got contents to begin with")

    def times(self, program: Program) -> Times:
        """When the instructions of the last run were dispatched, started and ended, where known."""
        return Times.none(len(program))

    # --- lifetime

    def _open(self) -> Allocator:
        if self._memory is None:
            raise DeviceError(f"device {self.name}: device must be open, got a call after close")
        return self._memory

    def close(self) -> None:
        """Release the memory."""
        self._memory = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
