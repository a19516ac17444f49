"""The driver of the machine's control port: starts a stream, reads errors, counters and state.

It addresses registers by the names of the register table; a `Bus` carries the accesses, over a
simulated AXI port or a board's memory map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vdla.hardware.config import Config
from vdla.hardware.generate.registers import ID, OFFSETS, REGISTERS, VERSION, ErrorCode, counter_offset, tokens_register
from vdla.hardware.isa import COUNTERS, QUEUES, UNITS, Unit
from vdla.runtime.devices.device import DeviceError
from vdla.simulator.stats import MachineState

_BITS = {(register.name, bit.name): 1 << bit.position for register in REGISTERS for bit in register.bits}


class Bus(Protocol):
    """32-bit accesses at byte offsets of the control port; DeviceError where one is rejected."""

    def read_word(self, offset: int) -> int:
        """The word at an offset."""

    def write_word(self, offset: int, value: int) -> None:
        """Set the word at an offset."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An instruction stream, and the DRAM limits to run it under."""

    address: int
    count: int
    read_latency: int
    read_limit: int
    write_limit: int


class Driver:
    """The driver of one machine; `where` prefixes every message."""

    def __init__(self, where: str, bus: Bus) -> None:
        self.where = where
        self._bus = bus

    # --- registers by name

    def read(self, name: str) -> int:
        """The value of a register."""
        return self._bus.read_word(OFFSETS[name])

    def write(self, name: str, value: int) -> None:
        """Set a register."""
        self._bus.write_word(OFFSETS[name], value)

    def read_wide(self, name: str) -> int:
        """The value of a register of two words, NAME_LO and NAME_HI."""
        return self.read(f"{name}_HI") << 32 | self.read(f"{name}_LO")

    def flag(self, register: str, bit: str) -> bool:
        """Whether a bit of a register is set."""
        return bool(self.read(register) & _BITS[register, bit])

    # --- runs

    def identify(self, config: Config) -> None:
        """DeviceError unless the machine is a VDLA of this configuration."""
        expected = {"ID": ID, "VERSION": VERSION}
        for name, value in expected.items():
            got = self.read(name)
            if got != value:
                raise DeviceError(f"{self.where}: register {name} must be {value:#x}, got {got:#x}")
        fingerprint = f"{self.read_wide('FINGERPRINT'):012x}"
        if fingerprint != config.fingerprint:
            raise DeviceError(f"{self.where}: fingerprint must be {config.fingerprint}, got {fingerprint}")

    def start(self, stream: Stream) -> None:
        """Start a stream; the interrupt line signals its end."""
        values = {
            "STREAM_LO": stream.address & 0xFFFFFFFF,
            "STREAM_HI": stream.address >> 32,
            "COUNT": stream.count,
            "READ_LATENCY": stream.read_latency,
            "READ_LIMIT": stream.read_limit,
            "WRITE_LIMIT": stream.write_limit,
            "INTERRUPT": _BITS["INTERRUPT", "enable"] | _BITS["INTERRUPT", "pending"],
            "CONTROL": _BITS["CONTROL", "start"],
        }
        for name, value in values.items():
            self.write(name, value)

    def finish(self) -> None:
        """Clear the interrupt after a run; DeviceError where the machine stopped early."""
        self.write("INTERRUPT", _BITS["INTERRUPT", "enable"] | _BITS["INTERRUPT", "pending"])
        if self.flag("STATUS", "error"):
            raise DeviceError(self.error())
        if not self.flag("STATUS", "done"):
            raise DeviceError(f"{self.where}: STATUS must be done after the interrupt, got {self.read('STATUS'):#x}")

    def error(self) -> str:
        """The error registers as text."""
        code, index = self.read("ERROR"), self.read("ERROR_INDEX")
        if code == ErrorCode.INSTRUCTION:
            return f"{self.where}: instruction {index} must be valid, got a word that the machine rejects"
        if code == ErrorCode.FETCH:
            return f"{self.where}: AXI read error at instruction {index} of the stream; check its address and length"
        if code not in (ErrorCode.LOAD, ErrorCode.COMPUTE, ErrorCode.STORE):
            return f"{self.where}: register ERROR holds the unknown code {code}; reset the device"
        unit = ErrorCode(code).name.lower()
        access = "write" if code == ErrorCode.STORE else "read"
        return (
            f"{self.where}: AXI {access} error of {unit} after {index} of its instructions; "
            "check the addresses of the tensors"
        )

    def request_reset(self) -> None:
        """Request a soft reset: the machine completes its outstanding transactions, then is not
        busy.

        The interrupt is disabled first: an error of those transactions would raise it.
        """
        self.write("INTERRUPT", _BITS["INTERRUPT", "pending"])
        self.write("CONTROL", _BITS["CONTROL", "reset"])

    # --- results

    def counters(self) -> dict[str, dict[str, int]]:
        """Cycles by unit and counter."""
        return {unit: {counter: self._counter(unit, counter) for counter in COUNTERS} for unit in UNITS}

    def _counter(self, unit: str, counter: str) -> int:
        offset = counter_offset(unit, counter)
        return self._bus.read_word(offset + 4) << 32 | self._bus.read_word(offset)

    def state(self) -> MachineState:
        """The progress of the stream; registers are read in sequence, not atomically."""
        started, ended = (tuple(self.read(f"{unit.name}_{what}") for unit in Unit) for what in ("STARTED", "ENDED"))
        tokens = tuple(self.read(tokens_register(queue)) for queue in QUEUES)
        return MachineState(self.read("DISPATCHED"), started, ended, tokens)
