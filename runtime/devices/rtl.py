# SPDX-License-Identifier: Apache-2.0
"""The RTL as a device: simulated by Verilator, driven through its control registers.

    with RtlDevice(config) as device:
        run(program, inputs, device)

The first use of a configuration builds the model, which takes about half a minute. Times of
instructions come from the trace port, everything else from registers and memory as on a board.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, RLock

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, columns, instruction_bytes
from vdla.hardware.program import STREAM, Program
from vdla.hardware.timing import extension_rows
from vdla.runtime.devices.device import DeviceError
from vdla.runtime.devices.driver import Driver, Stream
from vdla.runtime.devices.memory_device import DEFAULT_BYTES, Contents, MemoryDevice
from vdla.runtime.devices.request_checks import MOST_BYTES, one_thread
from vdla.runtime.devices.rtl_activity import Counters, activity_counts, model_counters
from vdla.runtime.devices.rtl_buffers import buffer_contents
from vdla.runtime.devices.rtl_build import BuildOptions, build_library
from vdla.runtime.devices.rtl_library import UNIT_NUMBERS, EventLog, MemoryParameters, RtlMachine, memory_parameters
from vdla.runtime.devices.switching import SUFFIX as SAIF
from vdla.simulator.energy import EventCounts
from vdla.simulator.stats import RunStats, Times, macs_of
from vdla.simulator.stats.times import UNKNOWN
from vdla.support.integers import is_int

Ints = NDArray[np.int64]
_CHUNK_CYCLES = 1 << 14  # between two checks of the limits and for Ctrl-C
_RESET_CYCLES = 1 << 18  # enough for any outstanding transactions on the fastest memory
_LAST_WORD = (1 << 32) - 1
_MOST_CYCLES = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Injection:
    """An injected AXI error, of a beat of a read burst or of a write burst, from 0."""

    write: bool
    burst: int
    beat: int = 0
    response: int = 2  # SLVERR; 3 is DECERR

    def __post_init__(self) -> None:
        """DeviceError where a number is out of range."""
        _require_integer("injected burst", self.burst, 0, _LAST_WORD)
        _require_integer("injected beat", self.beat, 0, 255)
        _require_integer("injected response", self.response, 2, 3)


@dataclass(frozen=True, slots=True)
class RtlModel:
    """A library to use instead of building the configuration, its plusarg, and the build that its
    registers show where it differs from that of the configuration.
    """

    library: Path
    argument: str | None = None
    build: str | None = None


class RtlDevice(MemoryDevice):
    """A machine of the RTL, built when it is opened.

    `waves` is a file for waveforms (FST), or for the switching of signals if it ends in `.saif`
    (`vdla.devices.read_switching` reads it when the device is closed); `window`, the first and the
    last cycle that it has of a run, from 0; `assertions` ends a run at the first failed
    assertion of the RTL; `stalls` seeds random back-pressure on every channel,
    which changes times but no result; `start` seeds the registers and memories at power-up, which
    changes nothing that a verified program can see, and needs `assertions`; `model` is a model to
    run in place of its own; with `activity` the model counts events (`activity_counts`).
    """

    name = "rtl"

    def __init__(
        self,
        config: Config,
        memory_bytes: int = DEFAULT_BYTES,
        timeout_cycles: int | None = None,
        *,
        waves: Path | str | None = None,
        window: tuple[int, int] | None = None,
        assertions: bool = False,
        stalls: int | None = None,
        start: int | None = None,
        model: RtlModel | None = None,
        activity: bool = False,
    ) -> None:
        super().__init__(config, memory_bytes, timeout_cycles)
        self.injection: Injection | None = None
        self._lock, self._stop_asked = RLock(), Event()
        self._seen, self._wave_times = EventLog.empty(), (0, 0)
        self._counted: Counters = {}
        self._stalls = None if stalls is None else _require_integer("seed of stalls", stalls, 0, _LAST_WORD)
        self._start = _require_start(start, assertions)
        self._waves = None if waves is None else _writable(waves)
        self._window = _require_window(window, self._waves)
        saif = self._waves is not None and self._waves.suffix == SAIF
        options = BuildOptions(waves is not None, assertions, activity=activity, saif=saif)
        self._model = model or RtlModel(build_library(config, options))
        self._power_up()

    def _power_up(self) -> None:
        where, model = f"device {self.name}", self._model
        self._machine = RtlMachine(
            where, model.library, self.memory, self._waves, self._start, model.argument, self._window
        )
        self._machine.configure(self._parameters())
        self.driver = Driver(where, self._machine)
        self.driver.identify(self.config)

    def _parameters(self) -> MemoryParameters:
        error = self.injection
        return memory_parameters(
            self.config,
            stalls=self._stalls is not None,
            seed=self._stalls or 0,
            error_channel=0 if error is None else 1 + bool(error.write),
            error_burst=0 if error is None else error.burst,
            error_beat=0 if error is None else error.beat,
            error_response=0 if error is None else error.response,
        )

    # --- runs

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        words = program.link(addresses)
        with self._alone():
            if words.size:
                self.write(addresses[STREAM], words)
            self.execute(addresses[STREAM], len(words), _longest(program))
            return self._statistics(program)

    def execute(self, address: int, count: int, quiet_cycles: int = 1 << 20) -> None:
        """Run the `count` words at an address, verified or not; DeviceError when they do not end.

        More than `quiet_cycles` without an event is a hang. The machine can run again afterwards,
        also after an error.
        """
        dram, beat = self.config.dram, self.config.axi_bytes
        address = _require_integer("address of the stream", address, 0, MOST_BYTES - 1)
        count = _require_integer("number of instructions", count, 0, _LAST_WORD)
        if address % beat:
            raise DeviceError(f"device {self.name}: address of the stream must be a multiple of {beat}, got {address}")
        stream = Stream(address, count, dram.read_latency, dram.outstanding_reads, dram.outstanding_writes)
        with self._alone():
            self._machine.configure(self._parameters())
            self._machine.map([(block.address, block.nbytes, block.offset) for block in self._open().windows()])
            self._machine.forget_events()
            self._counted = model_counters(self._machine)
            self._stop_asked.clear()
            try:
                self.driver.start(stream)
                self._wait(self._fields(address, count), quiet_cycles + 4 * (dram.read_latency + dram.write_latency))
                self.driver.finish()
                self._observe()
            except BaseException:
                self._observe()  # before the reset adds events
                self._recover()
                raise

    def _observe(self) -> None:
        self._seen = self._machine.trace()
        self._wave_times = self._machine.wave_time(0), self._machine.wave_time(1)

    def _alone(self) -> AbstractContextManager[None]:
        """Exclusive use by one thread: the calls into the model release the GIL."""
        return one_thread(f"device {self.name}", self._lock)

    def _wait(self, fields: Ints, quiet_cycles: int) -> None:
        machine = self._machine
        while not machine.wait(self._cycles_left(fields)):
            if machine.quiet_cycles > quiet_cycles:
                raise DeviceError(self._hang(f"hangs: no event for {machine.quiet_cycles} cycles", fields))
        self._cycles_left(fields)

    def _cycles_left(self, fields: Ints) -> int:
        """Cycles until the next check, at most one beyond the limit; DeviceError beyond it."""
        limit, past = self.timeout_cycles, self._machine.running_cycles
        if self._stop_asked.is_set():
            raise DeviceError(self._hang("was stopped", fields))
        if limit is None:
            return _CHUNK_CYCLES
        if past > limit:
            raise DeviceError(self._hang(f"has not ended after {limit} cycles", fields))
        return min(_CHUNK_CYCLES, limit - past + 1)

    def _hang(self, what: str, fields: Ints) -> str:
        cycle = self._machine.running_cycles  # before the registers are read, which takes cycles
        state = self.driver.state().describe(self.config, fields)
        return f"device {self.name}: the program {what} (cycle {cycle})\n{state}"

    def _fields(self, address: int, count: int) -> Ints:
        """The fields of the words at an address, as far as they lie in memory."""
        nbytes = instruction_bytes(self.config)
        begin = self._open().offset(address)
        words = self.memory[begin : begin + count * nbytes]
        return columns(self.config, words[: len(words) // nbytes * nbytes].reshape(-1, nbytes))

    def _recover(self) -> None:
        """Soft reset with the fastest memory after an error; a new machine if that fails."""
        quick = self._parameters()
        quick.read_latency = quick.write_latency = quick.beat_cycles = 1
        quick.burst_gap = quick.bus_bytes = 0
        try:
            self._machine.configure(quick)
            self.driver.request_reset()
            for _ in range(_RESET_CYCLES // _CHUNK_CYCLES):
                if not self.driver.flag("STATUS", "busy"):
                    return
                self._machine.wait(_CHUNK_CYCLES)
        except DeviceError:
            pass
        self._machine.close()
        self._waves = None  # keep the waveforms of the failure
        self._power_up()

    def stop(self) -> None:
        """End the run in progress with DeviceError, from another thread; a soft reset follows."""
        self._stop_asked.set()

    # --- observations

    def contents(self) -> Contents:
        """The on-chip buffers, which keep their contents between runs."""
        with self._alone():
            return buffer_contents(self.config, self._machine.memories())

    def wave_time(self, cycle: int) -> int:
        """The time in the waveforms at which a cycle of the last run begins."""
        self._open()
        begin, following = self._wave_times
        return begin + cycle * (following - begin)

    def activity_counts(self) -> EventCounts:
        """The events of the last run, as `Activity.total` of `vdla.simulator.energy` has them;
        DeviceError without `activity`.
        """
        with self._alone():
            return activity_counts(self.config, self._machine, self._counted)

    def times(self, program: Program) -> Times:
        """The times of the last run's instructions, also of a run that failed."""
        self._open()
        units = program.columns[:, COL["unit"]]
        starts, ends = np.full(len(units), UNKNOWN, np.int64), np.full(len(units), UNKNOWN, np.int64)
        for unit in UNIT_NUMBERS:
            mine = np.flatnonzero(units == unit)
            _fill(starts, mine, self._seen.starts[unit])
            _fill(ends, mine, self._seen.ends[unit])
        dispatches = np.full(len(units), UNKNOWN, np.int64)
        _fill(dispatches, np.arange(len(units)), self._seen.dispatches)
        return Times(dispatches, starts, ends)

    def _statistics(self, program: Program) -> RunStats:
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
        """Release everything and complete the file of waveforms."""
        with self._alone():
            if hasattr(self, "_machine"):
                self._machine.close()
            super().close()


def _writable(waves: Path | str) -> Path:
    """The path of a regular file that can be written; DeviceError for any other."""
    if not isinstance(waves, Path | str):
        raise DeviceError(f"device rtl: file of waves must be a path, got {waves!r}")
    try:
        Path(waves).open("wb").close()
    except (OSError, ValueError) as error:  # a null character is a ValueError
        raise DeviceError(f"device rtl: file of waves must be writable, got {error}") from None
    if not Path(waves).is_file():  # the writer seeks in it
        raise DeviceError(f"device rtl: file of waves must be a regular file, got {waves}")
    return Path(waves)


def _require_window(window: object, waves: Path | None) -> tuple[int, int] | None:
    if window is None:
        return None
    if waves is None:
        raise DeviceError(f"device rtl: window must be left out without waves, got {window!r}")
    if not isinstance(window, tuple) or len(window) != 2:
        raise DeviceError(f"device rtl: window must have a first and a last cycle, got {window!r}")
    first = _require_integer("first cycle of the window", window[0], 0, _MOST_CYCLES)
    return first, _require_integer("last cycle of the window", window[1], first, _MOST_CYCLES)


def _require_start(start: object, assertions: bool) -> int:
    """The seed of registers at power-up, 0 for a start with zeros."""
    if start is None:
        return 0
    if not assertions:
        raise DeviceError(f"device rtl: start must be left out without assertions, got {start!r}")
    return _require_integer("seed of the start", start, 1, (1 << 31) - 1)


def _require_integer(what: str, value: object, least: int, most: int) -> int:
    """An integer within limits as a Python integer; DeviceError for anything else."""
    if not is_int(value) or not least <= value <= most:
        raise DeviceError(f"device rtl: {what} must be an integer from {least} to {most}, got {value!r}")
    return int(value)


def _fill(times: Ints, where: NDArray[np.intp], seen: Ints) -> None:
    """Fill in the observed times in program order; the last instructions may have none."""
    if len(seen) > len(where):
        raise DeviceError(f"device rtl: trace must have at most {len(where)} events of a kind, got {len(seen)}")
    times[where[: len(seen)]] = seen


def _core_cycles(program: Program, iterations: Ints) -> Ints:
    """The cycles of compute instructions, except for a VECTOR's stalls."""
    cycles, columns = iterations.copy(), program.columns
    for rows, issued in extension_rows(program.config, columns, iterations):
        cycles[rows] = issued
    return cycles


def _longest(program: Program) -> int:
    """An upper bound on the cycles that an instruction runs without a visible event."""
    columns = program.columns
    if not len(columns):
        return _CHUNK_CYCLES
    kernels = columns[:, COL["uop_end"]] - columns[:, COL["uop_begin"]]
    iterations = columns[:, COL["loop0"]] * columns[:, COL["loop1"]] * kernels
    cycles = _core_cycles(program, iterations)
    rows = columns[:, COL["y_before"]] + columns[:, COL["y_size"]] + columns[:, COL["y_after"]]
    entries = rows * (columns[:, COL["x_before"]] + columns[:, COL["x_size"]] + columns[:, COL["x_after"]])
    return _CHUNK_CYCLES + 2 * int((cycles + entries * columns[:, COL["z_size"]]).max())
