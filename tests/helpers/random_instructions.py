# SPDX-License-Identifier: Apache-2.0
"""Random valid instructions for tests of encoders, decoders and files; extremes are frequent.

Fields are drawn from the instruction table and then repaired by its rules, so a new field or rule
needs no change here. Each instruction is valid by itself; `random_programs` draws programs that
the verifier accepts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import (
    COL,
    COLUMNS,
    RULES,
    Instruction,
    MicroOp,
    Opcode,
    Rule,
    Slot,
    decode,
    encode_uops,
    fill_unit,
    layout,
    pack,
    uop_layout,
)
from vdla.hardware.isa.rules import reader
from vdla.hardware.program import Program, ProgramTensor

Values = NDArray[np.int64]
REPAIR_ROUNDS = 6


def _draw(slot: Slot, rng: np.random.Generator, count: int) -> Values:
    """Extremes, zero, small and uniform values of one field, about a fifth each."""
    if slot.field.enum is not None:
        return rng.choice(np.array([int(member) for member in slot.field.enum], np.int64), count)
    choices = np.stack(
        [
            np.full(count, slot.low),
            np.full(count, slot.high),
            np.zeros(count, np.int64),
            np.minimum(rng.integers(0, 4, count), slot.high),
            rng.integers(slot.low, slot.high + 1, count),
        ]
    )
    drawn: Values = choices[rng.integers(0, len(choices), count), np.arange(count)]
    return drawn


def _repair_field(config: Config, rule: Rule, table: Values, rows: NDArray[np.intp]) -> None:
    """Give the blamed field the simplest value that satisfies the rule."""
    column = COL[rule.field]
    for row in rows:
        opcode = Opcode(int(table[row, COL["opcode"]]))
        slot = next(slot for slot in layout(config)[opcode] if slot.field.name == rule.field)
        one = table[row : row + 1]
        for value in (0, 1, slot.low, slot.high):
            one[0, column] = value
            if rule.holds(reader(one, COL), config)[0]:
                break


def _repair(config: Config, table: Values) -> bool:
    """Repair each rule once; whether all held already."""
    clean = True
    fill_unit(config, table)
    for rule in RULES:
        rows = np.flatnonzero(np.isin(table[:, COL["opcode"]], rule.opcodes))
        broken = rows[~rule.holds(reader(table[rows], COL), config)]
        _repair_field(config, rule, table, broken)
        clean = clean and not len(broken)
    return clean


def random_columns(config: Config, rng: np.random.Generator, count: int) -> Values:
    """The columns of `count` random valid instructions."""
    table = np.zeros((count, len(COLUMNS)), np.int64)
    opcodes = rng.choice(np.array([int(opcode) for opcode in Opcode]), count)
    for opcode, slots in layout(config).items():
        rows = np.flatnonzero(opcodes == opcode)
        for slot in slots[1:]:
            table[rows, COL[slot.field.name]] = _draw(slot, rng, len(rows))
    table[:, COL["opcode"]] = opcodes
    begin = COL["uop_begin"]
    table[:, begin] = np.minimum(table[:, begin], config.uop_depth)  # an end beyond the greatest begin must exist
    if not any(_repair(config, table) for _ in range(REPAIR_ROUNDS)):
        raise AssertionError("the rules of the instruction set contradict each other")
    return table


def random_instructions(config: Config, rng: np.random.Generator, count: int) -> tuple[Instruction, ...]:
    """`count` random valid instructions."""
    return decode(config, pack(config, random_columns(config, rng, count)))


def random_instruction(config: Config, rng: np.random.Generator) -> Instruction:
    """One random valid instruction."""
    return random_instructions(config, rng, 1)[0]


def random_uops(config: Config, rng: np.random.Generator, count: int) -> tuple[MicroOp, ...]:
    """`count` random micro-ops."""
    columns = [_draw(slot, rng, count) for slot in uop_layout(config)]
    return tuple(MicroOp(*row) for row in np.stack(columns, axis=1).tolist())


_LINES = ("for co in range(4):", '  block "é#\u2028"', "")


def _random_tensors(config: Config, rng: np.random.Generator) -> tuple[ProgramTensor, ...]:
    table = encode_uops(config, random_uops(config, rng, 5)).tobytes()
    return (
        ProgramTensor(name="uops", role="constant", shape=(5,), dtype="uop", layout="", nbytes=len(table), data=table),
        ProgramTensor(name="input", role="input", shape=(2, 3), dtype="int8", layout="NC hw", nbytes=6),
        ProgramTensor(
            name="layer.0/weight", role="weight", shape=(40,), dtype="int8", layout="O", nbytes=40, data=rng.bytes(40)
        ),
        ProgramTensor(name="output", role="output", shape=(), dtype="int32", layout='a"b#', nbytes=4),
    )


def unordered_program(config: Config, seed: int, count: int = 20) -> Program:
    """A program of `count` random valid instructions: consistent, but without meaning."""
    rng = np.random.default_rng(seed)
    table = random_columns(config, rng, count)
    tensors = _random_tensors(config, rng)
    is_dma = np.isin(table[:, COL["opcode"]], (Opcode.LOAD, Opcode.STORE))
    tensor_of = np.where(is_dma, rng.integers(-1, len(tensors), count), -1).astype(np.int32)
    source_of = rng.integers(-1, len(_LINES), count).astype(np.int32)
    return Program(
        config=config,
        name=f"random {seed}",
        words=pack(config, table),
        tensors=tensors,
        tensor_of=tensor_of,
        source_lines=_LINES,
        source_of=source_of,
    )
