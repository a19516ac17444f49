# SPDX-License-Identifier: Apache-2.0
"""The table of control registers: the source of the RTL's package, the driver's offsets and the
page.

Registers have 32 bits, offsets are in bytes. A wider value is in two registers, the low half first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum

from vdla.hardware.isa.units import COUNTERS, QUEUES, UNITS, TokenQueue, Unit
from vdla.hardware.timing import MAX_OUTSTANDING

ID = 0x56444C41
"""The letters VDLA, the first in the most significant byte."""

VERSION = 2
"""Version of the register table, incremented when an offset or a meaning changes."""

ADDRESS_BITS = 12
"""Bits of a byte address of the control port."""

REGISTER_BITS = 32

_STARTED_OFFSET = 0x4C
_COMMANDS_OFFSET = 0x64
_TOKENS_OFFSET = 0x70
_BUILD_OFFSET = 0x80
_LEVEL_BITS = 13  # of the number of entries in a queue

COUNTERS_OFFSET = 0x100
UNIT_STRIDE = 0x80
COUNTER_STRIDE = 8


class RegisterAccess(Enum):
    """Access of software to a register; a refused write is answered with an error."""

    RO = "read"
    RW = "read, write while idle"
    WO = "write, reads 0"
    MIXED = "by bit"


RO, RW, WO, MIXED = RegisterAccess


class ErrorCode(IntEnum):
    """Why the machine stopped before the end of the program."""

    NONE = 0
    INSTRUCTION = 1
    FETCH = 2
    LOAD = 3
    COMPUTE = 4
    STORE = 5


@dataclass(frozen=True, slots=True)
class Bit:
    """A bit in a register of flags."""

    name: str
    position: int
    doc: str


@dataclass(frozen=True, slots=True)
class Register:
    """A word of the control port; bits from `width` upwards read 0.

    `limits`: the least and the most that may be written, or None for any value.
    """

    name: str
    offset: int
    access: RegisterAccess
    doc: str
    width: int = REGISTER_BITS
    reset: int = 0
    bits: tuple[Bit, ...] = ()
    limits: tuple[int, int] | None = None


_CONTROL = (
    Bit("start", 0, "write 1 to run the stream; refused while busy"),
    Bit("reset", 1, "write 1 to stop: outstanding transactions finish, then the core is cleared"),
)
_STATUS = (
    Bit("busy", 0, "from start until done, error, or the end of a reset"),
    Bit("done", 1, "the last stream ran to its end"),
    Bit("error", 2, "the last stream was stopped by an error: ERROR and ERROR_INDEX say which"),
)
_INTERRUPT = (
    Bit("enable", 0, "read and write, at any time: the interrupt line follows `pending`"),
    Bit("pending", 1, "set at done and at error; write 1 to clear it"),
)

_SETUP = (
    Register("ID", 0x00, RO, "the letters VDLA", reset=ID),
    Register("VERSION", 0x04, RO, "version of this table", reset=VERSION),
    Register("FINGERPRINT_LO", 0x08, RO, "fingerprint of the configuration, bits 31 to 0"),
    Register("FINGERPRINT_HI", 0x0C, RO, "fingerprint of the configuration, bits 47 to 32", width=16),
    Register("CONTROL", 0x10, WO, "commands to the machine", width=2, bits=_CONTROL),
    Register("STATUS", 0x14, RO, "state of the machine", width=3, bits=_STATUS),
    Register("INTERRUPT", 0x18, MIXED, "the interrupt line", width=2, bits=_INTERRUPT),
    Register("ERROR", 0x1C, RO, "the first error of the last stream", width=8),
    Register(
        "ERROR_INDEX", 0x20, RO,
        "instructions dispatched (INSTRUCTION, FETCH), or ended by the unit, before the error",
    ),
    Register("STREAM_LO", 0x24, RW, "byte address of the stream, bits 31 to 0; bits within a beat are ignored"),
    Register("STREAM_HI", 0x28, RW, "byte address of the stream, bits 39 to 32", width=8),
    Register("COUNT", 0x2C, RW, "instructions of the stream"),
    Register("READ_LATENCY", 0x30, RW, "cycles of a read that count as memory latency", width=17, reset=80),
    Register(
        "READ_LIMIT", 0x34, RW, "limit of outstanding read bursts, 1 to 256; other values are refused",
        width=9, reset=8, limits=(1, MAX_OUTSTANDING),
    ),
    Register(
        "WRITE_LIMIT", 0x38, RW, "limit of write bursts without a response, 1 to 256; other values are refused",
        width=9, reset=8, limits=(1, MAX_OUTSTANDING),
    ),
)  # fmt: skip

_PROGRESS = (
    Register("CYCLES_LO", 0x40, RO, "cycles of the last stream, bits 31 to 0"),
    Register("CYCLES_HI", 0x44, RO, "cycles of the last stream, bits 47 to 32", width=16),
    Register("DISPATCHED", 0x48, RO, "instructions dispatched"),
)


def _unit_progress() -> Iterator[Register]:
    for unit in Unit:
        name, offset = unit.name, _STARTED_OFFSET + 8 * unit
        yield Register(f"{name}_STARTED", offset, RO, f"instructions started by {unit.label}")
        yield Register(f"{name}_ENDED", offset + 4, RO, f"instructions ended by {unit.label}")


def _queue_levels() -> Iterator[Register]:
    for unit in Unit:
        doc = f"commands waiting for {unit.label}"
        yield Register(f"{unit.name}_COMMANDS", _COMMANDS_OFFSET + 4 * unit, RO, doc, width=_LEVEL_BITS)
    for number, queue in enumerate(QUEUES):
        doc = f"tokens from {queue.producer.label} to {queue.consumer.label}"
        yield Register(tokens_register(queue), _TOKENS_OFFSET + 4 * number, RO, doc, width=_LEVEL_BITS)


_BUILD = (
    Register("BUILD_LO", _BUILD_OFFSET, RO, "hash of the hardware's sources and configuration, bits 31 to 0"),
    Register("BUILD_HI", _BUILD_OFFSET + 4, RO, "the same, bits 47 to 32; 0 where the build gave none", width=16),
)


def tokens_register(queue: TokenQueue) -> str:
    """The name of the register that counts the tokens in a queue."""
    return f"{queue.name.upper()}_TOKENS"


def counter_offset(unit: str, counter: str) -> int:
    """Byte offset of the low half of a counter; the high half, bits 47 to 32, follows."""
    return COUNTERS_OFFSET + UNIT_STRIDE * UNITS.index(unit) + COUNTER_STRIDE * COUNTERS.index(counter)


def _counters() -> Iterator[Register]:
    for unit in UNITS:
        for counter in COUNTERS:
            name, offset = f"{unit}_{counter}".upper(), counter_offset(unit, counter)
            doc = f"cycles of {unit} that count as {counter}"
            yield Register(f"{name}_LO", offset, RO, f"{doc}, bits 31 to 0")
            yield Register(f"{name}_HI", offset + 4, RO, f"{doc}, bits 47 to 32", width=16)


REGISTERS = (*_SETUP, *_PROGRESS, *_unit_progress(), *_queue_levels(), *_BUILD, *_counters())
"""All registers by offset."""

OFFSETS = {register.name: register.offset for register in REGISTERS}
"""Byte offset of a register by name."""
