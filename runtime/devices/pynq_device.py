# SPDX-License-Identifier: Apache-2.0
"""A machine on a PYNQ board, driven through the package `pynq`, on the board or from a host.

    with PynqDevice(config, bitstream="pynq_z1.bit") as device:
        run(program, inputs, device)

The invariant: the device releases all resources of the board, however its use ends; and after a
failed run, the next one works or its error states the remedy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode, columns, instruction_bytes
from vdla.hardware.program import STREAM, Program
from vdla.runtime.devices.board_clock import at_clock, rail_watts, require_clock
from vdla.runtime.devices.board_driver import BoardBus, BoardDriver, SoleRun, TakenError
from vdla.runtime.devices.board_link import BoardLink
from vdla.runtime.devices.client_entry import ClientEntry
from vdla.runtime.devices.completion import Completion, RunLimits, RunTimeoutError
from vdla.runtime.devices.contiguous_memory import ContiguousMemory
from vdla.runtime.devices.device import DeviceError
from vdla.runtime.devices.driver import Builds, Stream, source_build
from vdla.runtime.devices.memory_device import DEFAULT_BYTES
from vdla.runtime.devices.overlay import LoadedOverlay, find_bitstream, load_overlay
from vdla.runtime.devices.request_checks import (
    flat_bytes,
    one_thread,
    require_addresses,
    require_config,
    require_memory_bytes,
    require_timeout,
)
from vdla.simulator.stats import RunStats, Times, macs_of, moved_bytes
from vdla.simulator.support.errors import require_program
from vdla.simulator.verify import require_verified

if TYPE_CHECKING:
    from typing_extensions import Self

Bytes = NDArray[np.uint8]
TIMEOUT_S = 60.0
_STUCK = "machine must be idle, got busy after a soft reset; open the device again, which loads the bitstream"


class PynqDevice:
    """A machine in a bitstream, loaded when the device is opened.

    `bitstream` is a .bit file with its .hwh beside it, by default CONFIG.bit in the folder
    $VDLA_OVERLAYS, the current one, or an installed package of `vdla board package`, for the
    configuration's name; `download=False` takes it as loaded. A run may take `timeout_s` seconds,
    and `timeout_cycles` cycles where given. A bitstream that other sources were built into is
    refused unless its build is `accept_build`. `target` is PYNQ's device, by default its active
    one. `memory_bytes` limits what is allocated. `fclk_mhz` sets the accelerator's clock;
    `config.clock_mhz` is what the board says.
    """

    name = "pynq"

    def __init__(
        self,
        config: Config,
        memory_bytes: int = DEFAULT_BYTES,
        timeout_cycles: int | None = None,
        *,
        bitstream: str | os.PathLike[str] | None = None,
        timeout_s: float = TIMEOUT_S,
        accept_build: str | None = None,
        download: bool = True,
        target: object = None,
        fclk_mhz: float | None = None,
    ) -> None:
        where = f"device {self.name}"
        self.config = require_config(where, config)
        self.timeout_cycles = require_timeout(where, timeout_cycles)
        self.timeout_s = _seconds(where, timeout_s)
        limit = require_memory_bytes(where, memory_bytes)
        clock_mhz = None if fclk_mhz is None else require_clock(where, self.config, fclk_mhz)
        self._lock, self._link = RLock(), BoardLink(where)
        self._unended: SoleRun | None = None  # a run that may go on, since its reset did not work
        overlay = load_overlay(self._link, find_bitstream(where, config, bitstream), target, download=download)
        self._bus = BoardBus(self._link, overlay.mmio, remote=overlay.remote)
        self.driver = BoardDriver(where, self._bus)
        self.completion = Completion(self.driver, overlay.interrupt)
        self._await_board = overlay.await_board
        self._memory: ContiguousMemory | None = ContiguousMemory(self._link, limit, overlay)
        self._entry = ClientEntry(self._link, overlay.files, config, overlay.file)
        try:
            self._entry.open(loaded=download)
            self._begin(overlay, accept_build)
            self._set_clock(overlay, clock_mhz)
        except BaseException:
            self.close()
            raise

    def _begin(self, overlay: LoadedOverlay, accept_build: str | None) -> None:
        """Identify the machine, and end what an earlier process left running on it."""
        parameters = overlay.parameters
        builds = Builds(parameters.get("BUILD"), parameters.get("FINGERPRINT"), source_build(self.config), accept_build)
        self._machine = self.driver.identify(self.config, builds)
        if self.driver.flag("STATUS", "busy") and not self.completion.reset():
            raise DeviceError(f"{self.driver.where}: {_STUCK}")

    def _set_clock(self, overlay: LoadedOverlay, mhz: float | None) -> None:
        """Set the clock if asked to; the configuration has the board's from then on."""
        if mhz is not None:
            with self._link.calls("set the clock"):
                overlay.clock.set_mhz(mhz)
        said = overlay.clock.read_mhz()
        self.config = at_clock(self.config, said)
        self._entry.clocked(said)

    def power(self) -> Mapping[str, float]:
        """The watts of each of the board's power rails; DeviceError where it has none."""
        return rail_watts(self.driver.where)

    # --- memory

    def allocate(self, nbytes: int) -> int:
        """The physical address of zeroed memory, a multiple of ALIGNMENT."""
        return self._open().allocate(nbytes)

    def free(self, address: int) -> None:
        """Free a block that `allocate` returned."""
        self._open().free(address)

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes into allocated memory; the next run that uses them sends them to the board."""
        self._open().write(address, flat_bytes(self.driver.where, data))

    def read(self, address: int, nbytes: int) -> Bytes:
        """Copy bytes out of allocated memory."""
        return self._open().read(address, nbytes)

    # --- programs

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run a program to its end; ProgramError, VerifyError or DeviceError where it cannot."""
        where, memory = self.driver.where, self._open()
        require_program(where, program)
        require_addresses(where, self.config, program, addresses, memory.require_window)
        require_verified(program)
        with self._alone():
            self._entry.run(memory.held_bytes)
            words = program.link(addresses)
            if words.size:
                memory.write(addresses[STREAM], flat_bytes(where, words))
            self._require_idle()
            memory.flush(addresses[name] for name in _names(program))
            memory.machine_writes(addresses[name] for name in _stored(program))
            return self._execute(memory, program, addresses[STREAM], flat_bytes(where, words))

    def _execute(self, memory: ContiguousMemory, program: Program, address: int, words: Bytes) -> RunStats:
        dram = self.config.dram
        stream = Stream(address, len(program), dram.read_latency, dram.outstanding_reads, dram.outstanding_writes)
        holds_stream = partial(memory.holds, address, words)
        run = self._unended = SoleRun(self.driver, self._machine, stream, holds_stream)
        self.completion.stop_asked.clear()
        try:
            run.start()
            self.completion.wait(RunLimits(self.timeout_s, self.timeout_cycles))
            run.finish()
            statistics = self._statistics(program)
            run.confirm()
        except (DeviceError, RunTimeoutError) as error:
            failure = self._failure(run, error, words)
            if failure is error:
                raise
            raise failure from (None if isinstance(error, RunTimeoutError) else error)
        except BaseException:
            with suppress(DeviceError):
                self._end(run)
            raise
        self._unended = None
        return statistics

    def stop(self) -> None:
        """End the run in progress with DeviceError, from another thread; a soft reset follows."""
        self.completion.stop_asked.set()

    def _failure(self, run: SoleRun, error: DeviceError | RunTimeoutError, words: Bytes) -> Exception:
        """The error to raise for one in a run: that another client used the board, if it did."""
        try:
            lock_error = error if isinstance(error, TakenError) else run.lock_error()
            if lock_error is None and isinstance(error, RunTimeoutError):
                return DeviceError(self._late(run, error, words))
            self._end(run)
            return error if lock_error is None else lock_error.naming(self._entry.others())
        except DeviceError:  # the connection is lost, as the first error says
            return error

    def _late(self, run: SoleRun, limit: RunTimeoutError, words: Bytes) -> str:
        """The message of a run that is ended, with the machine's state; the machine is reset."""
        fields = columns(self.config, words.reshape(-1, instruction_bytes(self.config)))
        try:
            cycle, state = self.driver.read_wide("CYCLES"), self.driver.state().describe(self.config, fields)
        finally:
            self._end(run)
        message = f"{self.driver.where}: the program {limit} (cycle {cycle})\n{state}"
        return message if self._unended is None else f"{message}\n  {_STUCK}"

    def _end(self, run: SoleRun) -> None:
        """Reset the machine, after which the next run works, unless it runs for another client."""
        self._unended = run
        if not run.is_own() or self.completion.reset():
            self._unended = None

    def _require_idle(self) -> None:
        run = self._unended
        if run is not None and self.driver.flag("STATUS", "busy") and run.is_own():
            raise DeviceError(f"{self.driver.where}: {_STUCK}")
        self._unended = None

    def _alone(self) -> AbstractContextManager[None]:
        return one_thread(self.driver.where, self._lock)

    def _statistics(self, program: Program) -> RunStats:
        times, total = Times.none(len(program)), self.driver.read_wide("CYCLES")
        moved, opcode = moved_bytes(self.config, program.columns), program.columns[:, COL["opcode"]]
        return RunStats(
            config=self.config,
            program=program.name,
            program_hash=program.hash,
            total_cycles=total,
            counters=self.driver.counters(total),
            starts=times.starts,
            ends=times.ends,
            dispatches=times.dispatches,
            waits=None,
            macs=macs_of(self.config, program.columns),
            bytes_read=int(moved[opcode == Opcode.LOAD].sum()) + program.words.nbytes,
            bytes_written=int(moved[opcode == Opcode.STORE].sum()),
        )

    # --- lifetime

    def _open(self) -> ContiguousMemory:
        if self._memory is None:
            raise DeviceError(f"{self.driver.where}: device must be open, got a call after close")
        return self._memory

    def close(self) -> None:
        """Free everything on the board; it never raises.

        Where the connection is lost, it waits some seconds for the board to come back: what a
        machine may still write to is freed after a reset of it.
        """
        memory, self._memory = self._memory, None
        if memory is not None:
            if memory.holds_any and self._link.lost is not None:
                self._link.reconnect(self._answer)
            run = self._unended
            if run is not None:
                self._link.release("reset the machine", lambda: self._end(run))
            memory.close()
            self._entry.close()
        self._bus.close()

    def _answer(self) -> None:
        """Return once the board answers."""
        self._await_board()
        self.driver.read("ID")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _seconds(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise DeviceError(f"{where}: timeout_s must be a number of seconds above 0, got {value!r}")
    return float(value)


def _names(program: Program) -> list[str]:
    return [*(tensor.name for tensor in program.tensors), STREAM]


def _stored(program: Program) -> set[str]:
    """The names of the tensors that STORE writes."""
    stores = program.columns[:, COL["opcode"]] == Opcode.STORE
    return {program.tensors[index].name for index in np.unique(program.tensor_of[stores])}
