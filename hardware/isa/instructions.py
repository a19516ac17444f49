# SPDX-License-Identifier: Apache-2.0
"""Instructions as values: one frozen dataclass per format.

A default is the value that an unused field must have. Values are not checked here but by the
encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from vdla.hardware.isa.units import Unit

__all__ = [
    "Buffer",
    "Emit",
    "Extended",
    "Gemm",
    "Instruction",
    "Load",
    "MicroOp",
    "Opcode",
    "Operand",
    "Source",
    "StagedEmit",
    "Store",
    "Sync",
    "Unit",
    "Vector",
    "VectorOp",
    "opcode_of",
    "unit_of",
]


class Opcode(IntEnum):
    """The formats; 0 is invalid, so that cleared memory is not a program."""

    LOAD = 1
    STORE = 2
    GEMM = 3
    VECTOR = 4
    SYNC = 5


class Buffer(IntEnum):
    """The on-chip buffers."""

    INP = 0
    WGT = 1
    SCL = 2
    UOP = 3
    ACC = 4
    OUT = 5


class Emit(IntEnum):
    """What a finished sum sends to the output buffer."""

    NONE = 0
    REQUANT = 1
    RAW = 2


class StagedEmit(IntEnum):
    """What a finished sum sends on a machine with a stage on the way out."""

    NONE = Emit.NONE
    REQUANT = Emit.REQUANT
    RAW = Emit.RAW
    STAGE = 3  # requantised, then through the stage


class VectorOp(IntEnum):
    """The operations of the vector unit."""

    ADD = 0
    SUB = 1
    MUL = 2
    MIN = 3
    MAX = 4
    SHL = 5
    SHR = 6
    CLIP = 7
    MOV = 8
    MAC = 9


class Source(IntEnum):
    """The buffer that `src` of a VECTOR indexes."""

    ACC = 0
    INP = 1


class Operand(IntEnum):
    """The second operand of a VECTOR."""

    SRC = 0
    WGT = 1
    IMM = 2


@dataclass(frozen=True, slots=True)
class Load:
    """Fill entries of a buffer from DRAM, with padding."""

    buffer: Buffer
    sram: int = 0
    dram: int = 0
    z_size: int = 1
    y_size: int = 1
    x_size: int = 1
    z_stride: int = 0
    y_stride: int = 0
    y_before: int = 0
    y_after: int = 0
    x_before: int = 0
    x_after: int = 0
    pad_value: int = 0
    widen: int = 0
    pop_prev: int = 0
    pop_next: int = 0
    push_prev: int = 0
    push_next: int = 0


@dataclass(frozen=True, slots=True)
class Store:
    """Copy entries of the output buffer to DRAM."""

    sram: int = 0
    dram: int = 0
    z_size: int = 1
    y_size: int = 1
    x_size: int = 1
    z_stride: int = 0
    y_stride: int = 0
    pop_prev: int = 0
    pop_next: int = 0
    push_prev: int = 0
    push_next: int = 0


@dataclass(frozen=True, slots=True)
class Gemm:
    """Accumulate matrix products of input and weight entries."""

    uop_begin: int = 0
    uop_end: int = 1
    loop0: int = 1
    loop1: int = 1
    init: int = 0
    emit: Emit | StagedEmit = Emit.NONE
    acc: int = 0
    src: int = 0
    wgt: int = 0
    out: int = 0
    scl: int = 0
    acc0: int = 0
    acc1: int = 0
    src0: int = 0
    src1: int = 0
    wgt0: int = 0
    wgt1: int = 0
    scl0: int = 0
    scl1: int = 0
    zero_point: int = 0
    clip_lo: int = 0
    clip_hi: int = 0
    pop_prev: int = 0
    pop_next: int = 0
    push_prev: int = 0
    push_next: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """Element-wise operations on accumulator entries."""

    op: VectorOp
    operand: Operand = Operand.SRC
    source: Source = Source.ACC
    imm: int = 0
    uop_begin: int = 0
    uop_end: int = 1
    loop0: int = 1
    loop1: int = 1
    init: int = 0
    emit: Emit | StagedEmit = Emit.NONE
    acc: int = 0
    src: int = 0
    wgt: int = 0
    out: int = 0
    scl: int = 0
    acc0: int = 0
    acc1: int = 0
    src0: int = 0
    src1: int = 0
    wgt0: int = 0
    wgt1: int = 0
    scl0: int = 0
    scl1: int = 0
    zero_point: int = 0
    clip_lo: int = 0
    clip_hi: int = 0
    pop_prev: int = 0
    pop_next: int = 0
    push_prev: int = 0
    push_next: int = 0


@dataclass(frozen=True, slots=True)
class Sync:
    """Pop and push tokens only."""

    unit: Unit
    pop_prev: int = 0
    pop_next: int = 0
    push_prev: int = 0
    push_next: int = 0


@dataclass(frozen=True, slots=True)
class MicroOp:
    """One step of a kernel: offsets added to the instruction's indices."""

    acc: int = 0
    src: int = 0
    wgt: int = 0
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Extended:
    """An instruction of an extension: the base of the classes that a configuration generates."""

    mnemonic: ClassVar[str]
    plug_in: ClassVar[Any]  # the `PlugIn`, which lies above this module, as do the fields of `table`
    table: ClassVar[tuple[Any, ...]]


Instruction = Load | Store | Gemm | Vector | Sync | Extended

EXTENSION = 6
"""The opcode of all instructions of extensions, which the field `extension` tells apart."""

CLASSES: dict[Opcode, type[Instruction]] = {
    Opcode.LOAD: Load,
    Opcode.STORE: Store,
    Opcode.GEMM: Gemm,
    Opcode.VECTOR: Vector,
    Opcode.SYNC: Sync,
}
_OPCODES = {cls: opcode for opcode, cls in CLASSES.items()}
COMPUTE_BUFFERS = frozenset({Buffer.UOP, Buffer.ACC})


def opcode_of(instruction: Instruction) -> Opcode:
    """The opcode of an instruction that every machine has."""
    return _OPCODES[type(instruction)]


def unit_of(instruction: Instruction) -> Unit:
    """The unit that executes an instruction."""
    match instruction:
        case Load(buffer=buffer):
            return Unit.COMPUTE if buffer in COMPUTE_BUFFERS else Unit.LOAD
        case Store():
            return Unit.STORE
        case Sync(unit=unit):
            return Unit(unit)
        case Gemm() | Vector() | Extended():
            return Unit.COMPUTE
