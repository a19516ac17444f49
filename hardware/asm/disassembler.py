# SPDX-License-Identifier: Apache-2.0
"""The disassembler: from a program to text that assembles to the same program.

Fields that have their default are left out. A word that is not a valid instruction is printed as
`.word`, so broken programs can be read too.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable, Iterator
from enum import IntEnum
from functools import cache
from typing import Any, cast

import numpy as np

from vdla.hardware.asm.lines import quote
from vdla.hardware.config import Config
from vdla.hardware.isa import (
    Field,
    Instruction,
    IsaError,
    MicroOp,
    Unit,
    decode,
    decode_uops,
    mnemonic_of,
    table_of,
    unit_of,
    uop_layout,
)
from vdla.hardware.program import UOPS, Program, ProgramTensor

DATA_BYTES_PER_LINE = 32
TOKENS = {"wait": ("pop_prev", "pop_next"), "signal": ("push_prev", "push_next")}
NOT_PRINTED = frozenset({"opcode", "dram", *TOKENS["wait"], *TOKENS["signal"]})
CONFIG_LINES = (
    ("name", "clock_mhz"),
    ("batch", "block_in", "block_out", "inp_bits", "wgt_bits"),
    ("inp_kib", "wgt_kib", "scl_kib", "uop_kib", "acc_kib", "out_kib"),
    ("command_depth", "token_depth", "axi_bits", "burst_beats"),
)
RARE = ("array_rate", "axi_ports")
"""Fields that are printed only where they are not 1."""


# --- header --------------------------------------------------------------------------------------


def config_lines(config: Config) -> Iterator[str]:
    """The directives of a configuration."""
    for names in CONFIG_LINES:
        yield ".config " + " ".join(f"{name}={_value(getattr(config, name))}" for name in names)
    rare = [f"{name}={getattr(config, name)}" for name in RARE if getattr(config, name) != 1]
    if rare:
        yield ".config " + " ".join(rare)
    for plug_in in config.extensions:
        yield f".config extension={quote(plug_in.label)}"
    if config.stage is not None:
        yield f".config stage={quote(config.stage.label)}"
    dram = config.dram.to_dict()
    yield ".config " + " ".join(f"dram.{name}={value}" for name, value in dram.items())


def _value(value: object) -> str:
    return quote(value) if isinstance(value, str) else str(value)


def tensor_lines(config: Config, tensor: ProgramTensor) -> Iterator[str]:
    """The directives of a tensor and of its data."""
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    yield (
        f".tensor {tensor.name} role={tensor.role} dtype={quote(tensor.dtype)} shape={shape} "
        f"layout={quote(tensor.layout)} nbytes={tensor.nbytes}" + (f" whole={tensor.whole}" if tensor.whole else "")
    )
    if tensor.data is not None:
        yield from _uop_lines(config, tensor.data) if tensor.name == UOPS else _data_lines(tensor.name, tensor.data)


def _data_lines(name: str, data: bytes) -> Iterator[str]:
    for begin in range(0, len(data), DATA_BYTES_PER_LINE):
        yield f".data {name} {data[begin : begin + DATA_BYTES_PER_LINE].hex()}"


def _uop_lines(config: Config, data: bytes) -> Iterator[str]:
    try:
        uops = decode_uops(config, np.frombuffer(data, np.uint8).reshape(-1, config.uop_entry_bytes))
    except ValueError:  # not a table of micro-ops
        yield from _data_lines(UOPS, data)
        return
    for uop in uops:
        yield " ".join([".uop", *_uop_words(config, uop)])


def _uop_words(config: Config, uop: MicroOp) -> Iterator[str]:
    for slot in uop_layout(config):
        value = getattr(uop, slot.field.name)
        if value:
            yield slot.field.name if slot.width == 1 else f"{slot.field.name}={value}"


# --- instructions --------------------------------------------------------------------------------


def defaults(cls: type[Instruction]) -> dict[str, int]:
    """The default values of the optional fields of a class of instructions."""
    return _defaults(cast("Hashable", cls))


@cache
def _defaults(cls: Any) -> dict[str, int]:  # noqa: ANN401  a dataclass
    return {f.name: int(f.default) for f in dataclasses.fields(cls) if f.default is not dataclasses.MISSING}


def neighbours(unit: Unit) -> tuple[str | None, str | None]:
    """The names of the previous and the next unit; None at the ends of the chain."""
    names = [u.name.lower() for u in Unit]
    return (names[unit - 1] if unit > 0 else None), (names[unit + 1] if unit + 1 < len(names) else None)


def instruction_text(instruction: Instruction, dram: str | None = None) -> str:
    """The line of an instruction; `dram` replaces the printed address."""
    words = [mnemonic_of(type(instruction)), *_field_words(instruction, dram), *_token_words(instruction)]
    return " ".join(words)


def _field_words(instruction: Instruction, dram: str | None) -> Iterator[str]:
    default = defaults(type(instruction))
    for field in sorted(table_of(type(instruction)), key=lambda field: field.name in default):
        if field.name == "dram":
            yield from _dram_words(getattr(instruction, "dram", 0), dram)
        elif field.name not in NOT_PRINTED:
            yield from _field_word(field, getattr(instruction, field.name), default.get(field.name))


def _dram_words(beat: int, dram: str | None) -> Iterator[str]:
    if dram is not None:
        yield f"dram={dram}"
    elif beat:
        yield f"dram={beat:#x}"


def _field_word(field: Field, value: int, default: int | None) -> Iterator[str]:
    text = str(int(value)) if field.enum is None else _member(field.enum, value).name.lower()
    if default is None:
        yield text
    elif value != default:
        yield f"{field.name}={text}"


def _member(enum: type[IntEnum], value: int) -> IntEnum:
    """The member of a value, which has its machine's own where it was decoded."""
    return value if isinstance(value, IntEnum) else enum(value)


def _token_words(instruction: Instruction) -> Iterator[str]:
    units = neighbours(unit_of(instruction))
    for key, names in TOKENS.items():
        partners = [unit for name, unit in zip(names, units, strict=True) if unit and getattr(instruction, name)]
        if partners:
            yield f"{key}={','.join(partners)}"


# --- program -------------------------------------------------------------------------------------


def _row_text(program: Program, row: int, instruction: Instruction | None) -> str:
    tensor = program.tensor_of[row]
    name = program.tensors[tensor].name if tensor >= 0 else None
    source = f" @{program.source_of[row]}" if program.source_of[row] >= 0 else ""
    if instruction is None:
        return f".word {program.words[row].tobytes().hex()}" + (f" tensor={name}" if name else "") + source
    beat = getattr(instruction, "dram", 0)
    dram = None if name is None else f"{name}+{beat:#x}" if beat else name
    return instruction_text(instruction, dram) + source


def _instructions(program: Program) -> list[Instruction | None]:
    try:
        return list(decode(program.config, program.words))
    except IsaError:
        return [_one(program, row) for row in range(len(program))]


def _one(program: Program, row: int) -> Instruction | None:
    try:
        return decode(program.config, program.words[row : row + 1])[0]
    except IsaError:
        return None


def row_text(program: Program, row: int) -> str:
    """The line of an instruction of a program."""
    return _row_text(program, row, _one(program, row))


def _program_lines(program: Program, numbered: bool) -> Iterator[str]:
    yield f".program {json.dumps(program.name)}"
    yield from config_lines(program.config)
    for tensor in program.tensors:
        yield from tensor_lines(program.config, tensor)
    for line in program.source_lines:
        yield f".source {json.dumps(line)}"
    for row, instruction in enumerate(_instructions(program)):
        yield _row_text(program, row, instruction) + (f"  # {row}" if numbered else "")


def disassemble(program: Program, *, numbered: bool = False) -> str:
    """The text of a program, one instruction per line; `numbered` adds their numbers."""
    return "\n".join(_program_lines(program, numbered)) + "\n"
