# SPDX-License-Identifier: Apache-2.0
"""The driver of the machine's control port: starts a stream, reads errors, counters and state.

It addresses registers by the names of the register table; a `Bus` carries the accesses, over a
simulated AXI port or a board's memory map.

What a machine says that it is, in registers, must be what its user needs: a mismatch says what to
compile for, which bitstream to load, or what to build again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vdla.hardware.config import PRESETS, Config
from vdla.hardware.generate.registers import (
    ID,
    OFFSETS,
    REGISTER_BITS,
    REGISTERS,
    VERSION,
    ErrorCode,
    counter_offset,
    tokens_register,
)
from vdla.hardware.isa import COUNTERS, QUEUES, UNITS, Unit
from vdla.runtime.devices.device import DeviceError
from vdla.simulator.stats import MachineState

UNKNOWN_BUILD = "0" * 12


@dataclass(frozen=True, slots=True)
class Identity:
    """The values of the registers; `build` is 0 where the build gave none."""

    id: int
    version: int
    fingerprint: int
    build: int

    @property
    def registers(self) -> dict[str, int]:
        """The registers that tell one machine from another, by name."""
        wide = {"FINGERPRINT": self.fingerprint, "BUILD": self.build}
        return {f"{name}_{half}": word for name, value in wide.items() for half, word in _halves(value)}


@dataclass(frozen=True, slots=True)
class Builds:
    """The builds that a machine may come from, where known, as 12 hex digits.

    `handoff` and `handoff_fingerprint` come from the hardware handoff file (.hwh), `sources` from
    this installation; `accepted` is a build that the user accepts instead.
    """

    handoff: str | None = None
    handoff_fingerprint: str | None = None
    sources: str | None = None
    accepted: str | None = None


def _halves(value: int) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("LO", value & 0xFFFFFFFF), ("HI", value >> REGISTER_BITS)


def source_build(config: Config) -> str | None:
    """The build of this installation's RTL as a machine of this configuration.

    None where there is no RTL, as on a board.
    """
    try:
        from vdla.hardware.generate.build_hash import build_hash
        from vdla.hardware.generate.rtl_files import FOLDER
    except ModuleNotFoundError:
        return None
    return build_hash(config) if FOLDER.is_dir() else None


def require_identity(where: str, identity: Identity, config: Config, builds: Builds) -> None:
    """DeviceError unless the machine is a VDLA of this configuration, and of these builds."""
    if identity.id != ID:
        raise DeviceError(
            f"{where}: register ID must be {ID:#x}, got {identity.id:#x}; no VDLA is at this address: "
            "load a bitstream of VDLA"
        )
    if identity.version != VERSION:
        raise DeviceError(_version(where, identity.version))
    fingerprint = f"{identity.fingerprint:012x}"
    if builds.handoff_fingerprint not in (None, fingerprint):
        raise DeviceError(_handoff(where, "fingerprint", fingerprint, builds.handoff_fingerprint))
    if fingerprint != config.fingerprint:
        raise DeviceError(_fingerprint(where, fingerprint, config))
    _require_build(where, f"{identity.build:012x}", config, builds)


def _version(where: str, got: int) -> str:
    age, remedy = ("an older", "build the bitstream again") if got < VERSION else ("a newer", "update vdla")
    return (
        f"{where}: register VERSION must be {VERSION}, the register table of this release, got {got}; "
        f"the bitstream is of {age} release: {remedy}"
    )


def _fingerprint(where: str, got: str, config: Config) -> str:
    preset = next((name for name, known in PRESETS.items() if known.fingerprint == got), None)
    machine = f"{got}, which is no preset's" if preset is None else f"{got}, preset {preset}'s"
    target = "the configuration of the bitstream" if preset is None else f"preset {preset}"
    return (
        f"{where}: fingerprint must be {config.fingerprint} ({config.name}), got {machine}; "
        f"compile for {target}, or load the bitstream of {config.name}"
    )


def _require_build(where: str, got: str, config: Config, builds: Builds) -> None:
    if got == UNKNOWN_BUILD:
        return
    if builds.handoff not in (None, UNKNOWN_BUILD, got):
        raise DeviceError(_handoff(where, "build", got, builds.handoff))
    if builds.sources is not None and got not in (builds.sources, builds.accepted):
        raise DeviceError(
            f"{where}: build must be {builds.sources}, that of this release's sources for {config.name}, got {got}; "
            f"build the bitstream again (vdla board vivado), or accept this one with accept_build={got!r}"
        )


def _handoff(where: str, what: str, got: str, handoff: str | None) -> str:
    return (
        f"{where}: {what} must be {handoff}, as the .hwh file says, got {got}; "
        "the .bit and the .hwh are of different builds: copy both from the same one"
    )


_BITS = {(register.name, bit.name): 1 << bit.position for register in REGISTERS for bit in register.bits}
DONE = _BITS["STATUS", "done"]
"""STATUS of a machine that has run a stream to its end."""
INTERRUPT_ENABLED = _BITS["INTERRUPT", "enable"]
"""INTERRUPT of a machine that has not ended a stream since it was cleared."""


def is_set(value: int, register: str, bit: str) -> bool:
    """Whether a bit is set in the value of a register."""
    return bool(value & _BITS[register, bit])


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

    @property
    def registers(self) -> dict[str, int]:
        """The registers that set it up, by name."""
        return {
            "STREAM_LO": self.address & 0xFFFFFFFF,
            "STREAM_HI": self.address >> 32,
            "COUNT": self.count,
            "READ_LATENCY": self.read_latency,
            "READ_LIMIT": self.read_limit,
            "WRITE_LIMIT": self.write_limit,
        }


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
        return is_set(self.read(register), register, bit)

    def write_all(self, values: Mapping[str, int]) -> None:
        """Set registers in order."""
        for name, value in values.items():
            self.write(name, value)

    def read_all(self, offsets: Sequence[int]) -> list[int]:
        """The words at byte offsets."""
        return [self._bus.read_word(offset) for offset in offsets]

    # --- runs

    def identity(self) -> Identity:
        """What the machine says that it is."""
        number, version = self.read("ID"), self.read("VERSION")
        if (number, version) != (ID, VERSION):  # the other registers may be anything
            return Identity(number, version, 0, 0)
        return Identity(number, version, self.read_wide("FINGERPRINT"), self.read_wide("BUILD"))

    def identify(self, config: Config, builds: Builds | None = None) -> Identity:
        """What the machine says that it is; DeviceError unless it is a VDLA of this configuration,
        and of these builds.
        """
        identity = self.identity()
        require_identity(self.where, identity, config, builds or Builds())
        return identity

    def start(self, stream: Stream) -> None:
        """Start a stream; the interrupt line signals its end."""
        self.write_all(stream.registers)
        self.enable_interrupt()
        self.start_armed()

    def enable_interrupt(self) -> None:
        """Enable the interrupt, and clear that of an earlier run."""
        self.write("INTERRUPT", INTERRUPT_ENABLED | _BITS["INTERRUPT", "pending"])

    def start_armed(self) -> None:
        """Start the stream that is set up."""
        self.write("CONTROL", _BITS["CONTROL", "start"])

    def disarm(self) -> None:
        """Set the machine up with no instructions; refused while it is busy."""
        self.write("COUNT", 0)

    def finish(self) -> None:
        """Clear the interrupt after a run; DeviceError where the machine stopped early."""
        self.enable_interrupt()
        status = self.read("STATUS")
        if is_set(status, "STATUS", "error"):
            raise DeviceError(self.error())
        if not is_set(status, "STATUS", "done"):
            raise DeviceError(f"{self.where}: STATUS must be done after the interrupt, got {status:#x}")

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

    def counters(self, cycles: int | None = None) -> dict[str, dict[str, int]]:
        """Cycles by unit and counter; `cycles` of the whole run, where known, spares the reading of
        high words that are 0.
        """
        offsets = [counter_offset(unit, counter) for unit in UNITS for counter in COUNTERS]
        low = self.read_all(offsets)
        wide = cycles is None or cycles >> REGISTER_BITS
        high = self.read_all([offset + 4 for offset in offsets]) if wide else [0] * len(low)
        values = iter([top << REGISTER_BITS | word for top, word in zip(high, low, strict=True)])
        return {unit: {counter: next(values) for counter in COUNTERS} for unit in UNITS}

    def state(self) -> MachineState:
        """The progress of the stream; registers are read in sequence, not atomically."""
        started, ended = (tuple(self.read(f"{unit.name}_{what}") for unit in Unit) for what in ("STARTED", "ENDED"))
        tokens = tuple(self.read(tokens_register(queue)) for queue in QUEUES)
        return MachineState(self.read("DISPATCHED"), started, ended, tokens)
