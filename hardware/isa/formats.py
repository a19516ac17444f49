# SPDX-License-Identifier: Apache-2.0
"""The table of formats: every field of every format, its width a function of the configuration.

Encoder, decoder, assembler, SystemVerilog package, reference page and random instructions derive
from this table. Fields lie in table order from bit 0 upwards without gaps; the remaining bits are
0. A plug-in of the configuration adds a format: the fields of loops, then its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

from vdla.hardware.isa.instructions import Buffer, Emit, Opcode, Operand, Source, StagedEmit, Unit, VectorOp
from vdla.hardware.isa.plug_in import PlugIn, PlugInField
from vdla.hardware.isa.sizes import Sizes

WORD_BITS = (256, 512)
Width = Callable[[Sizes], int]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its width in bits, its interpretation, its meaning in a sentence."""

    name: str
    width: Width
    doc: str
    signed: bool = False
    enum: type[IntEnum] | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A field at its place in a word."""

    field: Field
    offset: int
    width: int

    @property
    def low(self) -> int:
        """The smallest value."""
        return -(1 << (self.width - 1)) if self.field.signed else 0

    @property
    def high(self) -> int:
        """The largest value."""
        return (1 << (self.width - self.field.signed)) - 1


# --- widths --------------------------------------------------------------------------------------


def _fixed(bits: int) -> Width:
    return lambda config: bits


def _index_bits(depth: int) -> int:
    return (depth - 1).bit_length()


def _acc(config: Sizes) -> int:
    return _index_bits(config.acc_depth)


def _src(config: Sizes) -> int:
    return _index_bits(max(config.inp_depth, config.inp_vectors, config.acc_depth))


def _wgt(config: Sizes) -> int:
    return _index_bits(max(config.wgt_depth, config.wgt_vectors))


def _out(config: Sizes) -> int:
    return _index_bits(config.out_depth)


def _scl(config: Sizes) -> int:
    return _index_bits(config.scl_depth)


def _uop(config: Sizes) -> int:
    return _index_bits(config.uop_depth) + 1  # an end may equal the depth


def _loop(config: Sizes) -> int:
    return max(_acc(config), _src(config)) + 1


def _sram(config: Sizes) -> int:
    return _index_bits(max(config.depths))


def _size(config: Sizes) -> int:
    return _sram(config) + 1  # a size may equal the depth


def _result(config: Sizes) -> int:
    return config.out_bits


def _number(config: Sizes) -> int:
    """Four bits up to 16 plug-ins, so that a few more change no encoding."""
    return max(4, _index_bits(len(config.extensions)))


# --- fields --------------------------------------------------------------------------------------

HEAD = (
    Field("opcode", _fixed(3), "The format of the instruction.", enum=Opcode),
    Field("pop_prev", _fixed(1), "Pop a token from the previous unit before starting."),
    Field("pop_next", _fixed(1), "Pop a token from the next unit before starting."),
    Field("push_prev", _fixed(1), "Push a token to the previous unit at the end."),
    Field("push_next", _fixed(1), "Push a token to the next unit at the end."),
)

DMA = (
    Field("sram", _sram, "First entry in the on-chip buffer; entries are contiguous."),
    Field("dram", _fixed(32), "First AXI beat in DRAM, relative to the instruction's tensor until linked."),
    Field("z_size", _size, "Planes, at least 1."),
    Field("y_size", _size, "Rows of data in a plane."),
    Field("x_size", _size, "Entries of data in a row, contiguous in DRAM."),
    Field("z_stride", _fixed(24), "AXI beats from one plane to the next."),
    Field("y_stride", _fixed(24), "AXI beats from one row to the next."),
)

PADDING = (
    Field("y_before", _fixed(8), "Rows of padding before the data of each plane."),
    Field("y_after", _fixed(8), "Rows of padding after the data of each plane."),
    Field("x_before", _fixed(8), "Entries of padding before the data of each row."),
    Field("x_after", _fixed(8), "Entries of padding after the data of each row."),
    Field("pad_value", _fixed(32), "Value of each element of the padding.", signed=True),
)

LOOPS = (
    Field("init", _fixed(1), "A micro-op marked first starts a new sum instead of adding to the old one."),
    Field("emit", _fixed(2), "What a micro-op marked last sends to the output buffer.", enum=Emit),
    Field("uop_begin", _uop, "First micro-op of the kernel."),
    Field("uop_end", _uop, "One past the last micro-op of the kernel."),
    Field("loop0", _loop, "Iterations of the outer loop, at least 1."),
    Field("loop1", _loop, "Iterations of the inner loop, at least 1."),
    Field("acc", _acc, "Base index of the accumulator entry read and written."),
    Field("src", _src, "Base index of the input entry (GEMM), or of the vector in the source buffer (VECTOR)."),
    Field("wgt", _wgt, "Base index of the weight entry (GEMM), or of the vector in the weight buffer (VECTOR)."),
    Field("out", _out, "Base index of the results; RAW counts in slots of one accumulator entry."),
    Field("scl", _scl, "Base index of the requantisation parameters, without an offset from micro-ops."),
    Field("acc0", _acc, "Added to the accumulator and output index at each outer iteration."),
    Field("acc1", _acc, "Added to the accumulator and output index at each inner iteration."),
    Field("src0", _src, "Added to the source index at each outer iteration."),
    Field("src1", _src, "Added to the source index at each inner iteration."),
    Field("wgt0", _wgt, "Added to the weight index at each outer iteration."),
    Field("wgt1", _wgt, "Added to the weight index at each inner iteration."),
    Field("scl0", _scl, "Added to the scale index at each outer iteration."),
    Field("scl1", _scl, "Added to the scale index at each inner iteration."),
    Field("zero_point", _result, "Added to a requantised result before it is clipped.", signed=True),
    Field("clip_lo", _result, "Lower bound of requantised results.", signed=True),
    Field("clip_hi", _result, "Upper bound of requantised results.", signed=True),
)

LOAD = (
    Field("buffer", _fixed(3), "The buffer written: inp, wgt, scl by load; uop, acc by compute.", enum=Buffer),
    Field("widen", _fixed(1), "DRAM holds elements of the activation width, sign-extended to int32 (acc only)."),
    *DMA,
    *PADDING,
)
VECTOR = (
    *LOOPS,
    Field("op", _fixed(4), "The operation on the accumulator entry.", enum=VectorOp),
    Field("source", _fixed(1), "The buffer that src indexes.", enum=Source),
    Field("operand", _fixed(2), "Where the second operand comes from.", enum=Operand),
    Field("imm", _fixed(16), "The second operand when it is an immediate.", signed=True),
)
SYNC = (Field("unit", _fixed(2), "The unit that pops and pushes the tokens.", enum=Unit),)

EXTENSION_FIELD = Field("extension", _number, "The plug-in, by its number.")
"""Follows HEAD in every instruction of a plug-in, so that its place does not depend on which."""

FORMATS: dict[Opcode, tuple[Field, ...]] = {
    Opcode.LOAD: HEAD + LOAD,
    Opcode.STORE: HEAD + DMA,
    Opcode.GEMM: HEAD + LOOPS,
    Opcode.VECTOR: HEAD + VECTOR,
    Opcode.SYNC: HEAD + SYNC,
}

UOP_FORMAT = (
    Field("acc", _acc, "Added to the accumulator and output index."),
    Field("src", _src, "Added to the source index."),
    Field("wgt", _wgt, "Added to the weight index."),
    Field("first", _fixed(1), "Starts a sum if the instruction has init."),
    Field("last", _fixed(1), "Finishes a sum, which is sent to the output buffer as emit says."),
)


# --- plug-ins ------------------------------------------------------------------------------------

_NAMED_WIDTHS: dict[str, Width] = {f.name: f.width for f in LOOPS}


def plug_in_fields(plug_in: PlugIn) -> tuple[Field, ...]:
    """The fields of a plug-in's instruction, except for `opcode` and `extension`."""
    return (*HEAD[1:], *LOOPS, *(_own_field(field) for field in plug_in.fields))


def _own_field(field: PlugInField) -> Field:
    width = _NAMED_WIDTHS[field.width] if isinstance(field.width, str) else _fixed(field.width)
    return Field(field.name, width, field.doc, field.signed)


@lru_cache(maxsize=64)
def plug_in_layouts(config: Sizes) -> tuple[tuple[Slot, ...], ...]:
    """The placed fields of the instruction of each plug-in."""
    heads = [(*HEAD, EXTENSION_FIELD, *plug_in_fields(extension)[len(HEAD) - 1 :]) for extension in config.extensions]
    return tuple(_place(config, fields) for fields in heads)


# --- placement -----------------------------------------------------------------------------------


def _place(config: Sizes, fields: tuple[Field, ...]) -> tuple[Slot, ...]:
    slots: list[Slot] = []
    offset = 0
    for field in (_of_machine(config, field) for field in fields):
        slots.append(Slot(field, offset, field.width(config)))
        offset += slots[-1].width
    return tuple(slots)


def _of_machine(config: Sizes, field: Field) -> Field:
    """A field as the machine has it: `emit` has one code more where there is a stage."""
    return replace(field, enum=StagedEmit) if field.enum is Emit and config.stage is not None else field


def _end(slots: tuple[Slot, ...]) -> int:
    return slots[-1].offset + slots[-1].width


@lru_cache(maxsize=64)
def layout(config: Sizes) -> dict[Opcode, tuple[Slot, ...]]:
    """The placed fields of each format that every machine has."""
    return {opcode: _place(config, fields) for opcode, fields in FORMATS.items()}


@lru_cache(maxsize=64)
def uop_layout(config: Sizes) -> tuple[Slot, ...]:
    """The placed fields of a micro-op."""
    return _place(config, UOP_FORMAT)


@lru_cache(maxsize=64)
def instruction_bytes(config: Sizes) -> int:
    """Bytes of an instruction: 32, or 64 if the widest format or a beat needs it."""
    widest = max(_end(slots) for slots in (*layout(config).values(), *plug_in_layouts(config)))
    return _word_bits(config, widest) // 8


def _word_bits(config: Sizes, widest: int) -> int:
    """The shortest word for formats of so many bits; a word is one beat at least."""
    return next((bits for bits in WORD_BITS if bits >= max(widest, 8 * config.axi_bytes)), WORD_BITS[-1])


def misfit(config: Sizes) -> str | None:
    """The field that does not fit the encoding, in a sentence; None if all fit."""
    limits = [(opcode.name, slots, WORD_BITS[-1]) for opcode, slots in layout(config).items()]
    for name, slots, limit in [*limits, ("micro-op", uop_layout(config), 8 * config.uop_entry_bytes)]:
        for slot in slots:
            if slot.offset + slot.width > limit:
                return f"{name} field {slot.field.name} must end within {limit} bits, got {slot.offset + slot.width}"
    return None


def plug_in_misfit(config: Sizes) -> tuple[PlugIn, str] | None:
    """The first plug-in whose format does not fit, and why; None if all fit.

    A wider word costs every program twice the bandwidth of its instructions, so only a plug-in that
    is declared `wide` may widen it.
    """
    plain = max(_end(slots) for slots in layout(config).values())
    plain_bits = _word_bits(config, plain)
    for plug_in, slots in zip(config.extensions, plug_in_layouts(config), strict=True):
        limit = WORD_BITS[-1] if plug_in.wide else plain_bits
        for slot in slots:
            if slot.offset + slot.width > limit:
                text = f"field {slot.field.name} must end within {limit} bits, got {slot.offset + slot.width}"
                remedy = "" if limit == WORD_BITS[-1] else f"; shorten it, or allow {WORD_BITS[-1]} bits by wide=True"
                return plug_in, text + remedy
    return None
