"""The fields of an extension's instruction, read from the bits of its word as declared.

An oracle of the decoder: the fields that all looped instructions share lie as in GEMM, behind the
number of the extension; those of its own follow in the order of the declaration.
"""

from __future__ import annotations

from vdla.compiler.extensions import Extension
from vdla.hardware.config import Config
from vdla.hardware.isa import Opcode, Words, layout

NUMBER_BITS = 4
HEAD_BITS = 3 + 4  # opcode and tokens


def number_of(word: Words) -> int:
    """The number of the extension in a word, `uint8[n]`."""
    return int.from_bytes(word.tobytes(), "little") >> HEAD_BITS & (1 << NUMBER_BITS) - 1


def declared_fields(word: Words, extension: Extension, config: Config) -> dict[str, int]:
    """The fields of a word, `uint8[n]`, of an instruction of `extension`, but for the opcode."""
    bits = int.from_bytes(word.tobytes(), "little")
    shared = layout(config)[Opcode.GEMM]
    widths = [(slot.field.name, slot.width, slot.field.signed) for slot in shared]
    width_of = {name: width for name, width, _ in widths}
    own = [(each.name, width_of.get(str(each.width), each.width), each.signed) for each in extension.fields]
    found = {}
    at = 0
    for name, width, signed in [*widths, *own]:
        if at == HEAD_BITS:
            at += NUMBER_BITS
        found[name] = _value(bits >> at, int(width), signed)
        at += int(width)
    del found["opcode"]
    return found


def _value(bits: int, width: int, signed: bool) -> int:
    value = bits & (1 << width) - 1
    return value - (1 << width) if signed and value >> width - 1 else value
