# SPDX-License-Identifier: Apache-2.0
"""The addresses of a board that software maps: registers of the processing system, and the fabric.

Both are words of 32 bits; an access to anything else raises BusError, where a board's processor
would raise an external abort.
"""

from __future__ import annotations

from typing import Protocol

from vdla.boards.virtual.fabric import BusError
from vdla.boards.virtual.slcr import SystemRegisters


class ControlPort(Protocol):
    """The control port of whatever is in the fabric."""

    def read_word(self, offset: int) -> int:
        """The word at an offset; BusError where the fabric refuses it."""

    def write_word(self, offset: int, value: int) -> None:
        """Set the word at an offset; BusError where the fabric refuses it."""


class AddressSpace:
    """`port` lies at `base`, and has `nbytes`."""

    def __init__(self, registers: SystemRegisters, port: ControlPort, base: int, nbytes: int) -> None:
        self._registers = registers
        self._port = port
        self._base = base
        self._end = base + nbytes

    def covers(self, address: int, nbytes: int) -> bool:
        """Whether all these bytes are registers of one kind."""
        return self._in_port(address, nbytes) or self._registers.covers(address, nbytes)

    def _in_port(self, address: int, nbytes: int) -> bool:
        return self._base <= address and address + nbytes <= self._end

    def read_word(self, address: int) -> int:
        """The word at an address."""
        if self._in_port(address, 4):
            return self._port.read_word(address - self._base)
        self._require(address)
        return self._registers.read_word(address)

    def write_word(self, address: int, value: int) -> None:
        """Set the word at an address."""
        if self._in_port(address, 4):
            self._port.write_word(address - self._base, value)
            return
        self._require(address)
        self._registers.write_word(address, value)

    def _require(self, address: int) -> None:
        if not self._registers.covers(address, 4):
            raise BusError(f"bus: address must be that of a register, got {address:#x}")
