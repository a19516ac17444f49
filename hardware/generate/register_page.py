# SPDX-License-Identifier: Apache-2.0
"""The generator of docs/registers.md, the reference page of the control registers."""

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

Generated from the register table by `python -m vdla.hardware.generate.register_page`. The machine
has one AXI4-Lite port of 32 bits. Offsets are in bytes; unused bits read 0; byte writes are
supported. With the package `pynq`, on a real board or a virtual one:

```python
from pynq import Overlay

accelerator = Overlay("pynq_z1.bit").vdla_0
print(accelerator.register_map.STATUS)
```

A write to a read-only register, a write to the set-up or a start while the machine is busy, a value
outside the limits of its register, and any access outside the registers are answered with SLVERR
and have no effect. Progress and counters can be read while a stream runs; read a value of two
registers as high half, low half, high half, until both high halves agree.

## To run a stream

1. Write STREAM, COUNT and, where the memory differs from the reset values, READ_LATENCY, READ_LIMIT
   and WRITE_LIMIT.
2. Write `start` to CONTROL. The core, the counters and the error are cleared, and the stream runs.
3. Wait until `busy` is 0, or for the interrupt. `done` or `error` says how the stream ended.

An error stops the machine: no instruction starts, outstanding AXI transactions finish, and the
first error is recorded with its position. After an error and after the end of a stream, progress,
levels and counters keep their values until the next start. `reset` may be written at any time; it
stops the machine in the same way, then clears the core, the counters and the error. A start needs
no reset before it.
"""

ERRORS = {
    ErrorCode.NONE: "no error",
    ErrorCode.INSTRUCTION: "the next word of the stream is an invalid instruction",
    ErrorCode.FETCH: "a read of the stream was answered with SLVERR or DECERR",
    ErrorCode.LOAD: "a read by load was answered with SLVERR or DECERR",
    ErrorCode.COMPUTE: "a read by compute was answered with SLVERR or DECERR",
    ErrorCode.STORE: "a write by store was answered with SLVERR or DECERR",
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
    yield "48 bits each, in two registers; the low halves are at these offsets,"
    yield f"{UNIT_STRIDE:#x} bytes from unit to unit, {COUNTER_STRIDE} from counter to counter. Every cycle of a unit"
    yield "counts in exactly one of them: they sum to CYCLES once the stream has ended"
    yield "([timing-contract.md](timing-contract.md), section 6). While it runs, cycles in which a unit's"
    yield "queue is empty count as `commands`; at the end, those after its last instruction move to `idle`."
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
