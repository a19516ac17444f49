# SPDX-License-Identifier: Apache-2.0
"""The machine as the hardware's sources under Verilator, clocked by a thread while it is busy.

The invariant: one thread at a time is in the model. An access to the control port comes between two
chunks of cycles, so a client that polls sees the progress of a stream. An idle machine has no
clock, and one that waits for what never comes a slow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition, Thread

from vdla.boards.virtual.fabric import BusError, FabricError, MemoryWindow, refused
from vdla.hardware.config import Config
from vdla.hardware.generate.registers import OFFSETS
from vdla.runtime.devices.device import DeviceError
from vdla.runtime.devices.rtl_build import build_library
from vdla.runtime.devices.rtl_library import RtlMachine, memory_parameters
from vdla.support.arrays import Bytes

_CHUNK_CYCLES = 1 << 11
_QUIET_CYCLES = 1 << 22
"""Cycles without any event after which the clock slows down: the stream hangs, most likely."""
_QUIET_PAUSE_S = 0.05  # between two chunks of a machine that hangs
_CONTROL, _STATUS, _INTERRUPT = (OFFSETS[name] for name in ("CONTROL", "STATUS", "INTERRUPT"))
_BUSY, _ENABLE = 1, 1


class RtlFabric:
    """A model of `config` on the memory; each stream takes longer by `pause_s`."""

    def __init__(self, config: Config, memory: Bytes, pause_s: float = 0) -> None:
        self._pause_s = pause_s
        try:
            self._machine = RtlMachine("fabric", build_library(config), memory)
        except DeviceError as error:
            raise FabricError(str(error)) from None
        self._machine.configure(memory_parameters(config))
        self._machine.map([])
        self._changed = Condition()
        self._waiting = 0  # accesses that wait for the model
        self._locked = self._clocked = self._started = self._closed = False
        self._thread = Thread(target=self._clock, name="vdla-fabric", daemon=True)
        self._thread.start()

    @contextmanager
    def _model(self) -> Iterator[RtlMachine]:
        """Exclusive use of the model, before the next chunk of cycles."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._locked)
            self._waiting -= 1
            self._locked = True
        try:
            yield self._machine
        finally:
            with self._changed:
                self._locked = False
                self._changed.notify_all()

    # --- the control port

    def read_word(self, offset: int) -> int:
        """The word at an offset."""
        with self._model() as machine:
            try:
                return machine.read_word(offset)
            except DeviceError:
                raise self._error("read", offset) from None

    def write_word(self, offset: int, value: int) -> None:
        """Set the word at an offset."""
        with self._model() as machine:
            try:
                machine.write_word(offset, value)
            except DeviceError:
                raise self._error("write", offset) from None
            if offset == _CONTROL:
                self._clocked = self._started = True  # seen once the model is free again

    def _error(self, access: str, offset: int) -> BusError | FabricError:
        """Why an access failed: the machine refused it, or the model itself has failed."""
        try:
            self._machine.check()
        except DeviceError as error:
            return FabricError(str(error))
        return refused(access, offset)

    # --- the clock

    def _clock(self) -> None:
        """Run the machine while it is busy."""
        while self._wait_for_work():
            try:
                self._clocked = self._advance()
            except DeviceError:
                self._clocked = False  # the next access reports it
            with self._changed:
                self._locked = False
                self._changed.notify_all()

    def _wait_for_work(self) -> bool:
        """Take the model when there is something to run; False when there never will be."""
        with self._changed:
            if self._hangs():
                self._changed.wait_for(lambda: self._closed, _QUIET_PAUSE_S)
            self._changed.wait_for(lambda: self._closed or (self._clocked and not self._locked and not self._waiting))
            if self._started and self._pause_s:
                self._started = False
                self._changed.wait_for(lambda: self._closed, self._pause_s)
                self._changed.wait_for(lambda: not self._locked)
            self._locked = not self._closed
            return self._locked

    def _hangs(self) -> bool:
        return self._clocked and not self._closed and not self._locked and self._machine.quiet_cycles > _QUIET_CYCLES

    def _advance(self) -> bool:
        """Run a chunk of cycles, or to the end of the stream; whether the machine is still busy."""
        machine = self._machine
        if machine.wait(_CHUNK_CYCLES) and machine.read_word(_STATUS) & _BUSY:
            # An interrupt of an earlier stream, which nobody has cleared, would end every chunk.
            machine.write_word(_INTERRUPT, 0)
            machine.wait(_CHUNK_CYCLES)
            machine.write_word(_INTERRUPT, _ENABLE)
        return bool(machine.read_word(_STATUS) & _BUSY)

    # --- the rest of the machine

    @property
    def interrupt(self) -> bool:
        """The level of the interrupt line."""
        with self._model() as machine:
            return bool(machine.control_cycle().irq)

    @property
    def running(self) -> bool:
        """Whether the machine has a clock."""
        with self._changed:
            return self._clocked

    def map(self, windows: Sequence[MemoryWindow]) -> None:
        """Set what the machine reaches, from the next cycle on."""
        with self._model() as machine:
            machine.map([(window.address, window.nbytes, window.offset) for window in windows])

    def close(self) -> None:
        """End the clock, then the model."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        with self._model() as machine:
            machine.close()
