"""The reference page of the control registers, as Markdown, from their table."""

from __future__ import annotations

from collections.abc import Iterator

from vdla.hardware.generate.isa_page import table
from vdla.hardware.generate.registers import (
    COUNTER_STRIDE,
    COUNTERS_OFFSET,
    REGISTERS,
    UNIT_STRIDE,
    ErrorCode,
    Register,
    counter_offset,
)
from vdla.hardware.isa.units import COUNTERS, UNITS

PREAMBLE = """\
# Control registers

Generated from the register table by `python -m vdla.hardware.generate.register_page`. The machine has one
AXI4-Lite port of 32 bits. Offsets are in bytes; bits that a register does not have read 0; bytes can
be written one by one.

A write to what is read only, a write to the set-up or a start while the machine is busy, and every access where no
register is, are answered with SLVERR and change nothing. Progress and counters can be read at any time, also while a
stream runs; then read of a value in two registers the high half, the low half, and the high half again.

## To run a stream

1. Write STREAM, COUNT and, where the memory differs from the reset values, READ_LATENCY, READ_LIMIT and WRITE_LIMIT.
2. Write `start` to CONTROL. The core, the counters and the error are cleared, and the stream runs.
3. Wait for `busy` to fall, or for the interrupt. `done` or `error` says how it ended.

An error stops the machine: nothing new begins, what AXI still owes is awaited, and the first error is kept with its
place. After an error and after the end of a stream, progress, levels and counters stay as they were until the next
start. `reset` may be written at any time; it stops in the same way, then clears the core, the counters and the error.
A start needs no reset before it.
"""

ERRORS = {
    ErrorCode.NONE: "no error",
    ErrorCode.INSTRUCTION: "the next word of the stream is no valid instruction",
    ErrorCode.FETCH: "a read of the stream was answered with SLVERR or DECERR",
    ErrorCode.LOAD: "a read of load was",
    ErrorCode.COMPUTE: "a read of compute was",
    ErrorCode.STORE: "a write of store was",
}


def _bits(register: Register) -> str:
    return "0" if register.width == 1 else f"{register.width - 1}:0"


def _registers() -> Iterator[str]:
    named = [register for register in REGISTERS if register.offset < COUNTERS_OFFSET]
    rows = [
        (f"0x{r.offset:03x}", f"`{r.name}`", _bits(r), r.access.value, f"{r.reset:#x}" if r.reset else "", r.doc)
        for r in named
    ]
    yield from table(("offset", "register", "bits", "access", "at reset", "meaning"), rows)


def _flags() -> Iterator[str]:
    rows = [
        (f"`{register.name}`", bit.position, f"`{bit.name}`", bit.doc)
        for register in REGISTERS
        for bit in register.bits
    ]
    yield from table(("register", "bit", "name", "meaning"), rows)


def _counters() -> Iterator[str]:
    rows = [(f"`{counter}`", *(f"0x{counter_offset(unit, counter):03x}" for unit in UNITS)) for counter in COUNTERS]
    yield from table(("counter", *UNITS), rows)


def _page() -> Iterator[str]:
    yield PREAMBLE
    yield "## Registers"
    yield ""
    yield from _registers()
    yield ""
    yield "## Bits"
    yield ""
    yield from _flags()
    yield ""
    yield "## Errors"
    yield ""
    yield from table(("value", "name", "meaning"), [(error.value, error.name, ERRORS[error]) for error in ErrorCode])
    yield ""
    yield "## Counters"
    yield ""
    yield f"48 bits each, in two registers; the low halves lie at these offsets, {UNIT_STRIDE:#x} bytes from unit to"
    yield f"unit, {COUNTER_STRIDE} from counter to counter. Every cycle of a unit is in exactly one of them: they sum"
    yield "to CYCLES once the stream has ended ([timing-contract.md](timing-contract.md), section 6). While it runs,"
    yield "cycles in which a unit's queue is empty count as `commands`; at the end those after its last instruction"
    yield "find their place."
    yield ""
    yield from _counters()


def render() -> str:
    """The text of the page."""
    return "\n".join(_page()) + "\n"


def main() -> None:
    """`python -m vdla.hardware.generate.register_page > docs/registers.md`."""
    print(render(), end="")


if __name__ == "__main__":
    main()
