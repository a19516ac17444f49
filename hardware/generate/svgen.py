# SPDX-License-Identifier: Apache-2.0
"""The generator of `vdla_pkg.sv`: sizes, enums, a packed struct per format, timing constants.

The package is generated from the instruction table, so RTL and software agree on every bit. Packed
structs list the most significant field first; the table counts from bit 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum

from vdla.hardware import timing
from vdla.hardware.array_port import array_port
from vdla.hardware.config import Buffer, Config
from vdla.hardware.generate import register_package
from vdla.hardware.generate.datapath_ports import uses_array
from vdla.hardware.generate.extension_package import EXTENSION_PACKAGE, render_extension_package, require_datapaths
from vdla.hardware.generate.register_package import camel, parameter
from vdla.hardware.generate.rtl_files import FOLDER
from vdla.hardware.isa.formats import Slot, instruction_bytes, layout, uop_layout
from vdla.hardware.isa.instructions import Emit, Opcode, Operand, Source, StagedEmit, Unit, VectorOp
from vdla.hardware.isa.plug_in import PlugInUnit

ENUMS: dict[type[IntEnum], tuple[str, str, str]] = {
    Opcode: ("opcode_e", "Op", "The formats."),
    Unit: ("unit_e", "Unit", "The units that execute instructions."),
    Buffer: ("buffer_e", "Buf", "The on-chip buffers."),
    Emit: ("emit_e", "Emit", "What a finished sum sends to the output buffer."),
    VectorOp: ("vector_op_e", "Vec", "The operations of the vector unit."),
    Source: ("source_e", "Source", "The buffer that src of a VECTOR indexes."),
    Operand: ("operand_e", "Operand", "The second operand of a VECTOR."),
}
"""Type name, prefix of the members, comment."""

_TIMED = (
    "PAGE_BYTES", "MAX_OUTSTANDING", "LOADS_IN_FLIGHT", "COMPUTES_IN_FLIGHT", "STORES_IN_FLIGHT", "DISPATCH_DELAY",
    "COMMAND_DELAY", "PORT_DELAY", "MERGE_DELAY", "PORT_BURSTS", "LOAD_SETUP", "LOAD_TAIL", "ISSUE_DELAY",
    "STORE_SETUP", "STORE_TAIL",
)  # fmt: skip
TIMING: dict[str, int] = {camel(name): getattr(timing, name) for name in _TIMED}
"""The parameters of the timing contract."""


AXI_ADDRESS_BITS = 40
"""Bits of a byte address, as many as any board has; `dram` reaches 2**32 beats of 32 bytes."""

FIELD_WIDTHS = {
    "Sram": "sram",
    "Size": "x_size",
    "Stride": "y_stride",
    "Uop": "uop_end",
    "Loop": "loop0",
    "Acc": "acc",
    "Src": "src",
    "Wgt": "wgt",
    "Out": "out",
    "Scl": "scl",
}
"""The prefix of a parameter and a field of that width."""


_SIZES = (
    "batch", "block_in", "block_out", "inp_bits", "wgt_bits", "acc_bits", "out_bits", "array_rate", "axi_bits",
    "axi_ports", "burst_beats", "command_depth", "token_depth",
)  # fmt: skip


def _of_config(config: Config, *names: str) -> Iterator[str]:
    """Parameters of the fields and properties of a configuration."""
    return (parameter(camel(name), getattr(config, name)) for name in names)


def _sizes(config: Config) -> Iterator[str]:
    yield "  // Sizes."
    yield from _of_config(config, *_SIZES)
    yield parameter("InstrBits", 8 * instruction_bytes(config))
    yield parameter("AxiAddrBits", AXI_ADDRESS_BITS)
    yield f"  parameter logic [47:0] Fingerprint = 48'h{config.fingerprint};"
    yield from _buffers(config)
    yield from _of_config(config, "inp_vectors", "wgt_vectors", "out_slots")
    yield from _fields(config)


def _buffers(config: Config) -> Iterator[str]:
    yield ""
    yield "  // Buffers: entries, the bits of an entry, the bits of an index."
    for buffer in Buffer:
        name, depth = buffer.name.capitalize(), config.depths[buffer]
        yield parameter(f"{name}Depth", depth)
        yield parameter(f"{name}EntryBits", 8 * config.entry_bytes[buffer])
        yield parameter(f"{name}IndexBits", (depth - 1).bit_length())


def _fields(config: Config) -> Iterator[str]:
    yield ""
    yield "  // Bits of the fields that share a width."
    slots = {slot.field.name: slot for slots in layout(config).values() for slot in slots}
    for prefix, name in FIELD_WIDTHS.items():
        yield parameter(f"{prefix}FieldBits", slots[name].width)


def _timing(config: Config) -> Iterator[str]:
    yield "  // Timing contract, in cycles."
    derived = {
        "ReadChannelDelay": timing.read_delay,
        "MostReads": timing.most_reads,
        "ComputeDepth": timing.compute_depth,
        "FetchBufferBeats": timing.fetch_buffer_beats,
    }
    values = TIMING | {name: of_config(config) for name, of_config in derived.items()}
    yield from (parameter(name, value) for name, value in values.items())


def _enum(enum: type[IntEnum], width: int) -> Iterator[str]:
    name, prefix, doc = ENUMS[enum]
    yield f"  // {doc}"
    yield f"  typedef enum logic [{width - 1}:0] {{"
    members = [f"    {prefix}{member.name.capitalize()} = {width}'d{member.value}" for member in enum]
    yield ",\n".join(members)
    yield f"  }} {name};"


def _enum_of(slot: Slot) -> type[IntEnum] | None:
    """The names of a field's values; those that extensions add are in their package."""
    return Emit if slot.field.enum is StagedEmit else slot.field.enum


def _enums(config: Config) -> Iterator[str]:
    seen: set[type[IntEnum]] = set()
    for slots in layout(config).values():
        for slot in slots:
            enum = _enum_of(slot)
            if enum is not None and enum not in seen:
                seen.add(enum)
                yield ""
                yield from _enum(enum, slot.width)


def _type(slot: Slot) -> str:
    enum = _enum_of(slot)
    if enum is not None:
        return ENUMS[enum][0]
    sign = "logic signed" if slot.field.signed else "logic"
    return sign if slot.width == 1 else f"{sign} [{slot.width - 1}:0]"


def _struct(name: str, slots: Sequence[Slot], bits: int) -> Iterator[str]:
    rest = bits - slots[-1].offset - slots[-1].width
    yield ""
    yield "  typedef struct packed {"
    if rest:
        yield f"    logic [{rest - 1}:0] reserved;  // 0" if rest > 1 else "    logic reserved;  // 0"
    for slot in reversed(slots):
        yield f"    {_type(slot)} {slot.field.name};"
    yield f"  }} {name}_t;"


def _array_port(config: Config) -> Iterator[str]:
    """What datapaths need to know to use the array of multipliers."""
    array = array_port(config)
    yield ""
    yield "  // The array of multipliers: operands of inputs, columns of each, cycles from operands to sums."
    yield parameter("ArrayShares", array.shares)
    yield parameter("ArrayColumns", array.columns)
    yield parameter("ArrayFields", array.fields)
    yield parameter("ArrayPortLatency", array.latency)


def _package(config: Config, lent: bool) -> Iterator[str]:
    require_datapaths(config)
    yield "// SPDX-License-Identifier: Apache-2.0"
    yield f"// Configuration {config.name}, fingerprint {config.fingerprint}."
    yield "// Generated by hardware/generate/svgen.py from the instruction table; do not edit."
    yield ""
    yield "package vdla_pkg;"
    yield "  // A package has more parameters than a design uses."
    yield "  /* verilator lint_off UNUSEDPARAM */"
    yield from _sizes(config)
    yield ""
    yield from _timing(config)
    if lent:
        yield from _array_port(config)
    yield "  /* verilator lint_on UNUSEDPARAM */"
    yield from _enums(config)
    for opcode, slots in layout(config).items():
        yield from _struct(opcode.name.lower(), slots, 8 * instruction_bytes(config))
    yield from _struct("uop", uop_layout(config), 8 * config.uop_entry_bytes)
    yield ""
    yield "endpackage"


def render(config: Config) -> str:
    """The text of `vdla_pkg.sv`."""
    return "\n".join(_package(config, uses_array(config))) + "\n"


def render_for_datapath(config: Config, unit: PlugInUnit) -> str:
    """The text of `vdla_pkg.sv` with the sizes that a datapath depends on, the same for machines
    that differ in others.
    """
    plain = replace(config.plain, name="rtl", array_rate=1)
    return "\n".join(_package(plain, unit.array)) + "\n"


def packages(config: Config) -> dict[str, str]:
    """The text of every generated package by file name."""
    return {
        "vdla_pkg.sv": render(config),
        "vdla_regs_pkg.sv": register_package.render(),
        EXTENSION_PACKAGE: render_extension_package(config),
    }


def render_nameless(config: Config) -> str:
    """The text under a fixed name, common to configurations that differ in name, DRAM or clock."""
    return render(replace(config, name="rtl"))


def main() -> None:
    """Print the package of a preset, or with --write replace the committed packages."""
    parser = argparse.ArgumentParser(description="SystemVerilog package of a configuration")
    parser.add_argument("preset", nargs="?", default="pynq_z1")
    parser.add_argument("--write", action="store_true", help="write the packages of hardware/rtl")
    arguments = parser.parse_args()
    config = Config.preset(arguments.preset)
    if not arguments.write:
        print(render(config), end="")
        return
    for name, text in packages(config).items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
