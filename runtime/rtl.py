"""The RTL as a device: the hardware's own description, run by Verilator, driven through its control registers.

    with RtlDevice(config) as device: run(program, arrays, device)

The first use of a configuration builds it, which takes about half a minute. Times of instructions come from the trace
port, everything else from the registers and the memory, as on a board.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.device import DeviceError
from vdla.runtime.driver import Driver, Stream
from vdla.runtime.memory_device import DEFAULT_BYTES, MemoryDevice
from vdla.runtime.rtl_build import Options, library
from vdla.runtime.rtl_library import UNIT_NUMBERS, Machine, Parameters
from vdla.runtime.times import UNKNOWN, Times

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.hardware.program import Program
    from vdla.simulator.stats import RunStats

Ints = NDArray[np.int64]
CHUNK_CYCLES = 1 << 14  # between two looks at the keyboard and at the limits
START_CYCLES = 64  # between the command to start and the first cycle that counts, at most
RESET_CYCLES = 1 << 16


@dataclass(frozen=True, slots=True)
class Injection:
    """An error response of the memory: to one beat of a read burst, or to one write burst; numbers count from 0."""

    write: bool
    burst: int
    beat: int = 0
    response: int = 2  # SLVERR; 3 is DECERR


class RtlDevice(MemoryDevice):
    """A machine of the RTL, built when it is opened.

    `waves` is a file for waveforms (FST); `assertions` stops a run at the first broken assertion of the RTL;
    `stalls` seeds random pauses of every channel, which change all times but no result.
    """

    name = "rtl"

    def __init__(
        self,
        config: Config,
        memory_bytes: int = DEFAULT_BYTES,
        timeout_cycles: int | None = None,
        *,
        waves: Path | None = None,
        assertions: bool = False,
        stalls: int | None = None,
    ) -> None:
        super().__init__(config, memory_bytes, timeout_cycles)
        self.injection: Injection | None = None
        self._waves = _writable(waves)
        self._stalls = stalls
        self._library = library(config, Options(waves is not None, assertions))
        self._power_up()

    def _power_up(self) -> None:
        self._machine = Machine(f"device {self.name}", self._library, self.memory, self._waves)
        self._machine.configure(self._parameters())
        self.driver = Driver(f"device {self.name}", self._machine)
        self.driver.identify(self.config)

    def _parameters(self) -> Parameters:
        dram, error = self.config.dram, self.injection
        return Parameters(
            read_latency=dram.read_latency,
            write_latency=dram.write_latency,
            beat_cycles=dram.beat_cycles,
            burst_gap=dram.burst_gap,
            burst_beats=self.config.burst_beats,
            stalls=self._stalls is not None,
            seed=self._stalls or 0,
            error_channel=0 if error is None else 1 + error.write,
            error_burst=0 if error is None else error.burst,
            error_beat=0 if error is None else error.beat,
            error_response=0 if error is None else error.response,
        )

    # --- runs

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        from vdla.hardware.program import STREAM

        words = program.link(addresses)
        if words.size:
            self.write(addresses[STREAM], words)
        self.execute(addresses[STREAM], len(words), _longest(program))
        return self._statistics(program)

    def execute(self, address: int, count: int, quiet_cycles: int = 1 << 20) -> None:
        """Run the `count` words at an address, whatever they are; DeviceError when they do not run to their end.

        More than `quiet_cycles` without an event is a hang. Whatever happens, the machine can run again afterwards.
        """
        dram = self.config.dram
        stream = Stream(address, count, dram.read_latency, dram.outstanding_reads, dram.outstanding_writes)
        self._machine.configure(self._parameters())
        self._machine.forget_events()
        try:
            self.driver.start(stream)
            self._wait(count, quiet_cycles + 4 * (dram.read_latency + dram.write_latency))
            self.driver.finish()
        except BaseException:
            self._recover()
            raise

    def _wait(self, count: int, quiet_cycles: int) -> None:
        machine, limit = self._machine, self.timeout_cycles
        cycles = START_CYCLES
        while not machine.wait(CHUNK_CYCLES if limit is None else min(CHUNK_CYCLES, cycles)):
            if limit is not None:
                cycles = limit - machine.running_cycles
            if limit is not None and cycles <= 0:
                raise DeviceError(self._hang(f"in at most {limit} cycles, got a timeout", count))
            if machine.quiet_cycles > quiet_cycles:
                raise DeviceError(self._hang(f", got {machine.quiet_cycles} cycles in which nothing moved", count))

    def _hang(self, what: str, count: int) -> str:
        comma = "" if what.startswith(",") else " "
        after = f" (cycle {self._machine.running_cycles})"
        return f"device {self.name}: the program must end{comma}{what}{after}\n{self.driver.state(count)}"

    def _recover(self) -> None:
        """After anything went wrong: a soft reset; a new machine where even that fails."""
        try:
            self.driver.request_reset()
            for _ in range(RESET_CYCLES // CHUNK_CYCLES):
                if not self.driver.flag("STATUS", "busy"):
                    return
                self._machine.wait(CHUNK_CYCLES)
        except DeviceError:
            pass
        self._machine.close()
        self._power_up()

    # --- what was seen

    def times(self, program: Program) -> Times:
        """When the instructions of the last run were dispatched, started and ended, also of one that did not end."""
        from vdla.hardware.isa import COL

        machine, units = self._machine, program.columns[:, COL["unit"]]
        starts, ends = np.full(len(units), UNKNOWN, np.int64), np.full(len(units), UNKNOWN, np.int64)
        for unit in UNIT_NUMBERS:
            mine = np.flatnonzero(units == unit)
            _fill(starts, mine, machine.starts(unit))
            _fill(ends, mine, machine.ends(unit))
        dispatches = np.full(len(units), UNKNOWN, np.int64)
        _fill(dispatches, np.arange(len(units)), machine.dispatches())
        return Times(dispatches, starts, ends)

    def _statistics(self, program: Program) -> RunStats:
        from vdla.simulator.stats import RunStats
        from vdla.simulator.timing import macs_of

        times, (bytes_read, bytes_written) = self.times(program), self._machine.bytes_moved
        return RunStats(
            config=self.config,
            program=program.name,
            program_hash=program.hash,
            total_cycles=self.driver.read_wide("CYCLES"),
            counters=self.driver.counters(),
            starts=times.starts,
            ends=times.ends,
            dispatches=times.dispatches,
            waits=None,
            macs=macs_of(self.config, program.columns),
            bytes_read=bytes_read,
            bytes_written=bytes_written,
        )

    def close(self) -> None:
        """Give everything back; waves are whole from then on."""
        if hasattr(self, "_machine"):
            self._machine.close()
        super().close()


def _writable(waves: Path | None) -> Path | None:
    """The file, which must be one that can be written."""
    if waves is not None:
        try:
            waves.open("wb").close()
        except OSError as error:
            raise DeviceError(f"device rtl: file of waves must be writable, got {error}") from None
    return waves


def _fill(times: Ints, where: NDArray[np.intp], seen: Ints) -> None:
    """The times seen, in order; not all need have happened."""
    if len(seen) > len(where):
        raise DeviceError(f"device rtl: trace must have at most {len(where)} events of a kind, got {len(seen)}")
    times[where[: len(seen)]] = seen


def _longest(program: Program) -> int:
    """Cycles that any instruction takes at most without an event that can be seen, with a margin."""
    from vdla.hardware.isa import COL

    columns = program.columns
    if not len(columns):
        return CHUNK_CYCLES
    kernels = columns[:, COL["uop_end"]] - columns[:, COL["uop_begin"]]
    iterations = columns[:, COL["loop0"]] * columns[:, COL["loop1"]] * kernels
    rows = columns[:, COL["y_before"]] + columns[:, COL["y_size"]] + columns[:, COL["y_after"]]
    entries = rows * (columns[:, COL["x_before"]] + columns[:, COL["x_size"]] + columns[:, COL["x_after"]])
    return CHUNK_CYCLES + 2 * int((iterations + entries * columns[:, COL["z_size"]]).max())
