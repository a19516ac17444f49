# SPDX-License-Identifier: Apache-2.0
"""A naive model of the accesses of a program: decodes its words and runs every loop in Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from helpers.token_model import Edge, ends_before, most_in_flight, tokens_of
from vdla.compiler.codegen.vdla.tokens import IssuedOp
from vdla.hardware.config import MIN_TOKEN_DEPTH, Buffer, Config
from vdla.hardware.isa import (
    Emit,
    Gemm,
    Instruction,
    Load,
    MicroOp,
    Operand,
    Source,
    Store,
    Unit,
    Vector,
    VectorOp,
    decode,
    decode_uops,
    unit_of,
)
from vdla.hardware.program import Program

Space = Buffer | tuple[str, int]
Access = tuple[Space, int, bool]  # space, entry, written


def check_program(program: Program) -> list[Instruction]:
    """Checks that tokens order every dependence and fit their queues; returns the instructions."""
    instructions = list(decode(program.config, program.words))
    places = tuple(_place(instruction) for instruction in instructions)
    ordered = ends_before(places, tokens_of(places))
    touched = [set(accesses) for accesses in all_accesses(program, instructions)]
    for a, b in conflicts([place.unit for place in places], touched):
        assert ordered[a, b], f"{instructions[a]} must end before {instructions[b]} starts"
    assert most_in_flight(places) <= MIN_TOKEN_DEPTH
    return instructions


def conflicts(units: list[Unit], touched: list[set[Access]]) -> list[Edge]:
    def conflict(a: int, b: int) -> bool:
        return any(
            (space, entry, True) in touched[b] or (writes and (space, entry, False) in touched[b])
            for space, entry, writes in touched[a]
        )

    return [(a, b) for a, b in combinations(range(len(units)), 2) if units[a] != units[b] and conflict(a, b)]


def _place(instruction: Instruction) -> IssuedOp:
    unit = unit_of(instruction)
    pops = {unit - 1: instruction.pop_prev, unit + 1: instruction.pop_next}
    pushes = {unit - 1: instruction.push_prev, unit + 1: instruction.push_next}
    return IssuedOp(
        0, unit, frozenset(Unit(u) for u in pops if pops[u]), frozenset(Unit(u) for u in pushes if pushes[u])
    )


def all_accesses(program: Program, instructions: list[Instruction]) -> Iterator[list[Access]]:
    """The accesses of each instruction, tracking the micro-op buffer; checks their ranges."""
    config = program.config
    uops: dict[int, MicroOp] = {}
    for instruction, tensor in zip(instructions, program.tensor_of, strict=True):
        accesses = list(accesses_of(config, instruction, uops, int(tensor)))
        for space, entry, _ in accesses:
            limit = config.depths[space] if isinstance(space, Buffer) else program.tensors[space[1]].nbytes
            assert 0 <= entry < limit, f"{instruction} leaves {space}"
        yield accesses
        if isinstance(instruction, Load) and instruction.buffer == Buffer.UOP:
            table = program.tensors[int(tensor)]
            first, nbytes = instruction.dram * config.axi_bytes, instruction.x_size * config.uop_entry_bytes
            rows = np.frombuffer(table.data[first : first + nbytes], np.uint8).reshape(-1, config.uop_entry_bytes)
            uops |= dict(enumerate(decode_uops(config, rows), start=instruction.sram))


def accesses_of(config: Config, instruction: Instruction, uops: dict[int, MicroOp], tensor: int) -> Iterator[Access]:
    match instruction:
        case Load():
            rows = instruction.y_before + instruction.y_size + instruction.y_after
            count = instruction.z_size * rows * (instruction.x_before + instruction.x_size + instruction.x_after)
            yield from ((instruction.buffer, instruction.sram + i, True) for i in range(count))
            size = config.entry_bytes[Buffer.OUT if instruction.widen else instruction.buffer]
            yield from _dram(config, instruction, size, tensor, False)
        case Store():
            count = instruction.z_size * instruction.y_size * instruction.x_size
            yield from ((Buffer.OUT, instruction.sram + i, False) for i in range(count))
            yield from _dram(config, instruction, config.entry_bytes[Buffer.OUT], tensor, True)
        case Gemm() | Vector():
            for i in range(instruction.loop0):
                for j in range(instruction.loop1):
                    for index in range(instruction.uop_begin, instruction.uop_end):
                        yield from _iteration(config, instruction, uops[index], i, j)


def _dram(config: Config, dma: Load | Store, size: int, tensor: int, writes: bool) -> Iterator[Access]:
    for z in range(dma.z_size):
        for y in range(dma.y_size):
            start = (dma.dram + z * dma.z_stride + y * dma.y_stride) * config.axi_bytes
            yield from ((("dram", tensor), byte, writes) for byte in range(start, start + dma.x_size * size))


def _iteration(config: Config, op: Gemm | Vector, uop: MicroOp, i: int, j: int) -> Iterator[Access]:
    acc = uop.acc + i * op.acc0 + j * op.acc1
    src = op.src + uop.src + i * op.src0 + j * op.src1
    wgt = op.wgt + uop.wgt + i * op.wgt0 + j * op.wgt1
    yield Buffer.ACC, op.acc + acc, True
    if isinstance(op, Gemm):
        yield Buffer.INP, src, False
        yield Buffer.WGT, wgt, False
    else:
        if op.operand == Operand.SRC or op.op == VectorOp.MAC:
            if op.source == Source.ACC:
                yield Buffer.ACC, src, False
            else:
                size = config.batch * config.block_out
                yield from _elements(Buffer.INP, src * size, size, config.batch * config.block_in, False)
        if op.operand == Operand.WGT:
            yield from _elements(
                Buffer.WGT, wgt * config.block_out, config.block_out, config.block_out * config.block_in, False
            )
    if op.emit and uop.last:
        width = 1 if op.emit == Emit.REQUANT else config.acc_bits // config.out_bits
        yield from ((Buffer.OUT, (op.out + acc) * width + k, True) for k in range(width))
        if op.emit == Emit.REQUANT:
            yield Buffer.SCL, op.scl + i * op.scl0 + j * op.scl1, False


def _elements(buffer: Buffer, start: int, count: int, entry: int, writes: bool) -> Iterator[Access]:
    """The entries of `entry` elements that contain elements [start, start + count)."""
    yield from (
        (buffer, index, writes) for index in sorted({element // entry for element in range(start, start + count)})
    )
