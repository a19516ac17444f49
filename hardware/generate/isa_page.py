# SPDX-License-Identifier: Apache-2.0
"""The generator of docs/isa.md, the reference page of the instruction set for a configuration."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from enum import IntEnum

from vdla.hardware.config import Config
from vdla.hardware.isa.formats import FORMATS, Slot, instruction_bytes, uop_layout
from vdla.hardware.isa.instruction_set import Format, isa_of
from vdla.hardware.isa.instructions import Buffer, Emit, Opcode, Operand, Source, StagedEmit, Unit, VectorOp
from vdla.hardware.isa.plug_in import PlugIn, PlugInStage, Port
from vdla.hardware.isa.plug_in_state import StatePort
from vdla.hardware.isa.rules import RULES, Rule, plug_in_rules, rules_of

UNITS = {
    Opcode.LOAD: "load (inp, wgt, scl) or compute (uop, acc)",
    Opcode.STORE: "store",
    Opcode.SYNC: "the named one",
}
"""The units of the formats that are not always executed by compute."""
ENUMS: tuple[type[IntEnum], ...] = (Opcode, Unit, Buffer, Emit, VectorOp, Source, Operand)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"


def _bits(slot: Slot) -> str:
    return f"{slot.offset}" if slot.width == 1 else f"{slot.offset + slot.width - 1}:{slot.offset}"


def _kind(slot: Slot) -> str:
    if slot.field.enum is not None:
        return slot.field.enum.__name__
    return "signed" if slot.field.signed else "flag" if slot.width == 1 else "unsigned"


def _fields(slots: Sequence[Slot]) -> Iterator[str]:
    rows = [(f"`{slot.field.name}`", _bits(slot), slot.width, _kind(slot), slot.field.doc) for slot in slots]
    yield from table(("field", "bits", "width", "kind", "meaning"), rows)


def _rules(config: Config, encoding: Format) -> Iterator[Rule]:
    """The rules of a format except for those of all formats."""
    opcode = Opcode.GEMM if encoding.plug_in else encoding.code
    yield from (rule for rule in rules_of(config) if opcode in rule.opcodes and not set(FORMATS) <= set(rule.opcodes))
    if encoding.plug_in:
        yield from plug_in_rules(config, encoding.plug_in)


def _doc(cls: type) -> str:
    return (cls.__doc__ or "").strip()


def _format(config: Config, encoding: Format) -> Iterator[str]:
    yield ""
    yield f"## {encoding.name}"
    yield ""
    unit = UNITS.get(Opcode(encoding.code), "compute") if encoding.plug_in is None else "compute"
    yield f"{_doc(encoding.cls)} Unit: {unit}."
    if encoding.plug_in is not None:
        yield from _plug_in(config, encoding.plug_in)
    yield ""
    yield from _fields(encoding.slots)
    rules = [f"- `{rule.field}` must {rule.words}." for rule in _rules(config, encoding)]
    if rules:
        yield ""
        yield from rules


def _plug_in(config: Config, plug_in: PlugIn) -> Iterator[str]:
    yield ""
    number = config.extensions.index(plug_in)
    yield f"Number {number}, digest `{plug_in.digest}`. Interval `{plug_in.interval.text}`, latency"
    yield f"`{plug_in.latency.text}` cycles." + (" A what-if without a datapath." if plug_in.datapath is None else "")
    for field, port in (("src", plug_in.src), ("wgt", plug_in.wgt)):
        if port is not None and (port.entries > 1 or port.bits is not None):
            yield f"`{field}` counts {_counted(port)}."
    yield from (_state(port) for port in plug_in.states)


def _state(port: StatePort) -> str:
    """What an instruction does with a private state, in a sentence."""
    uses = [*(["reads"] if port.operand is not None else []), *(["writes"] if port.writes else [])]
    held = f"{port.state.rows} of {port.state.dtype}{list(port.state.shape)}"
    what = "the only row" if port.state.rows == 1 else "all rows" if port.whole else f"the row at `{port.index}`"
    return f"It {' and '.join(uses)} {what} of state `{port.state.label}`, {held}."


def _stage(stage: PlugInStage) -> Iterator[str]:
    yield ""
    yield f"## Stage {stage.name.upper()}"
    yield ""
    yield stage.doc
    yield "Results with `emit` STAGE are requantised and go through it."
    yield ""
    yield f"Digest `{stage.digest}`, latency {stage.latency} cycles, which every compute instruction takes."
    yield from (_state(port) for port in stage.states)


def _counted(port: Port) -> str:
    """What an index of an operand counts."""
    name = f"{port.buffer.name.lower()} entries"
    group = f"groups of {port.entries} {name}" if port.entries > 1 else name
    return group if port.bits is None else f"{group}, seen as elements of {port.bits} bits"


def _enums(config: Config) -> Iterator[str]:
    yield ""
    yield "## Values"
    yield ""
    enums = [StagedEmit if enum is Emit and config.stage is not None else enum for enum in ENUMS]
    rows = [
        (enum.__name__, _doc(enum), ", ".join(f"{member.value} {member.name}" for member in enum)) for enum in enums
    ]
    yield from table(("kind", "meaning", "values"), rows)


def _common_rules() -> Iterator[str]:
    for rule in RULES:
        if len(rule.opcodes) == len(FORMATS):
            yield f"- `{rule.field}` must {rule.words}."
    yield "- Bits outside of all fields must be 0."


def _page(config: Config) -> Iterator[str]:
    yield "# Instruction set reference"
    yield ""
    yield f"Configuration `{config.name}`, fingerprint `{config.fingerprint}`. Generated from the instruction table;"
    yield "widths follow the configuration. What the instructions compute is in"
    yield "[instructions.md](instructions.md). The same of any machine:"
    yield ""
    yield "```sh"
    yield f"vdla isa --preset {config.name} -o isa.md"
    yield "```"
    yield ""
    yield f"An instruction has {instruction_bytes(config)} bytes, a micro-op {config.uop_entry_bytes}, little-endian;"
    yield "fields lie from bit 0 upwards. In every instruction:"
    yield ""
    yield from _common_rules()
    for encoding in isa_of(config).formats.values():
        yield from _format(config, encoding)
    if config.stage is not None:
        yield from _stage(config.stage)
    yield ""
    yield "## Micro-op"
    yield ""
    yield from _fields(uop_layout(config))
    yield from _enums(config)


def render(config: Config) -> str:
    """The text of the page."""
    return "\n".join(_page(config)) + "\n"


def main() -> None:
    """`python -m vdla.hardware.generate.isa_page [preset] > docs/isa.md`."""
    parser = argparse.ArgumentParser(description="reference page of the instruction set")
    parser.add_argument("preset", nargs="?", default="pynq_z1")
    print(render(Config.preset(parser.parse_args().preset)), end="")


if __name__ == "__main__":
    main()
